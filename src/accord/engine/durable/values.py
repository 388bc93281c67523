"""Results of steps: written as JSON, and read back as what they were.

JSON values need nothing. Everything else is read back by its type: the function's return
annotation, or `returns=`. What can't be read back is a TypeError in the first attempt, and the
function goes on with what was read back in every attempt: a result never differs from one attempt
to the next.
"""

import collections.abc
import functools
import inspect
import marshal
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from ...model import File
from ...schema import load_model

__all__ = ["Result", "result_type", "routine_of"]

_NULL = msgspec.Raw(b"null")
_AWAITABLE = (collections.abc.Awaitable, collections.abc.Coroutine)
_WHAT_TO_RETURN = (
    "a JSON value, a dataclass, a msgspec or pydantic object, a File, or a type such as datetime, "
    "UUID, Decimal, bytes or Enum"
)


class Result:
    """How the results of one function are written and read."""

    __slots__ = ("_codec", "_name")

    def __init__(self, name: str, codec: "_Codec | None") -> None:
        self._name = name  # of the function
        self._codec = codec  # None if it has no annotation: then it gives JSON values

    @property
    def is_file(self) -> bool:
        """Whether the results are files, which lie in the file store if they are large."""
        return self._codec is not None and self._codec.type is File

    def file(self, value: Any) -> File:
        """Return a result that is a file.

        Raises:
            TypeError: It is none.
        """
        if isinstance(value, File):
            return value
        raise TypeError(
            f"step {self._name!r} returned {_a(type(value))}, but its return type is File"
        )

    def encode(self, value: Any) -> tuple[msgspec.Raw, Any]:
        """Return a result as JSON, and as it is read back.

        Raises:
            TypeError: It would not come back the same; says what to write.
        """
        codec, kind = self._codec, type(value)
        if codec is None or codec.plain is kind:  # most results
            if value is None:
                return _NULL, None
            if (kind is str and value.isascii()) or (kind is int and value.bit_length() < 64):
                return msgspec.Raw(_encode(value)), value
        return self._encode_json(value) if codec is None else self._encode_typed(value, codec)

    def decode(self, raw: Any) -> Any:
        """Return the result that was written so. Raises ValueError or TypeError if it does not fit
        the type of today.
        """
        return _decode(raw) if self._codec is None else self._codec.decode(raw)

    def _encode_json(self, value: Any) -> tuple[msgspec.Raw, Any]:
        try:
            text = _encode(value)
            back = _decode(text)
            # marshal takes built-in types only, none derived from them, and distinguishes them: a
            # tuple is no list, 1 is not True.
            if marshal.dumps(back, 0) == marshal.dumps(value, 0):
                return msgspec.Raw(text), back
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass
        found = next(_foreign(value), None)
        if found is None:  # not a number, half a surrogate pair, a nesting too deep
            raise TypeError(
                f"step {self._name!r} gave {_a(type(value))} that JSON can't hold: floats "
                "have to be finite, and text to be "
                "valid Unicode"
            )
        inside = "" if found is value else f"{_a(type(value))} with "
        type_ = _named(type(found)) if found is value else f"{_named(type(value))}[...]"
        raise TypeError(
            f"step {self._name!r} gave {inside}{_a(type(found))}, which can't be read back "
            "from JSON without its type; write "
            f"def {self._name}(...) -> {type_}, or ctx.step({self._name}, ..., returns={type_})"
        )

    def _encode_typed(self, value: Any, codec: "_Codec") -> tuple[msgspec.Raw, Any]:
        try:
            text = _encode(value)
            back = codec.decode(text)
            is_same = _is_same(back, value)
        except Exception as error:  # some of the classes are the user's
            raise TypeError(
                f"step {self._name!r} gave {_a(type(value))}, which can't be read back as "
                f"its type {_named(codec.type)} ({error}); "
                f"name the type it gives: def {self._name}(...) -> Type, or returns=Type"
            ) from error
        if not is_same:
            raise TypeError(
                f"step {self._name!r} gave {_a(type(value))} that does not come back the "
                f"same as its type {_named(codec.type)}: "
                "name exactly the types it gives, and those of what is in them"
            )
        return msgspec.Raw(text), back


def result_type(function: Callable[..., Any], returns: Any = None) -> Result:
    """Return how to write and read the results of a function.

    Args:
        function: What is called in the step. An async generator function gives its text.
        returns: The type of the result; None if the return annotation says it.

    Raises:
        TypeError: The type can't be read back from JSON; says what to write.
    """
    routine = routine_of(function)
    if returns is not None:
        return Result(_name_of(routine), _codec_for(routine, returns))
    try:
        found = _results.get(routine)
    except TypeError:  # neither hashed nor referred to weakly
        return Result(_name_of(routine), _codec_for(routine, _annotation(routine)))
    if found is None:
        found = _results[routine] = Result(
            _name_of(routine), _codec_for(routine, _annotation(routine))
        )
    return found


_results: "WeakKeyDictionary[Any, Result]" = WeakKeyDictionary()


