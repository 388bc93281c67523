"""The documentation as a site: it builds without a complaint, and nothing is missing in it."""

import re
import shutil
import sys
import tomllib

import pytest

import accord
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
    assert "<table>" in (tmp_path / "site/settings/index.html").read_text()
    start = (tmp_path / "site/start/index.html").read_text()
    assert "language-python highlight" in start
    assert re.findall(r"<a [^>]*href[^>]*></a>", start) == [], "a stop of the tab key without words"


def test_every_page_is_in_the_navigation():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert in_nav(nav) == PAGES


def test_every_page_is_named_for_models():
    linked = set(re.findall(r"\((\S+?\.md)\)", (DOCS / "llms.txt").read_text()))
    assert linked == {page for page in PAGES if not page.endswith(".zh.md")} - {"index.md"}


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    assert {name for name in dir(accord) if f"## accord.{name}\n" not in pages} == set()
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
    assert [group for group in [nav, *groups(nav)] if len(group) > 7] == []


CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CHINESE = ["README.zh.md", *sorted(f"docs/{page}" for page in PAGES if page.endswith(".zh.md"))]


@pytest.mark.parametrize("page", CHINESE)
def test_both_languages_show_the_same_code(page):
    """The code of the English page is run by a test, so the Chinese page's is too."""
    english = ROOT / page.replace(".zh.md", ".md")
    assert CODE.findall((ROOT / page).read_text()) == CODE.findall(english.read_text())


@pytest.mark.parametrize("page", CHINESE)
def test_both_languages_have_the_same_sections(page):
    """A section that is added to the English page is missed in the Chinese one."""

    def outline(page: str) -> list[str]:
        text = re.sub(
            r"^```.*?^```$", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE
        )
        return re.findall(r"^(#+) |^(\|)---", text, re.MULTILINE)

    assert outline(page) == outline(page.replace(".zh.md", ".md"))
