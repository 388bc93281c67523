"""Protobuf messages to plain values and back, for every message of every version, driven by the
schema.

The plain value of a message is its JSON object: camelCase names, enums by name, times as text,
Struct and Value as what they hold. So a gRPC request goes through the same checks as a JSON one and
is refused in the same words, and an answer is made from the JSON it is stored in. Only bytes
differ: they are bytes on the way in, and bytes or base64 on the way out.
"""

import base64
import calendar
import functools
import math
import operator
import re
import time
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ...model import InvalidAgentResponse, InvalidParams, ParseError
from .schema import POOL

__all__ = ["Kind", "kind", "kind_of"]

Value = dict[str, Any]
Read = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]  # a message with a value

# Every whole number up to here is a double without loss; past it a double stays one.
EXACT = 2**53

# Readers stop at 100 messages inside each other. A JSON object takes three of them, and A2A's own
# objects the first few.
MAX_LEVELS = 93

_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799  # the years 1 to 9999
_first = operator.itemgetter(0)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


class Kind:
    """One type of message: its bytes to plain values and back."""

    def __init__(self, type_: Descriptor) -> None:
        self.name = type_.full_name
        self._class: Any = GetMessageClass(type_)
        self._read = _reader(type_)
        self._fill = _filler(type_)

    def decode(self, data: bytes) -> Value:
        """Return the value of a message.

        Raises:
            ParseError: These bytes are no protobuf, or not of this type.
            InvalidParams: They are, but hold what JSON has no way to say; names the field.
        """
        try:
            message = self._class.FromString(data)
        except DecodeError:
            raise ParseError(f"the request is not a {self.name} message") from None
        try:
            value: Value = self._read(message)
        except _Wrong as wrong:
            field = "".join(wrong.path).lstrip(".")
            raise InvalidParams(f"{field}: {wrong}", violations=((field, str(wrong)),)) from None
        return value

    def encode(self, value: Value) -> bytes:
        """Return the bytes of a message with this value. Members the type does not have are left
        out.

        Raises:
            InvalidAgentResponse: Something in it is nested deeper, or a number larger, than
              protobuf can carry.
        """
        message = self._class()
        try:
            self._fill(message, value)
            data: bytes = message.SerializeToString()
            return data
        except _TooDeep:
            raise InvalidAgentResponse(
                "the answer is nested too deep for gRPC; read it over JSON-RPC or HTTP+JSON"
            ) from None
        except OverflowError:  # a whole number beyond all doubles
            raise InvalidAgentResponse(
                "the answer has a number too large for gRPC; read it over JSON-RPC or HTTP+JSON"
            ) from None

    def holding(self, field: str, data: bytes) -> bytes:
        """Return the bytes of a message that holds nothing but another, whose bytes are `data`."""
        message = self._class()
        getattr(message, field).MergeFromString(data)
        found: bytes = message.SerializeToString()
        return found


@functools.cache
def kind(name: str) -> Kind:
    """Return the type called `name` in full, as in `lf.a2a.v1.Task`."""
    return kind_of(POOL.FindMessageTypeByName(name))


@functools.cache
def kind_of(type_: Descriptor) -> Kind:
    """Return the type of this descriptor: two versions may have one of the same name."""
    return Kind(type_)


