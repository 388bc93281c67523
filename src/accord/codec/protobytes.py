"""Plain values to protobuf's bytes, for every message of every version, driven by the schema.

Written straight to bytes, without a message object in between: that is half the time, and answers are most of what is converted.
Fields stand in the order of the value's members, which readers may not mind.
"""

import base64
import calendar
import functools
import re
import struct
from collections.abc import Callable
from typing import Any

from ..model import InvalidAgentResponse
from .proto.pool import message_class

__all__ = ["TooDeep", "Write", "writer"]

Value = dict[str, Any]
Write = Callable[[Any], bytes]

# Readers stop at 100 messages inside each other. A JSON object takes three of them, and A2A's own objects the first few.
ROOM = 93

VARINT, LENGTH = 0, 2  # how a field is written: a number, or so many bytes

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))")
_double = struct.Struct("<d").pack
_UNSIGNED = (1 << 64) - 1


class TooDeep(Exception):
    """Nested deeper than protobuf can carry."""


# What writes each field of a type, by the name of its member. Built on first use, and kept.
_tables: dict[str, dict[str, Write]] = {}


def writer(name: str) -> Write:
    """Return what writes the values of one type of message. Members it does not have are left out."""
    if name in _KNOWN:
        return _KNOWN[name]
    fields = _table(name)
    return lambda value: b"".join([fields[json_name](item) for json_name, item in value.items() if json_name in fields])


def _table(name: str) -> dict[str, Write]:
    if name not in _tables:
        fields = _tables[name] = {}  # before the fields: types may contain themselves
        for field in message_class(name).DESCRIPTOR.fields:
            fields[field.json_name] = _field(field)
    return _tables[name]


def _field(field: Any) -> Write:
    """Return what writes one field, with its number before it."""
    message, number, is_always = field.message_type, field.number, field.has_presence
    if message is not None and message.GetOptions().map_entry:
        return _map(number, message.fields_by_name["value"])
    if field.type in (field.TYPE_MESSAGE, field.TYPE_STRING, field.TYPE_BYTES):
        if message is not None and message.full_name not in _KNOWN:
            piece = _message(number, _table(message.full_name))
        else:
            write = _KNOWN[message.full_name] if message is not None else _text if field.type == field.TYPE_STRING else _bytes
            piece = _piece(number, write, is_always=is_always or field.is_repeated)
        return _each(piece) if field.is_repeated else piece
    names = {value.name: value.number for value in field.enum_type.values} if field.enum_type is not None else None
    return _packed(number, names) if field.is_repeated else _number(number, names, is_always=is_always)


def _heads(number: int) -> tuple[bytes, list[bytes]]:
    """Return what stands before a field of so many bytes: its tag, and for the usual sizes the tag with the size."""
    tag = _varint(number << 3 | LENGTH)
    return tag, [tag + bytes([size]) for size in range(0x80)]


def _piece(number: int, write: Write, *, is_always: bool) -> Write:
    """A field of so many bytes; when there are none, it is left out unless that means something."""
    tag, heads = _heads(number)
    if not is_always:
        heads[0] = b""

    def piece(item: Any) -> bytes:
        data = write(item)
        size = len(data)
        return heads[size] + data if size < 0x80 else b"%b%b%b" % (tag, _varint(size), data)

    return piece


def _message(number: int, fields: dict[str, Write]) -> Write:
    """A message inside another. The same as `_piece` of its writer, without one call: most of what is written goes through here."""
    tag, heads = _heads(number)

    def piece(value: Value) -> bytes:
        data = b"".join([fields[json_name](item) for json_name, item in value.items() if json_name in fields])
        size = len(data)
        return heads[size] + data if size < 0x80 else b"%b%b%b" % (tag, _varint(size), data)

    return piece


def _each(piece: Write) -> Write:
    return lambda items: b"".join([piece(item) for item in items])


def _number(number: int, names: dict[str, int] | None, *, is_always: bool) -> Write:
    tag = _varint(number << 3 | VARINT)

    def written(value: int) -> bytes:
        return tag + _varint(value) if value or is_always else b""

    if names is None:
        return written
    return {name: written(value) for name, value in names.items()}.__getitem__


def _packed(number: int, names: dict[str, int] | None) -> Write:
    piece = _piece(number, bytes, is_always=False)
    return lambda items: piece(b"".join([_varint(item if names is None else names[item]) for item in items]))


def _map(number: int, of: Any) -> Write:
    write = writer(of.message_type.full_name) if of.message_type is not None else _text
    piece = _piece(number, bytes, is_always=True)
    return lambda items: b"".join([piece(_entry(key, write(item))) for key, item in items.items()])


def _entry(key: str, value: bytes) -> bytes:
    """One member of a map: its key in field 1, its value in field 2."""
    name = key.encode()
    return b"\x0a%b%b\x12%b%b" % (_varint(len(name)), name, _varint(len(value)), value)


_SMALL = [bytes([n]) for n in range(0x80)]


def _varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return _SMALL[number]
    number &= _UNSIGNED
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_text: Write = str.encode


def _bytes(item: Any) -> bytes:
    return base64.b64decode(item) if isinstance(item, str) else bytes(item)


# JSON's own types: google.protobuf.Value is a oneof of null, number, text, bool, Struct and ListValue, in that order


def _value(item: Any, room: int = ROOM) -> bytes:
    match item:
        case str():
            text = item.encode()
            return b"\x1a%b%b" % (_varint(len(text)), text)
        case bool():
            return b"\x20\x01" if item else b"\x20\x00"
        case int() | float():
            return b"\x11" + _double(item)
        case dict():
            data = _struct(item, room - 1)
            return b"\x2a%b%b" % (_varint(len(data)), data)
        case None:
            return b"\x08\x00"
    if room < 0:
        raise TooDeep
    values = [_value(inner, room - 2) for inner in item]
    data = b"".join([b"\x0a%b%b" % (_varint(len(value)), value) for value in values])
    return b"\x32%b%b" % (_varint(len(data)), data)


def _struct(items: Value, room: int = ROOM) -> bytes:
    if room < 0:
        raise TooDeep
    entries = [_entry(key, _value(item, room - 2)) for key, item in items.items()]
    return b"".join([b"\x0a%b%b" % (_varint(len(entry)), entry) for entry in entries])


@functools.lru_cache(256)
def _timestamp(text: str) -> bytes:
    found = _RFC3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        second, fraction, sign, hours, minutes = found.groups()
        seconds = _seconds(second)
    except ValueError:
        raise InvalidAgentResponse(f"{text!r:.80} is no time like 2026-03-01T00:00:00Z") from None
    if sign is not None:
        away_s = int(hours) * 3600 + int(minutes) * 60
        seconds += away_s if sign == "-" else -away_s
    nanos = int((fraction or "").ljust(9, "0"))
    return (b"\x08" + _varint(seconds) if seconds else b"") + (b"\x10" + _varint(nanos) if nanos else b"")


@functools.lru_cache(64)
def _seconds(text: str) -> int:
    """Return a time of day in UTC as seconds since 1970. Most are the one that is now."""
    return calendar.timegm(tuple(map(int, re.findall(r"\d+", text))))


_KNOWN: dict[str, Write] = {
    "google.protobuf.Struct": _struct,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Value": _value,
}
