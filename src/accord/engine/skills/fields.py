"""Parameters that are the fields of one JSON object, or the only one that a bare value is for."""

import contextlib
import json
import logging
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from ...model import ContentTypeNotSupported, InvalidParams, Message, ParseError
from ...protocol import text
from ...schema import Shape, in_words, json_schema, to_builtins

__all__ = ["Fields", "Slot", "UnknownFields", "kind_in_words", "text_field"]

log_ = logging.getLogger("accord")

_MAX_NAMES = 100  # of unknown fields that are remembered, per skill


class Slot(NamedTuple):
    """One parameter and where its value comes from."""

    name: str
    kind: str
    shape: Shape | None
    is_required: bool
    description: str = ""
    default: Any = UNSET
    unknown: "UnknownFields | None" = None


class Fields:
    """Several parameters that are the fields of one JSON object: a data part, or JSON as text.

    Where only one of them is required, a bare text or value is that one. Where none is, it is the
    only text.
    """

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
        self.names = frozenset(slot.name for slot in slots)
        required = [slot for slot in slots if slot.is_required]
        alone = required or [slot for slot in slots if slot.kind == "text"]
        self._lone = alone[0] if len(alone) == 1 else None
        self.unknown: UnknownFields | None = None

    def values(self, message: Message) -> dict[str, Any]:
        """Return the arguments a message gives."""
        lone = self._lone
        for i, part in enumerate(message.parts):
            if part.data is not UNSET:
                where = f"message.parts[{i}].data"
                return self._read(self._with_text(part.data, message), where)
        if not message.text:
            if any(slot.is_required for slot in self._slots):
                raise ContentTypeNotSupported(f"this skill needs {self._needs()}")
            return {}
        try:
            value = text.loads(message.text.encode())
        except ParseError:
            value = UNSET
        if isinstance(value, dict) and (lone is None or not self.names.isdisjoint(value)):
            return self._read(value, "message.parts")
        if lone is None:
            what = f"needs {self._needs()}"
            raise InvalidParams(f"this skill {what}", violations=(("message.parts", what),))
        try:
            assert lone.shape is not None  # fields are values
            return {lone.name: lone.shape.read_text(message.text, lone.name)}
        except InvalidParams as wrong:
            raise self._refused(wrong) from None

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

    def _with_text(self, value: Any, message: Message) -> Any:
        """The data, with the text beside it where that is the only parameter required."""
        lone = self._lone
        has_text = lone is not None and lone.kind == "text" and message.text
        if has_text and lone is not None and isinstance(value, dict) and lone.name not in value:
            return {lone.name: message.text, **value}
        return value

    def _read(self, value: Any, where: str) -> dict[str, Any]:
        lone = self._lone
        is_bare = not isinstance(value, dict) or (
            lone is not None and lone.kind == "data" and self.names.isdisjoint(value)
        )
        if is_bare and lone is not None:
            assert lone.shape is not None  # fields are values
            try:
                return {lone.name: lone.shape.read(value, where)}
            except InvalidParams as wrong:
                raise self._refused(wrong) from None
        if not isinstance(value, dict):
            what = f"is {in_words(value)}; this skill needs {self._needs()}"
            raise InvalidParams(f"{where}: {what}", violations=((where, what),))
        found = self._shape.read(value, where)
        if self.unknown is not None:
            self.unknown.look_at(value)
        return {
            slot.name: item
            for slot in self._slots
            if (item := getattr(found, slot.name)) is not UNSET
        }

    def _refused(self, wrong: InvalidParams) -> InvalidParams:
        return InvalidParams(
            f"{wrong}; this skill needs {self._needs()}", violations=wrong.violations
        )

    def _needs(self) -> str:
        """Name the fields in words, with an example of what to send."""
        properties = self.schema()["properties"]
        names = ", ".join(
            f"{slot.name} ({kind_in_words(properties[slot.name])}"
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


class UnknownFields:
    """Says in the log, once per skill and name, that a field of a message is ignored."""

    def __init__(self, skill: str, known: frozenset[str]) -> None:
        self._skill = skill
        self._known = known
        self._reported: set[str] = set()

    def look_at(self, value: dict[str, Any]) -> None:
        for name in value.keys() - self._known - self._reported:
            if len(self._reported) < _MAX_NAMES:
                self._reported.add(name)
                log_.warning("the skill %s has no field %.80r; it is ignored", self._skill, name)


def text_field(schema: dict[str, Any]) -> str:
    """The field of an object that a bare text is for: the only one required, or else the only text.
    Empty if there is none.
    """
    properties = schema.get("properties") or {}
    texts = [name for name, field in properties.items() if field.get("type") == "string"]
    alone = schema.get("required") or texts
    return alone[0] if len(alone) == 1 and alone[0] in texts else ""


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


def kind_in_words(schema: dict[str, Any]) -> str:
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