class _Wrong(Exception):
    """A value that cannot be; `path` grows on the way out to where it stands in the request."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str] = []


class _TooDeep(Exception):
    """Nested deeper than protobuf can carry."""


# Reading

# Built on first use and kept: a converter is one closure per type over a table of its fields.
_readers: dict[Descriptor, Read] = {}


def _reader(type_: Descriptor) -> Read:
    found = _readers.get(type_) or _KNOWN_READERS.get(type_.full_name)
    if found is not None:
        return found
    table: dict[int, tuple[str, Read | None]] = {}

    def read(message: Any) -> Value:
        value = {}
        json_name = ""
        try:
            for field, item in message.ListFields():  # only what is set, explicit zeros included
                json_name, convert = table[field.number]
                value[json_name] = item if convert is None else convert(item)
        except _Wrong as wrong:
            wrong.path.insert(0, "." + json_name)
            raise
        return value

    _readers[type_] = read  # before the fields: types may contain themselves
    for field in type_.fields:
        table[field.number] = (field.json_name, _field_reader(field))
    return read


def _field_reader(field: Any) -> Read | None:
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        if of.message_type is None:
            return dict
        read = _reader(of.message_type)
        return lambda items: {key: read(item) for key, item in items.items()}
    if field.message_type is not None:
        read = _reader(field.message_type)
        return _each(read) if field.is_repeated else read
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: _read_enum(names, number)
    if field.type == field.TYPE_INT64 and not field.is_repeated:
        return str  # as ProtoJSON has it: not every reader of JSON knows whole numbers of 64 bits
    return list if field.is_repeated else None


def _each(read: Read) -> Read:
    def read_all(items: Any) -> list[Any]:
        found = []
        try:
            for item in items:
                found.append(read(item))
        except _Wrong as wrong:
            wrong.path.insert(0, f"[{len(found)}]")
            raise
        return found

    return read_all


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _read_enum(names: dict[int, str], number: int) -> str:
    name = names.get(number)
    if name is None:
        raise _Wrong(f"{number} is not one of {', '.join(list(names.values())[1:])}")
    return name


def _read_value(value: Any) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return _read_number(value.number_value)
        case "struct_value":
            return _read_struct(value.struct_value)
        case "list_value":
            return [_read_value(item) for item in value.list_value.values]
        case "bool_value":
            return value.bool_value
    return None


def _read_number(number: float) -> int | float:
    if number.is_integer():
        return int(number) if -EXACT <= number <= EXACT else number
    if not math.isfinite(number):
        raise _Wrong(f"{number} can't be a JSON number")
    return number


def _read_struct(message: Any) -> Value:
    # Protobuf's maps come in any order, another one each time: sorted, the same request is the same
    # bytes again.
    return {key: _read_value(value) for key, value in sorted(message.fields.items(), key=_first)}


def _read_timestamp(moment: Any) -> str:
    seconds, nanos = moment.seconds, moment.nanos
    if not (_FIRST_S <= seconds <= _LAST_S and 0 <= nanos < 1_000_000_000):
        raise _Wrong("is not a time between the years 1 and 9999")
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    fraction = f"{nanos // 1_000_000:03d}" if nanos % 1_000_000 == 0 else f"{nanos:09d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{fraction}Z"


_KNOWN_READERS: dict[str, Read] = {
    "google.protobuf.Struct": _read_struct,
    "google.protobuf.Timestamp": _read_timestamp,
    "google.protobuf.Value": _read_value,
}


# Writing

# What sets each field of a type, by the name of its member. Built on first use, and kept.
_setters: dict[Descriptor, dict[str, Fill]] = {}


def _filler(type_: Descriptor) -> Fill:
    """Return what fills messages of one type."""
    if type_.full_name in _KNOWN_FILLERS:
        return _KNOWN_FILLERS[type_.full_name]
    setters = _setters_of(type_)

    def fill(message: Any, value: Value) -> None:
        for json_name, item in value.items():
            set_ = setters.get(json_name)
            if set_ is not None:
                set_(message, item)

    return fill


def _setters_of(type_: Descriptor) -> dict[str, Fill]:
    if type_ not in _setters:
        setters = _setters[type_] = {}  # before the fields: types may contain themselves
        for field in type_.fields:
            setters[field.json_name] = _setter(field)
    return _setters[type_]


def _setter(field: Any) -> Fill:
    get, name = operator.attrgetter(field.name), field.name
    if _is_map(field):
        return _map_setter(get, field.message_type.fields_by_name["value"])
    if field.message_type is not None:
        fill = _filler(field.message_type)
        return _messages_setter(get, fill) if field.is_repeated else _message_setter(get, fill)
    convert: Read | None = None
    if field.enum_type is not None:
        convert = {value.name: value.number for value in field.enum_type.values}.__getitem__
    elif field.type == field.TYPE_BYTES:
        convert = _bytes
    elif field.type == field.TYPE_INT64:
        convert = int
    if field.is_repeated:
        return lambda message, items: get(message).extend(
            items if convert is None else map(convert, items)
        )
    if convert is None:
        return lambda message, item: setattr(message, name, item)
    return lambda message, item: setattr(message, name, convert(item))


def _message_setter(get: Read, fill: Fill) -> Fill:
    def set_(message: Any, value: Any) -> None:
        inner = get(message)
        inner.SetInParent()  # also if there is nothing in it
        fill(inner, value)

    return set_


def _messages_setter(get: Read, fill: Fill) -> Fill:
    def set_(message: Any, values: list[Any]) -> None:
        add = get(message).add
        for value in values:
            fill(add(), value)

    return set_


def _map_setter(get: Read, of: Any) -> Fill:
    if of.message_type is None:
        return lambda message, items: get(message).update(items)
    fill = _filler(of.message_type)

    def set_(message: Any, items: Value) -> None:
        found = get(message)
        for key, item in items.items():
            fill(found[key], item)

    return set_


def _bytes(item: Any) -> bytes:
    return base64.b64decode(item) if isinstance(item, str) else bytes(item)


def _fill_value(message: Any, item: Any, levels_left: int = MAX_LEVELS) -> None:
    match item:
        case str():
            message.string_value = item
        case bool():
            message.bool_value = item
        case int() | float():
            message.number_value = item
        case dict():
            message.struct_value.SetInParent()
            _fill_struct(message.struct_value, item, levels_left - 1)
        case None:
            message.null_value = 0
        case _:
            if levels_left < 0:
                raise _TooDeep
            message.list_value.SetInParent()
            add = message.list_value.values.add
            for inner in item:
                _fill_value(add(), inner, levels_left - 2)


def _fill_struct(message: Any, items: Value, levels_left: int = MAX_LEVELS) -> None:
    if levels_left < 0:
        raise _TooDeep
    fields = message.fields
    for key, item in items.items():
        _fill_value(fields[key], item, levels_left - 2)


def _fill_timestamp(message: Any, text: str) -> None:
    message.seconds, message.nanos = _moment(text)


@functools.lru_cache(256)
def _moment(text: str) -> tuple[int, int]:
    """Return a time as seconds since 1970, and nanoseconds."""
    found = _RFC3339.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        second, fraction, sign, hours, minutes = found.groups()
        seconds = _seconds(second)
    except ValueError:
        raise InvalidAgentResponse(
            f"{text!r:.80} is not a time like 2026-03-01T00:00:00Z"
        ) from None
    if sign is not None:
        away_s = int(hours) * 3600 + int(minutes) * 60
        seconds += away_s if sign == "-" else -away_s
    return seconds, int((fraction or "").ljust(9, "0"))


@functools.lru_cache(64)
def _seconds(text: str) -> int:
    """Return a time of day in UTC as seconds since 1970. Most are the one that is now."""
    return calendar.timegm(tuple(map(int, re.findall(r"\d+", text))))


_KNOWN_FILLERS: dict[str, Fill] = {
    "google.protobuf.Struct": _fill_struct,
    "google.protobuf.Timestamp": _fill_timestamp,
    "google.protobuf.Value": _fill_value,
}
