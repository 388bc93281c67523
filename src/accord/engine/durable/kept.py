"""What a step gave, as JSON and back: the same in every life of a run, or an error in the first.

Built-in values are written so that they come back as they were, whatever the function is annotated with. JSON has no word for
some of them (a tuple, bytes, NaN, a key that is no text): these are tagged. Objects of other classes are read back by the
function's return annotation. Either way the function goes on with what was read back, not with what was given.
"""

import base64
import collections
import datetime
import decimal
import functools
import inspect
import marshal
import math
import pathlib
import types
import typing
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ..skills.schema import load_model, load_other

__all__ = ["IS_JSON", "Kept", "Unkept", "annotation_of", "keep", "read_back", "returned_by"]

TAG = "$"

_ROUTINES = (types.FunctionType, types.MethodType)  # what has annotations of its own; an object's are of its attributes
_BUILT_IN = (
    bytes,
    bytearray,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    decimal.Decimal,
)

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class Unkept(Exception):
    """A value that would not come back as it is; says why, and what to do about it."""


class Kept(NamedTuple):
    """A value as it stands in the log, and as it was read back from there."""

    json: msgspec.Raw
    form: str  # "is": as it stands there; "as": by the annotation, or "as X" by that member of it
    has_tags: bool
    value: Any


def keep(value: Any, function: Callable[..., Any]) -> Kept:
    """Return what to write for a value the function gave.

    Raises:
        Unkept: It can't be written, or would come back as something else.
    """
    try:
        text, has_tags, same = _written(value)
        return Kept(msgspec.Raw(text), "is", has_tags, same)
    except _Foreign as foreign:
        return _keep_by_annotation(value, function, foreign)
    except Exception as error:
        raise Unkept(f"a {_name(type(value))} that can't be written as JSON ({error})") from error


def read_back(json: Any, form: str, has_tags: bool, function: Callable[..., Any]) -> Any:
    """Return a value as it was kept. Raises TypeError or ValueError if the function's annotation does not fit it any more."""
    value = _without_tags(json) if has_tags else json
    return value if form == "is" else _converted(value, _member(annotation_of(function), form))


def returned_by(function: Callable[..., Any]) -> Any:
    """The return annotation as it is written; None if there is none."""
    if isinstance(function, _ROUTINES):
        try:
            return function.__annotations__.get("return")
        except NameError:  # since Python 3.14 names are looked up only now
            return "?"
    if isinstance(function, functools.partial):
        return returned_by(function.func)
    if isinstance(function, type):
        return function
    call = inspect.getattr_static(type(function), "__call__", None)
    return returned_by(call) if isinstance(call, types.FunctionType) else None


def annotation_of(function: Callable[..., Any]) -> Any:
    """The return annotation as a type; None if there is none, or one that says nothing.

    Raises:
        NameError: It is written as text and names what can't be found.
    """
    type_ = returned_by(function)
    if isinstance(type_, str):  # as all are with `from __future__ import annotations`
        while isinstance(function, functools.partial):
            function = function.func
        routine = function if isinstance(function, _ROUTINES) else type(function).__call__
        type_ = typing.get_type_hints(routine).get("return")
    return None if type_ in (Any, object, types.NoneType) else type_


# By the annotation


def _keep_by_annotation(value: Any, function: Callable[..., Any], foreign: "_Foreign") -> Kept:
    # The classes are the user's, and so is what they raise. Whatever it is, the step has been done and must not be done again.
    what = f"a {foreign.name}" if foreign.value is value else f"a {_name(type(value))} with a {foreign.name} in it"
    try:
        plain = _plain(value)
    except Exception as error:
        raise Unkept(
            f"{what}, which can't be written as JSON ({error}): return built-in values, or a dataclass, msgspec or pydantic object"
        ) from error
    try:
        type_ = annotation_of(function)
    except Exception as error:
        raise Unkept(f"{what}, and its annotation {returned_by(function)!r} can't be resolved: {error}") from error
    if type_ is None:
        raise Unkept(
            f"{what}, and the function does not say so: give it a return annotation, by which the value can be read back after "
            f"a restart (def {getattr(function, '__name__', 'f').strip('<>')}(...) -> {_name(type(value))}, no lambda)"
        )
    form = _form(type_, type(value))
    try:
        text, has_tags, read = _written(plain)
        found = _converted(read, _member(type_, form))
        is_same = _is_equal(found, value) or (type(found) is type(value) and _written(_plain(found))[0] == text)
    except Exception as error:
        raise Unkept(f"{what}, which its annotation {_name(type_)} can't read back from JSON: {error}") from error
    if not is_same:
        raise Unkept(
            f"{what}, which does not come back the same by its annotation {_name(type_)}: "
            "name the very classes it returns, which have to read from JSON all they write"
        )
    return Kept(msgspec.Raw(text), form, has_tags, found)


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # some can't be compared
        return False


def _form(type_: Any, given: type) -> str:
    """Of a union the member that was given is noted: from the JSON alone it could not always be told."""
    found = [member for member in _members(type_) if (typing.get_origin(member) or member) is given]
    return f"as {_name(found[0])}" if found else "as"


def _member(type_: Any, form: str) -> Any:
    return next((member for member in _members(type_) if form == f"as {_name(member)}"), type_)


def _members(type_: Any) -> tuple[Any, ...]:
    return typing.get_args(type_) if typing.get_origin(type_) in (typing.Union, types.UnionType) else ()


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_dump, builtin_types=_BUILT_IN)


