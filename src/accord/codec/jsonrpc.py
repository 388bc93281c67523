"""The JSON-RPC 2.0 envelope. The id is echoed as the very bytes that came."""

import re
from typing import Any

import msgspec

from ..model import InvalidRequest, Limits, ParseError
from . import text, v1

__all__ = ["NO_ID", "Envelope", "error", "id_of", "open_envelope", "result"]

NO_ID = b"null"

_ID = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?|null', re.DOTALL)
_NO_PARAMS = b"{}"


class Envelope(msgspec.Struct):
    method: str
    id: bytes
    params: bytes
    jsonrpc: str


class _Strict(msgspec.Struct):
    method: str
    jsonrpc: str = ""
    id: msgspec.Raw = msgspec.Raw(NO_ID)
    params: msgspec.Raw = msgspec.Raw(_NO_PARAMS)


_decode = msgspec.json.Decoder(_Strict).decode


def open_envelope(body: bytes, limits: Limits) -> Envelope:
    """Return the request in `body`.

    Raises:
        ParseError: Not JSON.
        InvalidRequest: JSON, but no JSON-RPC request. Its `id` detail is not set: the caller answers with null,
            or with the id `id_of` finds.
    """
    text.check(body, limits)
    try:
        found = _decode(body)
    except msgspec.ValidationError as problem:
        text.loads(body)
        raise InvalidRequest(f"Request payload validation error: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise text.parse_error(problem) from None
    id_ = bytes(found.id)
    if not _ID.fullmatch(id_):
        raise InvalidRequest("Request payload validation error: id must be a string or a number")
    params = bytes(found.params)
    return Envelope(found.method, id_, _NO_PARAMS if params == b"null" else params, found.jsonrpc)


def id_of(body: bytes) -> bytes:
    """Return the id of a request that is wrong otherwise, as far as it can be read."""
    try:
        value = text.loads(body)
    except ParseError:
        return NO_ID
    found = value.get("id") if isinstance(value, dict) else None
    return v1.encode(found) if isinstance(found, (str, int)) and not isinstance(found, bool) else NO_ID


def result(id_: bytes, value: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, value)


def error(id_: bytes, problem: dict[str, Any]) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, v1.encode(problem))
