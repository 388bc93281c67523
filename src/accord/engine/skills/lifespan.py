"""What an agent's lifespan yields, and which parameters of its skills get a part of it."""

import dataclasses
import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from ...auth import Caller
from ...model import Message
from ...schema import is_object_type, json_schema
from .values import File

__all__ = ["Lifespan"]

_YIELDING = (AsyncIterator, AsyncGenerator, AbstractAsyncContextManager)
_OF_MESSAGES = (str, bytes, bytearray, Message, File, list[File], Caller, Any)


class Lifespan:
    """An async context manager around the work of an agent. What it yields are its resources."""

    def __init__(self, function: Callable[..., Any], names: dict[str, Any]) -> None:
        if inspect.isasyncgenfunction(function):
            self.open: Callable[[], AbstractAsyncContextManager[Any]] = asynccontextmanager(
                function
            )
        elif inspect.isasyncgenfunction(inspect.unwrap(function)):
            self.open = function  # decorated with @asynccontextmanager already
        else:
            raise TypeError(
                f"{function.__qualname__}: a lifespan is an `async def` that yields once: what "
                "skills need is opened before the yield and closed after it"
            )
        self._function = inspect.unwrap(function)
        self._names = names
        self._type: Any = None  # of what it yields; None if it does not say
        self._fields: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return str(self._function.__qualname__)

    def resolve(self) -> None:
        """Read the signature, once every name it uses exists. Raises TypeError for one that can't
        be called or understood.
        """
        needed = [
            name
            for name, parameter in inspect.signature(self._function).parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if needed:
            raise TypeError(
                f"{self.name}: a lifespan is called without arguments; drop {needed[0]!r}"
            )
        hint = typing.get_type_hints(self._function, localns=self._names).get("return")
        if hint is None:
            return
        if typing.get_origin(hint) not in _YIELDING or not typing.get_args(hint):
            raise TypeError(
                f"{self.name}: say what the lifespan yields, as in -> AsyncIterator[Pools]"
            )
        self._type = typing.get_args(hint)[0]
        self._fields = _fields(self._type, self._names)

    def field_for(self, function: str, parameter: str, type_: Any) -> str | None:
        """Return the field of the resources that a parameter of this type gets: "" for all of them,
        None if its value comes from the message.

        Raises:
            TypeError: More than one field is of this type.
        """
        if self._type is None or _is_of_messages(type_):
            return None
        if type_ == self._type:
            return ""
        found = [name for name, of in self._fields.items() if of == type_]
        if len(found) > 1:
            raise TypeError(
                f"{function}: {parameter!r} could be {' or '.join(found)}, which {self.name} "
                f"yields with the same type; use ctx.resources.{found[0]}"
            )
        return found[0] if found else None

    def check_unannotated(self, value: Any, hints: dict[str, dict[str, Any]]) -> None:
        """Raise TypeError if skills have parameters (`hints`, by the name of the function) of a
        type that was yielded, and the annotation that says so is missing.
        """
        if self._type is not None or value is None:
            return
        found = {type(value), *(type(getattr(value, name, None)) for name in _fields(type(value)))}
        for function, parameters in hints.items():
            for name, type_ in parameters.items():
                if name != "return" and type_ in found and not _is_of_messages(type_):
                    raise TypeError(
                        f"{function}: {name!r} would be read from the message; to have it filled "
                        f"by the lifespan, say what that yields: async def {self.name}() -> "
                        f"AsyncIterator[{type(value).__name__}]"
                    )


def _fields(type_: Any, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a dataclass, a msgspec type or a named tuple, and their types."""
    if dataclasses.is_dataclass(type_):
        own = [field.name for field in dataclasses.fields(type_)]
    elif isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        own = list(type_.__struct_fields__)
    else:
        own = list(getattr(type_, "_fields", ()))
    hints = typing.get_type_hints(type_, localns=names) if own else {}
    return {name: hints[name] for name in own if name in hints}


def _is_of_messages(type_: Any) -> bool:
    """Whether values of this type always come from the message: text, numbers, lists, files. An
    object of a class of the user's own may be either.
    """
    if type_ in _OF_MESSAGES or type_ is types.NoneType:
        return True
    if hasattr(type_, "_fields"):
        return False  # a named tuple
    if is_object_type(type_):
        return (typing.get_origin(type_) or type_) is dict
    try:
        json_schema(type_)
    except TypeError:
        return False
    return True
