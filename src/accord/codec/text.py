"""Untrusted JSON text, bounded before and while it is read."""

import re
from typing import Any

import msgspec

from ..model import Limits, ParseError

__all__ = ["check", "depth", "loads", "parse_error"]

_DEFAULT = Limits()

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DIGITS = bytes.maketrans(b"123456789.", b"0000000000")
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")
_NUMBER = re.compile(rb"[0-9.]+")

_json = msgspec.json.Decoder()


def check(raw: bytes, limits: Limits = _DEFAULT) -> None:
    """Refuse text that is too deep, has too many members or too long a number.

    A body that can't break a limit, by counting alone, is not looked at any closer: that is nearly every one.

    Raises:
        ParseError: A limit is broken, or the text is not UTF-8; the message says which.
    """
    if not raw.isascii():
        _check_utf8(raw)  # all of it: what a decoder skips may still be sent on
    if raw.count(b"{") + raw.count(b"[") > limits.json_depth or raw.count(b":") > limits.json_members:
        _check_closely(raw, limits)
    long_number = b"0" * (limits.json_digits + 1)
    if long_number in raw.translate(_DIGITS) and _longest_number(_bare(raw)) > limits.json_digits:
        raise ParseError(f"Invalid JSON payload: a number has more than {limits.json_digits} digits")


def loads(raw: bytes, limits: Limits = _DEFAULT) -> Any:
    """Return the JSON value of `raw`, or raise ParseError."""
    check(raw, limits)
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
        return ParseError("Invalid JSON payload: nested too deep")
    return ParseError(f"Invalid JSON payload: {error}")


def _bare(raw: bytes) -> bytes:
    """The text without what stands inside strings, where brackets, colons and digits mean nothing."""
    return _STRING.sub(b'""', raw)


def _check_utf8(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise parse_error(error) from None


def _check_closely(raw: bytes, limits: Limits) -> None:
    bare = _bare(raw)
    if bare.count(b":") > limits.json_members:
        raise ParseError(f"Invalid JSON payload: more than {limits.json_members} members")
    if _depth(bare) > limits.json_depth:
        raise ParseError(f"Invalid JSON payload: nested deeper than {limits.json_depth} levels")


def _longest_number(bare: bytes) -> int:
    return max((len(run) - run.count(b".") for run in _NUMBER.findall(bare)), default=0)


def _depth(bare: bytes) -> int:
    level = deepest = 0
    for run in _BRACKETS.findall(bare):
        level += len(run) if run[0] in b"[{" else -len(run)
        deepest = max(deepest, level)
    return deepest
