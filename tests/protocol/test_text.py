"""Untrusted JSON text is bounded before it is read."""

import random

import pytest

from accord.model import Limits, ParseError
from accord.protocol import text


@pytest.mark.parametrize("raw", [
    b"[" * 64 + b"]" * 64,
    b'{"a":' * 64 + b"1" + b"}" * 64,
    b'"' + b"[{" * 500 + b'"',
    b'"' + b"9" * 500 + b'"',
    b"9" * 64,
    b'["' + b':' * 20000 + b'"]',
    b'{"a\\"[[[[": "]]]"}',
    b"{" + b",".join(b'"k%d":1' % i for i in range(10_000)) + b"}",
])  # fmt: skip
def test_text_within_the_limits_passes(raw):
    text.check(raw)


@pytest.mark.parametrize(("raw", "what"), [
    (b"[" * 65 + b"]" * 65, "nested deeper than 64"),
    (b'{"a":' * 65 + b"1" + b"}" * 65, "nested deeper than 64"),
    (b"[" * 6500, "nested deeper than 64"),
    (b"9" * 65, "more than 64 digits"),
    (b"[1." + b"1" * 6400 + b"]", "more than 64 digits"),
    (b"{" + b",".join(b'"k%d":1' % i for i in range(10_001)) + b"}", "more than 10000 members"),
])  # fmt: skip
def test_text_beyond_a_limit_is_a_parse_error_that_names_it(raw, what):
    with pytest.raises(ParseError, match=what):
        text.check(raw)


@pytest.mark.parametrize("raw", [
    b"", b"{", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e400}', b'{"a":-1e400}', b'{"a":"\xff"}', b'{"a":"\\ud800"}',  # noqa: E501
    b'{"a":"\\udc00x"}', b'["\xed\xa0\x80"]', b"\xef\xbb\xbf{}", b"{'a':1}", b"[1,]", b"nul",
])  # fmt: skip
def test_what_is_not_json_is_a_parse_error(raw):
    with pytest.raises(ParseError):
        text.loads(raw)


def test_of_duplicate_keys_the_last_wins():
    """On every binding alike (design, rule 15)."""
    assert text.loads(b'{"a":1,"a":2}') == {"a": 2}


LARGE = b"A" * 100_000


@pytest.mark.parametrize("raw", [
    b'{"a":"%b","b":"[[[\\"{{{","c":"\\\\"}' % LARGE,
    b'{"a":"' + b'[{:\\"' * 20_000 + b'"}',
    b'["' + b"9" * 100_000 + b'", 1]',
    b"[" + b",".join([b'"a"'] * 20_000) + b"]",
])  # fmt: skip
def test_what_stands_in_the_strings_of_a_large_text_breaks_no_limit(raw):
    """They are skipped, by the thousand or one by one; an escaped quote ends none."""
    text.check(raw)


@pytest.mark.parametrize(("raw", "what"), [
    (b'{"a":"%b","b\\\\":%b}' % (LARGE, b"[" * 65), "nested deeper than 64"),
    (b'{"a":"\\"%b","b":%b}' % (LARGE, b"9" * 65), "more than 64 digits"),
    (b'{"x":"%b",' % LARGE + b",".join(b'"k%d":1' % i for i in range(10_000)) + b"}", "more than "
"10000 "
"members"),
    (b"[" + b",".join([b'"a"'] * 20_000) + b"," + b"[" * 65 + b"]" * 65 + b"]", "nested deeper "
"than "
"64"),
    (b'{"a":"%b\xff"}' % LARGE, "not UTF-8"),
])  # fmt: skip
def test_what_stands_between_the_strings_of_a_large_text_is_bounded_as_ever(raw, what):
    with pytest.raises(ParseError, match=what):
        text.check(raw)


def stands(raw):
    """Depth, members and the longest number of a text, looked at byte by byte."""
    level = deepest = members = digits = longest = at = 0
    while at < len(raw):
        byte = raw[at : at + 1]
        if byte == b'"':
            end = at + 1
            while end < len(raw) and raw[end : end + 1] != b'"':
                end += 2 if raw[end : end + 1] == b"\\" else 1
            at, digits = end, 0
        elif byte.isdigit():
            digits += 1
        elif byte != b".":
            digits = 0
        level += (byte in (b"{", b"[")) - (byte in (b"}", b"]"))
        members += byte == b":"
        deepest, longest = max(deepest, level), max(longest, digits)
        at += 1
    return deepest, members, longest


@pytest.mark.parametrize("seed", range(20))
def test_a_text_looked_at_in_pieces_is_judged_as_a_whole(seed):
    """Wherever a piece ends: in brackets, before a number, within a string longer than any
    piece.
    """
    chance = random.Random(seed)
    tokens = [
        b'"\\"{[:9"',
        b'"' + b":" * 70_000 + b'"',
        b'"\\\\"',
        b"[",
        b"]",
        b'{"a":',
        b"}",
        b"1.5,",
        b"9" * 40 + b",",
        b" " * 999,
    ]
    weights = [300, 1, 300, 30, 31, 30, 31, 300, 5, 10]
    raw = b"".join(chance.choices(tokens, weights, k=3_000))
    deepest, members, longest = stands(raw)
    assert text.depth(raw) == deepest
    for depth, most, digits in (
        (deepest, members, longest),
        (deepest - 1, members, 99),
        (deepest, members - 1, 99),
        (99, 9_999, longest - 1),
    ):
        limits = Limits(json_depth=depth, json_members=most, json_digits=digits)
        if deepest <= depth and members <= most and longest <= digits:
            text.check(raw, limits)
        else:
            with pytest.raises(
                ParseError,
                match="members" if members > most else "deeper" if deepest > depth else "digits",
            ):
                text.check(raw, limits)
