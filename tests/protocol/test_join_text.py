"""Adjacent plain text parts of an artifact are one text."""

import time

import pytest

from accord.model import Part, join_text

pytestmark = pytest.mark.alone

FILE = Part(url="https://x.y/z")


@pytest.mark.parametrize(
    ("parts", "joined"),
    [
        ([Part(text="a"), Part(text="b"), Part(text="c")], [Part(text="abc")]),
        (
            [Part(text="a"), FILE, Part(text="b"), Part(text="c")],
            [Part(text="a"), FILE, Part(text="bc")],
        ),
        ([Part(text="a"), Part(text="b"), FILE], [Part(text="ab"), FILE]),
        ([Part(text=""), Part(text="")], [Part(text="")]),
        (
            [
                Part(text="a", media_type="text/x"),
                Part(text="b", media_type="text/x"),
                Part(text="c"),
            ],
            [Part(text="ab", media_type="text/x"), Part(text="c")],
        ),
    ],
)
def test_adjacent_plain_texts_are_joined(parts, joined):
    """Only neighbours, and only of one media type. The parts given stay as they are: events share
    them.
    """
    before = [
        Part(**{name: getattr(part, name) for name in part.__struct_fields__}) for part in parts
    ]
    assert join_text(parts) == joined
    assert parts == before


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Part(text="a")],
        [FILE, FILE],
        [Part(data=1), Part(data=2)],
        [Part(text="a"), FILE, Part(text="b")],
        [Part(text="a", media_type="text/x"), Part(text="b", media_type="text/y")],
        [Part(text="a", metadata={"page": 1}), Part(text="b")],
        [Part(text="a"), Part(text="b", metadata={})],
        [Part(text="a", filename="a.txt"), Part(text="b", filename="a.txt")],
    ],
)
def test_nothing_to_join_is_the_same_list(parts):
    """What a part says of itself would be lost, or be said of more than it was."""
    assert join_text(parts) is parts


def test_the_cost_grows_with_the_number_of_parts():
    """Eight times the chunks take about eight times the time, not 64 times."""

    def seconds(count):
        parts = [Part(text="x" * 100) for _ in range(count)]
        start = time.thread_time()
        [joined] = join_text(parts)
        assert isinstance(joined.text, str)
        assert len(joined.text) == 100 * count
        return time.thread_time() - start

    assert min(seconds(80_000) for _ in range(3)) < 40 * min(seconds(10_000) for _ in range(3))
