"""A function's signature against a message's parts.

Decided once, when the app is built; applied to every message before any task exists.
"""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import UNSET

from ...auth import Caller
from ...model import ContentTypeNotSupported, InvalidParams, Message, ParseError
from ...protocol import text
from .schema import Shape, is_data_type
from .values import File, files_of

__all__ = ["Binding", "bind"]


class Slot(NamedTuple):
    """One parameter and where its value comes from."""

    name: str
    kind: str
    shape: Shape | None
    is_required: bool


class Binding(NamedTuple):
    """What a function takes."""

    slots: tuple[Slot, ...]
    context: str  # the name of the Context parameter, "" if it has none
    caller: str

    def values(self, message: Message) -> dict[str, Any]:
        """Return the arguments a message gives.

        Raises:
            ContentTypeNotSupported: No part of the kind a parameter needs.
            InvalidParams: A part of the kind, but its content does not fit; names the fields.
        """
        if len(self.slots) == 1 and self.slots[0].kind == "text" and len(message.parts) == 1:
            (part,) = message.parts
            if isinstance(part.text, str):
                return {self.slots[0].name: part.text}  # most messages to most skills
        takes_text = any(slot.kind == "text" for slot in self.slots)
        found = {slot.name: _TAKE[slot.kind](message, slot, takes_text) for slot in self.slots}
        return {name: value for name, value in found.items() if value is not UNSET}


def bind(function: Callable[..., Any], hints: dict[str, Any], context_type: type) -> Binding:
    """Read a function's signature.

    Raises:
        TypeError: A parameter has no annotation, one we can't fill, or one another parameter has
          already.
    """
    slots: list[Slot] = []
    context = caller = ""
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
            parameter.POSITIONAL_ONLY,
        ):
            raise TypeError(
                f"{function.__qualname__}: a skill takes named parameters; write out {parameter}"
            )
        if name not in hints:
            raise TypeError(
                f"{function.__qualname__}: say what {name!r} is, for example {name}: str"
            )
        type_, is_optional = _without_none(hints[name])
        if type_ is context_type:
            context = name
            continue
        if type_ is Caller:
            caller = name
            continue
        slot = _slot(function, name, type_, is_optional or parameter.default is not parameter.empty)
        if any(other.kind == slot.kind for other in slots):
            raise TypeError(
                f"{function.__qualname__}: {name!r} and another parameter both take the "
                f"{slot.kind} of a message"
            )
        slots.append(slot)
    return Binding(tuple(slots), context, caller)


def _slot(function: Callable[..., Any], name: str, type_: Any, is_optional: bool) -> Slot:
    if type_ is str:
        return Slot(name, "text", None, not is_optional)
    if type_ is Message:
        return Slot(name, "message", None, True)
    if type_ is File:
        return Slot(name, "file", None, not is_optional)
    if type_ is bytes:
        return Slot(name, "bytes", None, not is_optional)
    if type_ == list[File]:
        return Slot(name, "files", None, not is_optional)
    if is_data_type(type_):
        return Slot(name, "data", Shape(type_), not is_optional)
    raise TypeError(
        f"{function.__qualname__}: {name!r} is a {getattr(type_, '__name__', type_)}, "
        "which no message holds; "
        "use str, Message, File, list[File], bytes, dict, a dataclass, msgspec or pydantic "
        "type, Context or Caller"
    )


def _without_none(type_: Any) -> tuple[Any, bool]:
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        rest = [t for t in typing.get_args(type_) if t is not types.NoneType]
        if len(rest) == 1:
            return rest[0], True
    return type_, False


def _missing(slot: Slot, what: str) -> Any:
    if slot.is_required:
        raise ContentTypeNotSupported(
            f"this skill needs {what} in the message, for its parameter {slot.name!r}",
            parameter=slot.name,
        )
    return UNSET


def _take_text(message: Message, slot: Slot, _: bool) -> Any:
    texts = [part.text for part in message.parts if isinstance(part.text, str)]
    if not texts:
        return _missing(slot, "text")
    return texts[0] if len(texts) == 1 else "\n".join(texts)


def _take_message(message: Message, slot: Slot, _: bool) -> Any:
    return message


def _take_file(message: Message, slot: Slot, _: bool) -> Any:
    found = files_of(message)
    return found[0] if found else _missing(slot, "a file")


def _take_files(message: Message, slot: Slot, _: bool) -> Any:
    return files_of(message) or _missing(slot, "a file")


def _take_bytes(message: Message, slot: Slot, _: bool) -> Any:
    found = files_of(message)
    if not found:
        return _missing(slot, "a file")
    if found[0].data is None:
        raise ContentTypeNotSupported(
            f"this skill needs the file's bytes for {slot.name!r}; a url part is not "
            "fetched, send it as raw",
            parameter=slot.name,
        )
    return found[0].data


def _take_data(message: Message, slot: Slot, takes_text: bool) -> Any:
    assert slot.shape is not None  # a data slot has one
    for i, part in enumerate(message.parts):
        if part.data is not UNSET:
            return slot.shape.read(part.data, f"message.parts[{i}].data")
    if takes_text or not message.text:
        return _missing(slot, "a data part")
    try:
        value = text.loads(message.text.encode())
    except ParseError:
        what = f"needs JSON for {slot.name!r}, as a data part or as text"
        raise InvalidParams(f"this skill {what}", violations=(("message.parts", what),)) from None
    return slot.shape.read(value, "message.parts")


_TAKE: dict[str, Callable[[Message, Slot, bool], Any]] = {
    "text": _take_text,
    "message": _take_message,
    "file": _take_file,
    "files": _take_files,
    "bytes": _take_bytes,
    "data": _take_data,
}
