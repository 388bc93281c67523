"""Untrusted JSON text, bounded before and while it is read."""

import re
from typing import Any

import msgspec

from ..model import ParseError

__all__ = ["MAX_DEPTH", "MAX_KEYS", "check", "depth", "loads", "parse_error"]

MAX_DEPTH = 64
MAX_KEYS = 10_000
MAX_DIGITS = 64

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_LONG_NUMBER = b"0" * (MAX_DIGITS + 1)
_DIGITS = bytes.maketrans(b"123456789.", b"0000000000")
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")

_json = msgspec.json.Decoder()


def check(raw: bytes) -> None:
    """Refuse text that is too deep, has too many members or too long a number.

    A body that can't break a limit, by counting alone, is not looked at any closer: that is nearly every one.

    Raises:
        ParseError: A limit is broken; the message says which.
    """
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH or raw.count(b":") > MAX_KEYS:
        _check_closely(raw)
    if _LONG_NUMBER in raw.translate(_DIGITS) and _LONG_NUMBER in _bare(raw).translate(_DIGITS):
        raise ParseError(f"a number has more than {MAX_DIGITS} digits")


def loads(raw: bytes) -> Any:
    """Return the JSON value of `raw`, or raise ParseError."""
    check(raw)
    try:
        return _json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise parse_error(error) from None


def depth(raw: bytes) -> int:
    """Return how deep the text is nested."""
    return _depth(_bare(raw))


def parse_error(error: Exception) -> ParseError:
    """Say what is wrong with the text, without quoting it."""
    if isinstance(error, UnicodeDecodeError):
        return ParseError("Invalid JSON payload: not UTF-8")
    if isinstance(error, RecursionError):
        return ParseError(f"Invalid JSON payload: nested deeper than {MAX_DEPTH} levels")
    return ParseError(f"Invalid JSON payload: {error}")


def _bare(raw: bytes) -> bytes:
    """The text without what stands inside strings, where brackets, colons and digits mean nothing."""
    return _STRING.sub(b'""', raw)


def _check_closely(raw: bytes) -> None:
    bare = _bare(raw)
    if bare.count(b":") > MAX_KEYS:
        raise ParseError(f"Invalid JSON payload: more than {MAX_KEYS} members")
    if _depth(bare) > MAX_DEPTH:
        raise ParseError(f"Invalid JSON payload: nested deeper than {MAX_DEPTH} levels")


def _depth(bare: bytes) -> int:
    level = deepest = 0
    for run in _BRACKETS.findall(bare):
        level += len(run) if run[0] in b"[{" else -len(run)
        deepest = max(deepest, level)
    return deepest
