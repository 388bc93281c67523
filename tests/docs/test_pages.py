"""The pages a new user follows: every file and every command in them does what is shown."""

import sys

import pytest

from tests.docs.page import ROOT, Reader, blocks


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Someone with an empty folder, whose files are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield Reader(tmp_path)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
async def test_a_page_can_be_followed_from_top_to_bottom(reader, page):
    """What a newcomer copies must work, or nothing else we say is believed."""
    await reader.follow(ROOT / page)
    assert {"accord serve", "accord send", "call.py", "trip.py"} <= set(reader.done)


# Chinese pages have the code of the English ones: test_site.py compares them.
GUIDES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs/guides").glob("*.md")
    if not page.name.endswith(".zh.md")
)


@pytest.mark.parametrize("page", GUIDES)
async def test_a_guide_can_be_followed_from_top_to_bottom(reader, page):
    await reader.follow(ROOT / page)
    assert reader.done, "nothing on this page was run"


async def test_the_page_on_conversations_is_true(reader):
    await reader.follow(ROOT / "docs/conversations.md")
    assert reader.done == ["chat.py", "test_chat.py"]


async def test_the_hooks_on_the_page_on_observability_work(reader):
    for language, text in blocks(ROOT / "docs/observability.md"):
        if language == "python":
            await reader.write(text)
    assert reader.done == ["desk.py", "test_desk.py"]


def test_the_readme_fits_on_a_page_or_two():
    assert 75 <= len((ROOT / "README.md").read_text().splitlines()) <= 150