def routine_of(function: Any) -> Any:
    """The function behind a partial, a method or an object that can be called; a class stays
    itself.
    """
    while True:
        if type(function) is types.FunctionType or isinstance(function, type):
            return function
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            function = function.__func__
        else:
            call = inspect.getattr_static(type(function), "__call__", None)
            return call if isinstance(call, types.FunctionType) else function


def _annotation(routine: Any) -> Any:
    """The type of what is awaited or returned; Any if nothing says it."""
    if isinstance(routine, type):
        return routine  # calling a class gives one of it
    if inspect.isasyncgenfunction(routine):
        return str
    try:
        type_ = getattr(routine, "__annotations__", {}).get("return", Any)
        type_ = type(None) if type_ is None else _resolved(routine, type_)
    except Exception as error:  # of Python's own evaluation, which may raise anything
        raise TypeError(
            f"the return annotation of step {_name_of(routine)!r} can't be resolved "
            f"({error}); write ctx.step(..., returns=Type)"
        ) from error
    if typing.get_origin(type_) in _AWAITABLE:
        return typing.get_args(type_)[-1]
    return type_


def _resolved(routine: Any, type_: Any) -> Any:
    """An annotation written as text, as all are with `from __future__ import annotations`."""
    if not isinstance(type_, str) and not typing.get_args(type_):
        return type_
    inner = inspect.unwrap(routine)
    around = (
        zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=False)
        if hasattr(inner, "__code__")
        else ()
    )
    local = {name: cell.cell_contents for name, cell in around if cell != types.CellType()}
    # Those of parameters need not be known at run time.
    only = types.SimpleNamespace(__annotations__={"return": type_})
    return typing.get_type_hints(
        only, getattr(inner, "__globals__", {}), local, include_extras=True
    )["return"]


# By type


class _Codec:
    """Reads values of one type."""

    __slots__ = ("decode", "plain", "type")

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self.plain = type_ if type_ in (str, int, types.NoneType) else None
        self.decode = msgspec.json.Decoder(type_, dec_hook=_load).decode
        for custom in _custom_types(msgspec.inspect.type_info(type_), set()):
            if type_ is not File and not hasattr(custom, "model_validate"):
                raise TypeError(
                    f"{_named(custom)} is neither a type JSON has a form for nor a "
                    "dataclass, msgspec or pydantic class"
                )


def _codec_for(routine: Any, type_: Any) -> _Codec | None:
    if type_ in (Any, object):
        return None
    try:
        try:
            return _codec(type_)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            return _Codec(type_)  # as Annotated with something that has no hash
    except Exception as error:
        raise TypeError(
            f"the result of step {_name_of(routine)!r} can't be read back as its type "
            f"{_named(type_)} ({error}); return "
            f"{_WHAT_TO_RETURN}, and say so: def {_name_of(routine)}(...) -> Type, or returns=Type"
        ) from error


_codec = functools.lru_cache(maxsize=1024)(_Codec)


def _custom_types(node: Any, seen: set[int]) -> Iterator[Any]:
    """The classes within a type that msgspec does not know."""
    if id(node) in seen:
        return  # types may contain themselves
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType):
        yield node.cls
    elif isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)):
        for field in node.__struct_fields__:
            yield from _custom_types(getattr(node, field), seen)
    elif isinstance(node, tuple):
        for item in node:
            yield from _custom_types(item, seen)


def _load(type_: Any, value: Any) -> Any:
    return load_model(type_, value, by_name=True)


def _dump(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # of pydantic, which may not be installed
        return value.model_dump(mode="json", by_alias=False, round_trip=True)
    raise TypeError(f"{_a(type(value))} can't be written as JSON")


_encode = msgspec.json.Encoder(enc_hook=_dump).encode
_decode = msgspec.json.Decoder().decode


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal; of objects that are only equal to themselves, whether they are
    written the same.
    """
    if one == other:
        return True
    kind: Any = type(one)
    if kind is not type(other):
        return False
    if kind in (list, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if kind is dict:
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    has_own_equality: bool = "__eq__" in {
        name for class_ in kind.__mro__[:-1] for name in vars(class_)
    }
    return not has_own_equality and bool(_encode(one) == _encode(other))


# For messages


def _foreign(value: Any) -> Iterator[Any]:
    """What within a value is no JSON value."""
    if type(value) is list:
        for item in value:
            yield from _foreign(item)
    elif type(value) is dict:
        yield from (key for key in value if type(key) is not str)
        for item in value.values():
            yield from _foreign(item)
    elif type(value) not in (str, int, float, bool, types.NoneType):
        yield value


def _name_of(routine: Any) -> str:
    return getattr(routine, "__name__", "") or type(routine).__name__


def _a(type_: type) -> str:
    name = _named(type_)
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _named(type_: Any) -> str:
    """A type as it is written in code."""
    if type_ is types.NoneType:
        return "None"
    return (
        type_.__name__
        if isinstance(type_, type) and not typing.get_args(type_)
        else str(type_).replace("typing.", "")
    )