def _dump(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=False, round_trip=True)
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, pathlib.PurePath):
        return str(value)
    raise TypeError(f"{_name(type(value))} is neither built in nor a dataclass, msgspec or pydantic class")


def _converted(value: Any, type_: Any) -> Any:
    if hasattr(type_, "model_validate"):
        return load_model(type_, value, by_name=True)
    return msgspec.convert(value, type_, dec_hook=_load, builtin_types=_BUILT_IN)


def _load(type_: Any, value: Any) -> Any:
    return load_model(type_, value, by_name=True) if hasattr(type_, "model_validate") else load_other(type_, value)


# Built-in values


class _Foreign(Exception):
    """Not built in: only an annotation can tell how to make it again."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value
        self.name = _name(type(value))


def _written(value: Any) -> tuple[bytes, bool, Any]:
    """Return the JSON of a value, whether it has tags, and the value as it is read back."""
    try:
        text = _encode(value)
        same = _decode(text)
        # `marshal` takes nothing but built-in types, no subclasses, and at its first version writes equal ones the same.
        if marshal.dumps(same, 0) == marshal.dumps(value, 0):
            return text, False, same
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    text = _encode(_with_tags(value))
    return text, True, _without_tags(_decode(text))


def _with_tags(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_with_tags(item) for item in value]
    if kind is dict and all(type(key) is str and _is_text(key) for key in value) and TAG not in value:
        return {key: _with_tags(item) for key, item in value.items()}
    if IS_JSON.get(kind, _never)(value):
        return value
    tag = _TAGS.get(kind)
    if tag is None:
        raise _Foreign(value)
    return {TAG: tag.name, "of": tag.write(value)}


def _without_tags(value: Any) -> Any:
    if type(value) is list:
        return [_without_tags(item) for item in value]
    if type(value) is not dict:
        return value
    if TAG in value:
        return _READ[value[TAG]](value["of"])
    return {key: _without_tags(item) for key, item in value.items()}


def _is_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # half a surrogate pair, as names of files may have
        return False


def _never(value: Any) -> bool:
    return False


def _list(value: Any) -> list[Any]:
    return [_with_tags(item) for item in value]


def _read_list(value: list[Any]) -> list[Any]:
    return [_without_tags(item) for item in value]


def _pairs(value: dict[Any, Any]) -> list[Any]:
    return [[_with_tags(key), _with_tags(item)] for key, item in value.items()]


def _read_pairs(value: list[Any]) -> dict[Any, Any]:
    return {_without_tags(key): _without_tags(item) for key, item in value}


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


def _moment(value: datetime.datetime | datetime.time) -> list[Any]:
    """The time as text, which of two such times when clocks are set back, and the name of its zone."""
    zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
    return [(value.replace(tzinfo=None) if zone else value).isoformat(), value.fold, zone]


def _reads_moment(kind: Any) -> Callable[[list[Any]], Any]:
    def read(of: list[Any]) -> Any:
        text, fold, zone = of
        value = kind.fromisoformat(text).replace(fold=fold)
        return value.replace(tzinfo=zoneinfo.ZoneInfo(zone)) if zone else value

    return read


class _Tag(NamedTuple):
    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


IS_JSON: dict[type, Callable[[Any], bool]] = {
    str: _is_text,
    int: lambda value: value.bit_length() < 64,
    float: math.isfinite,
    bool: lambda value: True,
    types.NoneType: lambda value: True,
}
_TAGS: dict[type, _Tag] = {
    str: _Tag("str", lambda value: value.encode("unicode_escape").decode(), lambda of: of.encode().decode("unicode_escape")),
    int: _Tag("int", hex, lambda of: int(of, 16)),
    float: _Tag("float", repr, float),
    complex: _Tag("complex", lambda value: [repr(value.real), repr(value.imag)], lambda of: complex(*map(float, of))),
    bytes: _Tag("bytes", _base64, base64.b64decode),
    bytearray: _Tag("bytearray", _base64, lambda of: bytearray(base64.b64decode(of))),
    tuple: _Tag("tuple", _list, lambda of: tuple(_read_list(of))),
    set: _Tag("set", _list, lambda of: set(_read_list(of))),
    frozenset: _Tag("frozenset", _list, lambda of: frozenset(_read_list(of))),
    dict: _Tag("dict", _pairs, _read_pairs),
    collections.OrderedDict: _Tag("OrderedDict", _pairs, lambda of: collections.OrderedDict(_read_pairs(of))),
    collections.Counter: _Tag("Counter", _pairs, lambda of: collections.Counter(_read_pairs(of))),
    datetime.datetime: _Tag("datetime", _moment, _reads_moment(datetime.datetime)),
    datetime.time: _Tag("time", _moment, _reads_moment(datetime.time)),
    datetime.date: _Tag("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.timedelta: _Tag(
        "timedelta", lambda value: [value.days, value.seconds, value.microseconds], lambda of: datetime.timedelta(*of)
    ),
    uuid.UUID: _Tag("UUID", str, uuid.UUID),
    decimal.Decimal: _Tag("Decimal", str, decimal.Decimal),
    type(pathlib.Path()): _Tag("Path", lambda value: _with_tags(str(value)), lambda of: pathlib.Path(_without_tags(of))),
}
_READ = {tag.name: tag.read for tag in _TAGS.values()}


def _name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) and not typing.get_args(type_) else str(type_).replace("typing.", "")
