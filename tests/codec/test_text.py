"""Untrusted JSON text is bounded before it is read."""

import pytest

from accord.codec import text
from accord.model import ParseError


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
    b"", b"{", b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e400}', b'{"a":-1e400}', b'{"a":"\xff"}', b'{"a":"\\ud800"}',
    b'{"a":"\\udc00x"}', b'["\xed\xa0\x80"]', b"\xef\xbb\xbf{}", b"{'a':1}", b"[1,]", b"nul",
])  # fmt: skip
def test_what_is_not_json_is_a_parse_error(raw):
    with pytest.raises(ParseError):
        text.loads(raw)


def test_of_duplicate_keys_the_last_wins():
    """On every binding alike (design, rule 20)."""
    assert text.loads(b'{"a":1,"a":2}') == {"a": 2}
