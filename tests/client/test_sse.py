"""The SSE parser takes what real servers write, however the network cuts it into pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client.streams.sse import Sse, SseParser, TooBig, parse


def parsed(*pieces: bytes, limit: int = 1 << 20) -> list[Sse]:
    parser = SseParser(limit)
    return [event for piece in pieces for event in parser.feed(piece)] + parser.end()


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b'data: {"a":1}\n\n', [Sse(b'{"a":1}')]),
        (b'data:{"a":1}\r\n\r\n', [Sse(b'{"a":1}')]),
        (b'data: {"a":1}\r\rdata: 2\r\r', [Sse(b'{"a":1}'), Sse(b"2")]),
        (b"id: 7\nevent: error\ndata: 1\n\n", [Sse(b"1", "7", "error")]),
        (b'data: {\ndata:   "a": 1\ndata: }\n\n', [Sse(b'{\n  "a": 1\n}')]),
        (b": keep-alive\n\n: another\n\ndata: 1\n\n", [Sse(b"1")]),
        (b"retry: 5\nfoo: bar\n\ndata: 1\n\n", [Sse(b"1")]),
        (b'data: {"a":1}', [Sse(b'{"a":1}')]),
        (b'data: 1\n\ndata: {"a":', [Sse(b"1")]),
        (b"", []),
        (b"\n\n\n\n", []),
        (b"id: 7\ndata: 1\n\nid:8\ndata: 2\n\n", [Sse(b"1", "7"), Sse(b"2", "8")]),
        (b"id: a\0b\ndata: 1\n\nid: \0\nevent: x\ndata: 2\n\n", [Sse(b"1"), Sse(b"2", "", "x")]),
    ],
    ids=[
        "lf",
        "crlf",
        "cr",
        "fields",
        "many lines",
        "comments",
        "unknown",
        "not closed",
        "cut",
        "empty",
        "blank",
        "ids",
        "no ids",
    ],
)
def test_every_way_to_write_it(text, events):
    """One shape of the same event per line; half an event at the end is what a cut
    leaves, and is dropped.
    """
    assert parsed(text) == events


@settings(deadline=None)  # the machine may be busy; what must hold is the result
@given(st.lists(st.integers(1, 9), max_size=60), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_pieces_make_no_difference(sizes, newline):
    """A chunk of the network may end anywhere, between CR and LF too."""
    text = newline.join(
        [
            b"id: 1",
            b'data: {"x":',
            b"data: 1}",
            b"",
            b": hi",
            b"",
            b"data: 2",
            b"",
            b"data: 3",
            b"",
            b"",
        ]
    )
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    pieces.append(text[at:])
    assert parsed(*[p for p in pieces if p]) == [Sse(b'{"x":\n1}', "1"), Sse(b"2"), Sse(b"3")]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"data: 1", b"\n", b"\r", b"\r\n"]), max_size=12), st.integers(1, 9)
)
def test_pieces_make_no_difference_to_mixed_ends(words, size):
    """Nor do ends of lines of several kinds in one stream: an event ends where the standard says,
    when all is there or not.
    """
    text = b"".join(words)
    assert parsed(*[text[at : at + size] for at in range(0, len(text), size)]) == parsed(text)


def test_an_endless_line_is_given_up():
    """A stranger can't make us keep more than the budget."""
    with pytest.raises(TooBig):
        parsed(b"data: ", *[b"x" * 1000] * 20, limit=10_000)


def test_an_event_at_the_limit_is_taken():
    """The limit is for one event, not for the stream."""
    event = b"data: " + b"x" * 900 + b"\n\n"
    assert len(parsed(*[event] * 50, limit=1000)) == 50


LINE = st.lists(
    st.sampled_from([b"data: ", b"data:", b"id: ", b"id:", b"event: ", b" ", b":", b"x", b"7"]),
    max_size=4,
).map(b"".join)


@settings(max_examples=500, deadline=None)
@given(st.lists(LINE, max_size=4).map(b"\n".join))
def test_the_short_way_reads_what_the_long_way_reads(block):
    """A line nobody knows, put before, makes no difference but the way it is read."""
    assert parse(block) == parse(b"x: y\n" + block)
