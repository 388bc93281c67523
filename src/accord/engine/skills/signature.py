"""A function's signature against a message's parts.

Decided once, when the app is built; applied to every message before any task exists.
"""

import contextlib
import datetime
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from ...auth import Caller
from ...model import ContentTypeNotSupported, InvalidParams, Message, OpenUrl, ParseError
from ...protocol import text
from ...schema import Shape, in_words, is_object_type, json_schema, to_builtins
from .values import File, files_of

__all__ = ["Parameters", "bind"]


class Slot(NamedTuple):
    """One parameter and where its value comes from."""

    name: str
    kind: str
    shape: Shape | None
    is_required: bool
    description: str = ""
    default: Any = UNSET


class Parameters(NamedTuple):
    """What a function takes."""

    slots: tuple[Slot, ...]
    context: str  # the name of the Context parameter, "" if it has none
    caller: str
    fields: "Fields | None" = None  # parameters that are the fields of one JSON object

    def open_files(self, values: dict[str, Any], open_url: OpenUrl | None) -> None:
        """Have files among the arguments fetched by this function."""
        for slot in self.slots:
            if slot.kind == "file" and slot.name in values:
                values[slot.name].opened_by(open_url)
            elif slot.kind == "files":
                for file in values.get(slot.name) or ():
                    file.opened_by(open_url)

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
        values = {name: value for name, value in found.items() if value is not UNSET}
        if self.fields is not None:
            values |= self.fields.values(message)
        return values

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the data part the function takes; None if it takes none."""
        if self.fields is not None:
            return self.fields.schema()
        slot = next((slot for slot in self.slots if slot.kind in ("data", "value", "text")), None)
        if slot is None:
            return None
        schema = slot.shape.schema() if slot.shape is not None else {"type": "string"}
        return schema | {"description": slot.description} if slot.description else schema


class Fields:
    """Several parameters that are the fields of one JSON object: a data part, or JSON as text."""

    def __init__(self, slots: list[Slot]) -> None:
        self._slots = slots
        self._struct = msgspec.defstruct(
            "Fields",
            [
                (slot.name, slot.shape.type)
                if slot.is_required
                else (slot.name, slot.shape.type, UNSET)
                for slot in slots
                if slot.shape is not None
            ],
            kw_only=True,
        )
        self._shape = Shape(self._struct)

    def values(self, message: Message) -> dict[str, Any]:
        """Return the arguments a message gives."""
        for i, part in enumerate(message.parts):
            if part.data is not UNSET:
                return self._read(part.data, f"message.parts[{i}].data")
        if not message.text:
            if any(slot.is_required for slot in self._slots):
                raise ContentTypeNotSupported(f"this skill needs {self._needs()}")
            return {}
        try:
            value = text.loads(message.text.encode())
        except ParseError:
            what = f"needs {self._needs()}"
            raise InvalidParams(
                f"this skill {what}", violations=(("message.parts", what),)
            ) from None
        return self._read(value, "message.parts")

    def schema(self) -> dict[str, Any]:
        schema = json_schema(self._struct)
        schema.pop("title", None)
        properties = schema["properties"]
        for slot in self._slots:
            described = properties[slot.name]
            described.pop("default", None)
            if slot.description:
                described["description"] = slot.description
            if slot.default is not UNSET and slot.default is not None:
                # A default that is no JSON value stays the function's own.
                with contextlib.suppress(TypeError):
                    described["default"] = to_builtins(slot.default)
        schema["required"] = [slot.name for slot in self._slots if slot.is_required]
        return schema

    def _read(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            what = f"is {in_words(value)}; this skill needs {self._needs()}"
            raise InvalidParams(f"{where}: {what}", violations=((where, what),))
        found = self._shape.read(value, where)
        return {
            slot.name: item
            for slot in self._slots
            if (item := getattr(found, slot.name)) is not UNSET
        }

    def _needs(self) -> str:
        """Name the fields in words, with an example of what to send."""
        properties = self.schema()["properties"]
        names = ", ".join(
            f"{slot.name} ({_kind_in_words(properties[slot.name])}"
            f"{'' if slot.is_required else ', optional'})"
            for slot in self._slots
        )
        example = {
            slot.name: _example(properties[slot.name])
            for slot in self._slots
            if slot.is_required or len(self._slots) == 1
        }
        return (
            f"the fields {names}, as a data part or as JSON text, for example {json.dumps(example)}"
        )


_IN_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_EXAMPLES = {
    "integer": 1,
    "number": 1.5,
    "string": "text",
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def _kind_in_words(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    if schema.get("format") in ("date", "date-time", "time"):
        return {"date": "a date", "time": "a time"}.get(schema["format"], "a date and time")
    return _IN_WORDS.get(schema.get("type", ""), "an object" if "$ref" in schema else "any value")


def _example(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") in ("date", "date-time", "time"):
        return {"date": "2026-05-31", "time": "12:00:00"}.get(
            schema["format"], "2026-05-31T12:00:00Z"
        )
    return _EXAMPLES.get(schema.get("type", "object"), {})


def bind(function: Callable[..., Any], hints: dict[str, Any], context_type: type) -> Parameters:
    """Read a function's signature. `hints` are its annotations, `Annotated` included.

    Raises:
        TypeError: A parameter has no annotation, one we can't fill, or one another parameter has
          already.
    """
    slots: list[Slot] = []
    values: list[Slot] = []
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
            kind = "Context" if name in ("ctx", "context") else "str"
            raise TypeError(
                f"{function.__qualname__}: say what {name!r} is, for example {name}: {kind}"
            )
        hint, description = _described(hints[name])
        type_, is_optional = _without_none(hint)
        bare = _bare(type_)
        if bare is context_type:
            context = name
            continue
        if bare is Caller:
            caller = name
            continue
        has_default = parameter.default is not parameter.empty
        kind = _kind(function, name, bare)
        shape = Shape(_with_format(hint if is_optional and kind == "value" else type_))
        slot = Slot(
            name,
            kind,
            shape if kind in ("data", "value", "text") else None,
            not (is_optional or has_default) or kind == "message",
            description,
            parameter.default if has_default else UNSET,
        )
        if kind in ("text", "data", "value"):
            values.append(slot)
        elif any(other.kind == kind for other in slots):
            raise TypeError(
                f"{function.__qualname__}: {name!r} and another parameter both take the "
                f"{kind} of a message"
            )
        else:
            slots.append(slot)
    if len(values) > 1 and sorted(slot.kind for slot in values) != ["data", "text"]:
        fields = _fields(function, values)
        return Parameters(tuple(slots), context, caller, fields)
    values = [slot._replace(shape=None) if slot.kind == "text" else slot for slot in values]
    for slot in values:
        if slot.shape is not None:
            _check(function, slot.name, slot.shape.schema)
    return Parameters((*values, *slots), context, caller)


def _fields(function: Callable[..., Any], slots: list[Slot]) -> Fields:
    for slot in slots:
        assert slot.shape is not None  # they are values
        _check(function, slot.name, slot.shape.schema)
    return Fields(slots)


def _check(function: Callable[..., Any], name: str, schema: Callable[[], Any]) -> None:
    try:
        schema()
    except TypeError as error:
        raise TypeError(
            f"{function.__qualname__}: no message can hold the type of {name!r} ({error}); "
            "use str, a number, bool, date, Enum, Literal, list, dict, a dataclass, msgspec or "
            "pydantic type, or Message, File, list[File], bytes, Context, Caller"
        ) from None


def _kind(function: Callable[..., Any], name: str, type_: Any) -> str:
    """Where a value of this type comes from."""
    if type_ is str:
        return "text"
    if type_ is Message:
        return "message"
    if type_ is File:
        return "file"
    if type_ is bytes:
        return "bytes"
    if type_ == list[File]:
        return "files"
    return "data" if is_object_type(type_) else "value"


def _described(hint: Any) -> tuple[Any, str]:
    """Take the description out of `Annotated[type, "description"]`; what else is there stays."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, ""
    type_, *notes = typing.get_args(hint)
    words = [note for note in notes if isinstance(note, str)]
    words += [note.documentation for note in notes if hasattr(note, "documentation")]
    rest = [note for note in notes if isinstance(note, msgspec.Meta)]
    described = next((note.description for note in rest if note.description), None)
    for note in rest:
        type_ = typing.Annotated[type_, note]
    return type_, words[0] if words else described or ""


