"""What the page weighs, and where it loads from."""

import gzip
import re

from tests.console.browser import STATIC, needs_browser

pytestmark = needs_browser


def packed(path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


def test_the_page_stays_small():
    """In bytes as they are sent: the first page with all it imports, all scripts, and styles."""
    scripts = {path.name: path for path in (STATIC / "assets").glob("*.js")}
    styles = list((STATIC / "assets").glob("*.css"))
    page = (STATIC / "index.html").read_text()
    first: set[str] = set()
    wanted = re.findall(r"assets/([\w.-]+\.js)", page)
    wanted += [name for name in scripts if name.startswith("now-")]
    while wanted:
        name = wanted.pop()
        if name not in first:
            first.add(name)
            wanted += re.findall(r'(?:from|import)"\./([\w.-]+\.js)"', scripts[name].read_text())
    css = sum(map(packed, styles))
    load = packed(STATIC / "index.html") + css + sum(packed(scripts[name]) for name in first)
    whole = sum(map(packed, scripts.values()))
    files = sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file())
    print(f"first page {load:,} bytes, all scripts {whole:,}, styles {css:,}, files {files:,}")
    assert any(name.startswith("now-") for name in first)
    assert load <= 60_000
    assert whole <= 170_000
    assert css <= 12_000
    assert files <= 600_000


def test_nothing_is_loaded_from_elsewhere():
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"(?:src|href)=[\"']?(https?:)?//", page) == []
    for path in (STATIC / "assets").glob("*.css"):
        assert "url(http" not in path.read_text()
