"""Large values, stored once.

What a message or an artifact brings stands in two texts of one commit: in the log and in the
snapshot. What is long and stands in both is taken out of both and has a row of its own, keyed by
task and number. In its place stands its number, between two bytes no JSON has.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["LONG", "cut", "fill", "split", "whole"]

LONG = 32 << 10  # what has no quotation mark for so many bytes is the inside of a large string

_NUL = 0
_MARK = b"\0"

Hole = tuple[int, int, int]  # from, to, the number of the piece that was there


def split(
    db: sqlite3.Connection, task: int, data: bytes, head: bytes, artifacts: bytes
) -> tuple[bytes, bytes, bytes]:
    """Store what is long and stands both in a row of the log and in the snapshot; return the three
    without it.
    """
    if len(head) + len(artifacts) < LONG:
        return data, head, artifacts
    ((last,),) = db.execute("SELECT coalesce(max(n), 0) FROM pieces WHERE task=?", (task,))
    (data,), (head, artifacts), pieces = cut([data], (head, artifacts), last + 1)
    db.executemany(
        "INSERT INTO pieces VALUES (?,?,?)",
        [(task, n, piece) for n, piece in enumerate(pieces, last + 1)],
    )
    return data, head, artifacts


def whole(db: sqlite3.Connection, task: int, text: bytes) -> bytes:
    """Return the text with its pieces; as it is, which nobody can decode, if one of them is not
    there.
    """
    if _NUL not in text:  # as a number, which is found ten times as fast as a text of one byte
        return text

    def piece(number: int) -> bytes:
        found: tuple[Any] | None = db.execute(
            "SELECT data FROM pieces WHERE task=? AND n=?", (task, number)
        ).fetchone()
        if found is None:
            raise ValueError(f"piece {number} of task {task} is missing")
        return bytes(found[0])

    try:
        return fill(text, piece)
    except ValueError:
        return text


def cut(
    lines: list[bytes], snapshot: Sequence[bytes], first: int = 0
) -> tuple[list[bytes], list[bytes], list[memoryview]]:
    """Return the lines and the snapshot without the long pieces that are in both, and these pieces,
    numbered from `first` on.
    """
    pieces: list[memoryview] = []
    runs = [(i, start, end) for i, line in enumerate(lines) for start, end in _runs(line)]
    if not runs:
        return lines, list(snapshot), pieces
    holes: list[list[Hole]] = [[] for _ in lines]
    rest = []
    for text in snapshot:
        mine: list[Hole] = []
        for start, end in _runs(text):
            piece = memoryview(text)[start:end]
            if piece not in pieces:
                same = [
                    (i, at, to)
                    for i, at, to in runs
                    if to - at == end - start and lines[i].startswith(piece, at)
                ]
                if not same:
                    continue
                for i, at, to in same:
                    holes[i].append((at, to, first + len(pieces)))
                pieces.append(piece)
            mine.append((start, end, first + pieces.index(piece)))
        rest.append(_without(text, mine))
    return (
        [_without(line, sorted(gone)) for line, gone in zip(lines, holes, strict=True)],
        rest,
        pieces,
    )


def fill(text: bytes, piece: Callable[[int], bytes]) -> bytes:
    """Return the text with its pieces, each got by its number, where they were."""
    found = text.split(_MARK)
    found[1::2] = [piece(int(number)) for number in found[1::2]]
    return b"".join(found)


def _runs(text: bytes) -> list[tuple[int, int]]:
    """The long stretches without a quotation mark, found in large strides."""
    found: list[tuple[int, int]] = []
    at = 0
    while at + LONG <= len(text):
        quote = text.rfind(b'"', at, at + LONG)
        if quote < 0:
            end = text.find(b'"', at + LONG)
            quote = end if end >= 0 else len(text)
            found.append((at, quote))
        at = quote + 1
    return found


def _without(text: bytes, holes: list[Hole]) -> bytes:
    if not holes:
        return text
    left: list[bytes | memoryview] = []
    at, view = 0, memoryview(text)
    for start, end, number in holes:
        left += [view[at:start], b"\0%d\0" % number]
        at = end
    return b"".join([*left, view[at:]])