def _bare(type_: Any) -> Any:
    """The type inside `Annotated`."""
    return typing.get_args(type_)[0] if typing.get_origin(type_) is typing.Annotated else type_


def _with_format(type_: Any) -> Any:
    """A date and time, or a time, with the format that its JSON Schema would not name: msgspec
    names it only where a time zone is required.
    """
    name = {datetime.datetime: "date-time", datetime.time: "time"}.get(type_)
    if name is None:
        return type_
    return typing.Annotated[type_, msgspec.Meta(extra_json_schema={"format": name})]


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
        for part in message.parts:
            if isinstance(part.data, dict) and isinstance(part.data.get(slot.name), str):
                return part.data[slot.name]
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


def _take_value(message: Message, slot: Slot, takes_text: bool) -> Any:
    """A lone plain value: a data part that is it, or that has it as a field; or the bare text."""
    assert slot.shape is not None  # a value slot has one
    for i, part in enumerate(message.parts):
        if isinstance(part.data, dict) and slot.name in part.data:
            return slot.shape.read(part.data[slot.name], f"message.parts[{i}].data.{slot.name}")
        if part.data is not UNSET:
            return slot.shape.read(part.data, f"message.parts[{i}].data")
    if takes_text or not message.text:
        return _missing(slot, f"{slot.name} ({_kind_in_words(slot.shape.schema())})")
    return slot.shape.read_text(message.text, slot.name)


_TAKE: dict[str, Callable[[Message, Slot, bool], Any]] = {
    "text": _take_text,
    "message": _take_message,
    "file": _take_file,
    "files": _take_files,
    "bytes": _take_bytes,
    "data": _take_data,
    "value": _take_value,
}
