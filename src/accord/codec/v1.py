"""A2A 1.0 as JSON: request texts to model, model to answers.

Strict first, at C speed; what strict decoding refuses gets a second look in `lenient`.
"""

from typing import Any, TypeVar

import msgspec

from ..model import A2AError, Artifact, Event, Message, StatusUpdate, StreamResponse, Task
from . import lenient, text

__all__ = [
    "DOMAIN",
    "decode",
    "decode_artifacts",
    "decode_event",
    "decode_message",
    "decode_task",
    "encode",
    "encode_event",
    "error_details",
]

T = TypeVar("T")

DOMAIN = "a2a-protocol.org"

encode = msgspec.json.Encoder().encode
decode_task = msgspec.json.Decoder(Task).decode
decode_artifacts = msgspec.json.Decoder(list[Artifact]).decode
decode_message = msgspec.json.Decoder(Message).decode
_decode_stream = msgspec.json.Decoder(StreamResponse).decode
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(raw: bytes, type_: type[T]) -> T:
    """Return the request in `raw`, which the door has checked with `text.check`.

    Raises:
        ParseError: Not JSON.
        InvalidParams: JSON, but not a `type_`; names the field.
    """
    decoder = _decoders.get(type_)
    if decoder is None:
        decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    try:
        request: T = decoder.decode(raw)
    except msgspec.ValidationError:
        return lenient.convert(text.loads(raw), type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise text.parse_error(error) from None
    return request


def encode_event(event: Event | Message) -> bytes:
    """Return `event` as a StreamResponse."""
    match event:
        case StatusUpdate():
            return b'{"statusUpdate":' + encode(event) + b"}"
        case Task():
            return b'{"task":' + encode(event) + b"}"
        case Message():
            return b'{"message":' + encode(event) + b"}"
    return b'{"artifactUpdate":' + encode(event) + b"}"


def decode_event(data: bytes) -> Event | Message:
    return _decode_stream(data).event


def error_details(error: A2AError) -> list[dict[str, Any]]:
    """Return the typed details of an error: who says it and why, then which fields are wrong (spec 4.3)."""
    info: dict[str, Any] = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.reason,
        "domain": DOMAIN,
    }
    if error.detail:
        info["metadata"] = error.detail
    details = [info]
    if error.violations:
        fields = [{"field": field, "description": what} for field, what in error.violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields})
    return details
