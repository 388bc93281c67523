"""The documentation as a site: it builds without a complaint, and nothing is missing in it."""

import re
import shutil
import sys
import tomllib

from accord import __all__ as names
from tests.docs.page import ROOT
from tests.processes import run

DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def in_nav(entries) -> set[str]:
    """The pages a navigation names."""
    if isinstance(entries, str):
        return {entries}
    values = entries.values() if isinstance(entries, dict) else entries
    return set().union(*[in_nav(entry) for entry in values])


async def test_the_site_builds_without_a_complaint(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    done = await run(sys.executable, "-m", "zensical", "build", "--strict", cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    page = (tmp_path / "site/reference/agent/index.html").read_text()
    assert 'id="contextask"' in page


def test_every_page_is_in_the_navigation():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert in_nav(nav) == PAGES


def test_every_page_is_named_for_models():
    linked = set(re.findall(r"\((\S+?\.md)\)", (DOCS / "llms.txt").read_text()))
    assert linked == PAGES - {"index.md", "start.zh.md"}


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    assert {name for name in names if f"## accord.{name}\n" not in pages} == set()
    assert "### Agent.skill\n" in pages, "what is inherited is there too"


async def test_the_reference_is_what_the_code_says():
    """Signatures, docstrings and the help of commands: `make reference` writes them anew."""
    done = await run(sys.executable, DOCS / "reference.py", "--check")
    assert done.code == 0, f"make reference writes these anew: {done.out}{done.err}"


def test_a_group_of_the_menu_can_be_taken_in_at_a_glance():
    def groups(entries):
        for entry in entries:
            for inside in entry.values() if isinstance(entry, dict) else ():
                yield inside
                yield from groups(inside)

    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert [group for group in groups(nav) if len(group) > 7] == []


def test_both_languages_show_the_same_code():
    code = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
    english, chinese = (DOCS / name for name in ("start.md", "start.zh.md"))
    assert code.findall(english.read_text()) == code.findall(chinese.read_text())
