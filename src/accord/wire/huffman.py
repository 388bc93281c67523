"""HPACK's Huffman code (RFC 7541, appendix B), read four bits at a time.

The code is canonical: the lengths say it all, shorter codes first and among equals the smaller byte.
"""

import functools
import itertools

__all__ = ["CODES", "BadHuffman", "decode"]

EOS = 256
USUAL_BYTES = 2 << 10  # of a text that may well come again, and is remembered: a token, say

# How many bits each byte takes, and the end of the text: (bits, how many bytes in a row).
_RUNS = (
    (13, 1), (23, 1), (28, 7), (24, 1), (30, 1), (28, 2), (30, 1), (28, 8), (30, 1), (28, 9),
    (6, 1), (10, 2), (12, 1), (13, 1), (6, 1), (8, 1), (11, 1), (10, 2), (8, 1), (11, 1), (8, 1), (6, 3),
    (5, 3), (6, 7), (7, 1), (8, 1), (15, 1), (6, 1), (12, 1), (10, 1),
    (13, 1), (6, 1), (7, 22), (8, 1), (7, 1), (8, 1), (13, 1), (19, 1), (13, 1), (14, 1), (6, 1),
    (15, 1), (5, 1), (6, 1), (5, 1), (6, 1), (5, 1), (6, 3), (5, 1), (7, 2), (6, 3), (5, 1), (6, 1), (7, 1), (6, 1), (5, 2),
    (6, 1), (7, 5), (15, 1), (11, 1), (14, 1), (13, 1), (28, 1),
    (20, 1), (22, 1), (20, 2), (22, 3), (23, 1), (22, 1), (23, 5), (24, 1), (23, 1), (24, 2), (22, 1), (23, 1), (24, 1), (23, 4),
    (21, 1), (22, 1), (23, 1), (22, 1), (23, 2), (24, 1), (22, 1), (21, 1), (20, 1), (22, 2), (23, 2), (21, 1), (23, 1), (22, 2),
    (24, 1), (21, 1), (22, 1), (23, 2), (21, 2), (22, 1), (21, 1), (23, 1), (22, 1), (23, 2), (20, 1), (22, 3), (23, 1), (22, 2),
    (23, 1), (26, 2), (20, 1), (19, 1), (22, 1), (23, 1), (22, 1), (25, 1), (26, 3), (27, 2), (26, 1), (24, 1), (25, 1),
    (19, 1), (21, 1), (26, 1), (27, 2), (26, 1), (27, 1), (24, 1), (21, 2), (26, 2), (28, 1), (27, 3),
    (20, 1), (24, 1), (20, 1), (21, 1), (22, 1), (21, 2), (23, 1), (22, 2), (25, 2), (24, 2), (26, 1), (23, 1),
    (26, 1), (27, 1), (26, 2), (27, 5), (28, 1), (27, 5), (26, 1), (30, 1),
)  # fmt: skip


class BadHuffman(Exception):
    """Not a text in this code, or one that does not end as it must."""


def _codes() -> list[tuple[int, int]]:
    """Return the code of every byte and of the end: its bits as a number, and how many there are."""
    lengths = [bits for bits, count in _RUNS for _ in range(count)]
    codes = [(0, 0)] * len(lengths)
    code = last = 0
    for symbol in sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol)):
        code <<= lengths[symbol] - last
        last = lengths[symbol]
        codes[symbol] = (code, last)
        code += 1
    return codes


CODES = _codes()

# A state is a place inside the tree of codes. A step is four bits: the next state, and the byte they complete or -1 (the shortest
# code has five, so there is never a second one). The end of the text inside a text is no step at all.
_Step = tuple[int, int] | None


def _machine() -> tuple[list[list[_Step]], set[int]]:
    numbers = itertools.count()
    tree: dict[tuple[int, int], int] = {}  # (bits so far, how many) of every inner place: its state
    for code, length in CODES:
        for short in range(length):
            tree.setdefault((code >> (length - short), short), 0)
    for place in sorted(tree, key=lambda place: place[1]):
        tree[place] = next(numbers)  # the root is 0
    ends = {code: symbol for symbol, code in enumerate(CODES)}
    steps: list[list[_Step]] = [[] for _ in tree]
    for (bits, length), state in tree.items():
        for nibble in range(16):
            steps[state].append(_step(bits, length, nibble, tree, ends))
    # A text is filled up to whole bytes with the first bits of the end: up to seven ones.
    return steps, {tree[(1 << n) - 1, n] for n in range(8)}


def _step(bits: int, length: int, nibble: int, tree: dict[tuple[int, int], int], ends: dict[tuple[int, int], int]) -> _Step:
    found = -1
    for shift in (3, 2, 1, 0):
        bits, length = bits << 1 | nibble >> shift & 1, length + 1
        symbol = ends.get((bits, length))
        if symbol == EOS:
            return None
        if symbol is not None:
            found, bits, length = symbol, 0, 0
    return tree[bits, length], found


_STEPS, _FINAL = _machine()


def decode(data: bytes) -> bytes:
    """Return the text in `data`.

    Raises:
        BadHuffman: There is an end in the middle, or what fills the last byte is not the beginning of one.
    """
    return _usual(data) if len(data) <= USUAL_BYTES else _decode(data)


def _decode(data: bytes) -> bytes:
    found = bytearray()
    state = 0
    try:
        for byte in data:
            state, symbol = _STEPS[state][byte >> 4]  # type: ignore[misc]  # None is the error
            if symbol >= 0:
                found.append(symbol)
            state, symbol = _STEPS[state][byte & 15]  # type: ignore[misc]
            if symbol >= 0:
                found.append(symbol)
    except TypeError:
        raise BadHuffman("a text ends before its end") from None
    if state not in _FINAL:
        raise BadHuffman("a text is not filled up with ones")
    return bytes(found)


_usual = functools.lru_cache(1024)(_decode)
