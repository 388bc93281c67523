"""A function's signature against a message's parts.

Decided once, when the app is built; applied to every message before any task exists.
"""

import datetime
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from ...auth import Caller
from ...model import (
    MAX_FETCHED,
    ContentTypeNotSupported,
    InvalidParams,
    Message,
    OpenUrl,
    ParseError,
)
from ...protocol import text
from ...schema import Shape, is_object_type
from .fields import Fields, Slot, UnknownFields, kind_in_words, text_field
from .lifespan import Lifespan
from .values import File, files_of

__all__ = ["Parameters", "bind"]


class Parameters(NamedTuple):
    """What a function takes."""

    slots: tuple[Slot, ...]
    context: str  # the name of the Context parameter, "" if it has none
    caller: str
    fields: Fields | None = None  # parameters that are the fields of one JSON object
    resources: tuple[tuple[str, str], ...] = ()  # parameters that get a field of the resources

    def put_resources(self, values: dict[str, Any], resources: Any) -> None:
        """Add the arguments that come from the agent's lifespan."""
        for name, field in self.resources:
            values[name] = getattr(resources, field) if field else resources

    @property
    def takes_bytes(self) -> bool:
        """Whether the function is given the bytes of a file."""
        return any(slot.kind == "bytes" for slot in self.slots)

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

    def for_skill(self, skill: str) -> "Parameters":
        """Return these parameters, logging unknown fields under the name of the skill."""
        if self.fields is not None:
            self.fields.unknown = UnknownFields(skill, self.fields.names)
        slots = tuple(
            slot._replace(unknown=_unknown(slot, skill)) if slot.kind == "data" else slot
            for slot in self.slots
        )
        return self._replace(slots=slots)

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the data part the function takes; None if it takes none."""
        if self.fields is not None:
            return self.fields.schema()
        slot = next((slot for slot in self.slots if slot.kind in ("data", "value", "text")), None)
        if slot is None:
            return None
        schema = slot.shape.schema() if slot.shape is not None else {"type": "string"}
        return schema | {"description": slot.description} if slot.description else schema


def bind(
    function: Callable[..., Any],
    hints: dict[str, Any],
    context_type: type,
    lifespan: Lifespan | None = None,
) -> Parameters:
    """Read a function's signature. `hints` are its annotations, `Annotated` included. Parameters
    of a type that the lifespan yields are filled by that.

    Raises:
        TypeError: A parameter has no annotation, one we can't fill, or one another parameter has
          already.
    """
    slots: list[Slot] = []
    values: list[Slot] = []
    resources: list[tuple[str, str]] = []
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
        if lifespan is not None:
            field = lifespan.field_for(function.__qualname__, name, bare)
            if field is not None:
                resources.append((name, field))
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
        return Parameters(tuple(slots), context, caller, fields, tuple(resources))
    values = [slot._replace(shape=None) if slot.kind == "text" else slot for slot in values]
    for slot in values:
        if slot.shape is not None:
            _check(function, slot.name, slot.shape.schema)
    return Parameters((*values, *slots), context, caller, resources=tuple(resources))


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
            "pydantic type, or Message, File, list[File], bytes, Context, Caller, or a type that "
            "@agent.lifespan says it yields"
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


def _unknown(slot: Slot, skill: str) -> UnknownFields | None:
    """What logs the unknown fields of an object; None if it may have any."""
    schema = slot.shape.schema() if slot.shape is not None else {}
    if not schema.get("properties") or schema.get("additionalProperties"):
        return None
    return UnknownFields(skill, frozenset(schema["properties"]))


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
    size = found[0].size
    if found[0].data is None and found[0].is_stored:
        if size is not None and size > MAX_FETCHED:
            raise InvalidParams(
                f"the file has {size} bytes; this skill reads files of up to {MAX_FETCHED} bytes "
                f"for {slot.name!r} (a parameter of type File takes larger ones)",
                reason="FILE_TOO_LARGE",
                limit=str(MAX_FETCHED),
            )
        return b""  # its bytes are there when the function is called
    if found[0].data is None:
        raise ContentTypeNotSupported(
            f"this skill needs the file's bytes for {slot.name!r}; a url part is not "
            "fetched, send it as raw",
            parameter=slot.name,
        )
    return found[0].data


def _take_data(message: Message, slot: Slot, takes_text: bool) -> Any:
    for i, part in enumerate(message.parts):
        if part.data is not UNSET:
            return _read_object(slot, part.data, f"message.parts[{i}].data")
    if takes_text or not message.text:
        return _missing(slot, "a data part")
    assert slot.shape is not None  # a data slot has one
    field = text_field(slot.shape.schema())
    try:
        value = text.loads(message.text.encode())
    except ParseError:
        if not field:
            what = f"needs JSON for {slot.name!r}, as a data part or as text"
            raise InvalidParams(
                f"this skill {what}", violations=(("message.parts", what),)
            ) from None
        value = message.text
    if field and not isinstance(value, dict):
        value = message.text  # as it was typed: a 16 may be meant as "16"
    return _read_object(slot, value, "message.parts")


def _read_object(slot: Slot, value: Any, where: str) -> Any:
    """Return the object. A bare text is the field that `text_field` names."""
    assert slot.shape is not None  # a data slot has one
    if isinstance(value, str) and (field := text_field(slot.shape.schema())):
        value = {field: value}
    found = slot.shape.read(value, where)
    if slot.unknown is not None and isinstance(value, dict):
        slot.unknown.look_at(value)
    return found


def _take_value(message: Message, slot: Slot, takes_text: bool) -> Any:
    """A lone plain value: a data part that is it, or that has it as a field; or the bare text."""
    assert slot.shape is not None  # a value slot has one
    for i, part in enumerate(message.parts):
        if isinstance(part.data, dict) and slot.name in part.data:
            return slot.shape.read(part.data[slot.name], f"message.parts[{i}].data.{slot.name}")
        if part.data is not UNSET:
            return slot.shape.read(part.data, f"message.parts[{i}].data")
    if takes_text or not message.text:
        return _missing(slot, f"{slot.name} ({kind_in_words(slot.shape.schema())})")
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
