"""Untrusted JSON text, bounded before and while it is read, and the JSON-RPC envelope around it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..model import InvalidRequest, Limits, ParseError

__all__ = [
    "NO_ID",
    "Envelope",
    "check",
    "depth",
    "id_of",
    "in_plain_words",
    "loads",
    "open_envelope",
    "parse_error",
]

NO_ID = b"null"
_NO_PARAMS = b"{}"

_DEFAULT = Limits()

# Possessive: a match that may have to be taken back costs a hundred bytes for every escape.
_ID = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?|null', re.DOTALL
)

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_UP_TO_STRINGS = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_PIECE = 64 << 10  # looked at in one go: a single long one would be a pause for everyone
_MOSTLY_STRINGS = (
    8 << 10
    # a text of this size is mostly strings, if it is no attack: they are skipped, which costs less
    # than counting
)
_STRINGS = 512  # that are skipped one by one
_DIGITS = bytes.maketrans(b"123456789.", b"0000000000")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_BRACKETS = re.compile(rb"[\[{]+|[\]}]+")

# What msgspec says of a value of the wrong type, and how a user names the types.
_WRONG_TYPE = re.compile(
    r"Expected `(?P<wanted>[a-z |]+)`(?P<bounds>[^`]*)(?:`(?P<found>[a-z]+)`)?"
)
_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "bytes": "text in base64",
    "date": "a date",
    "datetime": "a date and time",
    "decimal": "a number",
    "duration": "a duration",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "text",
    "time": "a time",
    "uuid": "a UUID",
}

_json = msgspec.json.Decoder()


class Envelope(msgspec.Struct):
    """A JSON-RPC 2.0 request. The id is echoed as the very bytes that came."""

    method: str
    id: bytes
    params: bytes
    jsonrpc: str


class _Strict(msgspec.Struct):
    method: str
    jsonrpc: str = ""
    id: msgspec.Raw = msgspec.Raw(NO_ID)
    params: msgspec.Raw = msgspec.Raw(_NO_PARAMS)


_decode_envelope = msgspec.json.Decoder(_Strict).decode


def open_envelope(body: bytes, limits: Limits) -> Envelope:
    """Return the request in `body`.

    Raises:
        ParseError: Not JSON.
        InvalidRequest: JSON, but no JSON-RPC request. Its `id` detail is not set: the caller
          answers with null, or with the id `id_of` finds.
    """
    check(body, limits)
    try:
        found = _decode_envelope(body)
    except msgspec.ValidationError as problem:
        loads(body)
        raise InvalidRequest(
            f"Request payload validation error: {in_plain_words(problem)}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise parse_error(problem) from None
    id_, params = bytes(found.id), bytes(found.params)
    if not _ID.fullmatch(id_):
        raise InvalidRequest("Request payload validation error: id must be a string or a number")
    return Envelope(found.method, id_, _NO_PARAMS if params == b"null" else params, found.jsonrpc)


def id_of(body: bytes) -> bytes:
    """Return the id of a request that is wrong otherwise, as far as it can be read."""
    try:
        value = loads(body)
    except ParseError:
        return NO_ID
    found = value.get("id") if isinstance(value, dict) else None
    return (
        msgspec.json.encode(found)
        if isinstance(found, (str, int)) and not isinstance(found, bool)
        else NO_ID
    )


def check(raw: bytes, limits: Limits = _DEFAULT) -> None:
    """Refuse text that is too deep, has too many members or too long a number.

    A body that can't break a limit, by counting alone, is not looked at any closer: that is nearly
    every one.

    Raises:
        ParseError: A limit is broken, or the text is not UTF-8; the message says which.
    """
    if not raw.isascii():
        _check_utf8(raw)  # all of it: what a decoder skips may still be sent on
    if len(raw) > _MOSTLY_STRINGS:
        raw = _without_strings(raw)
    if (
        raw.count(b"{") + raw.count(b"[") > limits.json_depth
        or raw.count(b":") > limits.json_members
    ):
        _check_closely(raw, limits)
    long_number = b"0" * (limits.json_digits + 1)
    if long_number in raw.translate(_DIGITS) and any(
        long_number in piece.translate(_ZEROS, b".") for piece in _outside(raw)
    ):
        raise ParseError(
            f"Invalid JSON payload: a number has more than {limits.json_digits} digits"
        )


def loads(raw: bytes, limits: Limits = _DEFAULT) -> Any:
    """Return the JSON value of `raw`, or raise ParseError."""
    check(raw, limits)
    try:
        return _json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise parse_error(error) from None


def depth(raw: bytes) -> int:
    """Return how deep the text is nested."""
    level = deepest = 0
    for piece in _outside(raw):
        level, most = _levels(piece, level)
        deepest = max(deepest, most)
    return deepest


def parse_error(error: Exception) -> ParseError:
    """Say what is wrong with the text, without quoting it."""
    if isinstance(error, UnicodeDecodeError):
        return ParseError("Invalid JSON payload: not UTF-8")
    if isinstance(error, RecursionError):
        return ParseError("Invalid JSON payload: nested too deep")
    return ParseError(f"Invalid JSON payload: {error}")


def in_plain_words(error: msgspec.ValidationError | str) -> str:
    """Return what msgspec says is wrong, with types named as a user knows them: "expected a whole
    number or null, got text" for "Expected `int | null`, got `str`".
    """
    said = str(error)
    match = _WRONG_TYPE.match(said)
    if match is None:
        return said
    wanted = " or ".join(_TYPES.get(one, one) for one in match["wanted"].split(" | "))
    found = match["found"] or ""
    return f"expected {wanted}{match['bounds']}{_TYPES.get(found, found)}{said[match.end() :]}"


def _outside(raw: bytes) -> Iterator[bytes]:
    """The text without what stands inside strings, where brackets, colons and digits mean nothing:
    in pieces that end with one.
    """
    at = 0
    while at < len(raw):
        found = _UP_TO_STRINGS.match(raw, at, at + _PIECE)
        end = found.end() if found is not None else at
        if end > at:
            yield _STRING.sub(b'""', raw[at:end])
        else:  # none ends so soon
            start = raw.find(b'"', at)
            end = _end_of_string(raw, start) if start >= 0 else -1
            if end < 0:
                yield raw[at:]
                return
            yield raw[at:start] + b'""'
        at = end


def _without_strings(raw: bytes) -> bytes:
    """The text with its strings empty, at the speed of a search for quotes; as it is if it has
    many.
    """
    outside: list[bytes] = []
    at = 0
    while (start := raw.find(b'"', at)) >= 0 and (end := _end_of_string(raw, start)) >= 0:
        if len(outside) == _STRINGS:
            return raw
        outside.append(raw[at:start])
        at = end
    return b'""'.join([*outside, raw[at:]])


def _end_of_string(raw: bytes, start: int) -> int:
    """Where the string that begins at `start` is over; -1 if it never is."""
    end = raw.find(b'"', start + 1)
    if end >= 0 and raw.find(b"\\", start, end) < 0:
        return end + 1
    whole = _STRING.match(raw, start)
    return whole.end() if whole is not None else -1


def _check_utf8(raw: bytes) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise parse_error(error) from None


def _check_closely(raw: bytes, limits: Limits) -> None:
    members = level = deepest = 0
    for piece in _outside(raw):
        members += piece.count(b":")
        if members > limits.json_members:
            raise ParseError(f"Invalid JSON payload: more than {limits.json_members} members")
        if deepest <= limits.json_depth:
            level, deepest = _levels(piece, level)
    if deepest > limits.json_depth:
        raise ParseError(f"Invalid JSON payload: nested deeper than {limits.json_depth} levels")


def _levels(bare: bytes, level: int) -> tuple[int, int]:
    """From one level, the level at the end of a text without strings, and the deepest on the
    way.
    """
    deepest = level
    for at in range(0, len(bare), _PIECE):
        for run in _BRACKETS.findall(bare, at, at + _PIECE):
            level += len(run) if run[0] in b"[{" else -len(run)
            deepest = max(deepest, level)
    return level, deepest
