"""Markdown on a terminal: looks instead of marks, and nothing of the text lost."""

import pytest

from accord.cli.markdown import Markdown, render

B, C, D, N = "\033[1m", "\033[36m", "\033[2m", "\033[0m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n", "plain text\n"),
        ("# Title\nbody", f"{B}Title{N}\nbody"),
        ("a **bold** word", f"a {B}bold{N} word"),
        ("call `run()` now", f"call {C}run(){N} now"),
        ("# A `b` c\n", f"{B}A {C}b{N}{B} c{N}\n"),
        ("```python\nx = a ** b  # `no`\n```\nend", None),
        ("2 * 3 ** 4 and a*b*c", "2 * 3 ** 4 and a*b*c"),
        ("**never closed\nnext", f"{B}never closed{N}\nnext"),
        ("#hashtag", "#hashtag"),
        ("- one\n  - two\n", "- one\n  - two\n"),
        ("ends in *", "ends in *"),
        ("", ""),
    ],
)
def test_marks_become_looks(text, shown):
    """Models write Markdown unasked; code keeps every character."""
    if shown is None:
        shown = f"{D}```python{N}\nx = a ** b  # `no`\n{D}```{N}\nend"
    assert render(text) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_stream_shows_the_same_as_the_whole(size):
    """Tokens break marks anywhere."""
    text = "# Title\n\n**bold** and `code`\n\n```\na ** b\n```\n* item\n### Last **b**"
    markdown = Markdown()
    pieces = [markdown.feed(text[i : i + size]) for i in range(0, len(text), size)]
    assert "".join(pieces) + markdown.end() == render(text)


def test_text_is_shown_as_it_comes():
    """Only what may be a mark waits for what follows."""
    markdown = Markdown()
    assert markdown.feed("Hel") == "Hel"
    assert markdown.feed("lo *") == "lo "
    assert markdown.feed("world") == "*world"
