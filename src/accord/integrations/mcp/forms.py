"""Questions as forms. A form of MCP is a flat object of plain fields; a question of A2A has any
JSON Schema, or none.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...model import Part

__all__ = ["QuestionForm", "form_of"]

_ANSWER = "answer"
_PLAIN = ("string", "number", "integer", "boolean")
# What MCP allows to say of a field; clients refuse forms with other words.
_WORDS = (
    "type",
    "title",
    "description",
    "enum",
    "default",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
)
_FORMATS = ("email", "uri", "date", "date-time")


class QuestionForm(NamedTuple):
    """The form for a question. `kind` says what its content stands for: the fields of an `object`,
    one `value`, a `text`, or `json` as text.
    """

    schema: dict[str, Any]
    kind: str

    def answer(self, content: Mapping[str, Any] | None) -> Any:
        """Return what somebody filled in, as the content of a message."""
        filled = dict(content or {})
        if self.kind == "object":
            return Part(data=filled, media_type="application/json")
        value = filled.get(_ANSWER, "")
        if self.kind == "value":
            return Part(data=value, media_type="application/json")
        return str(value)  # an agent of ours reads JSON from text too


def form_of(schema: Mapping[str, Any] | None) -> QuestionForm:
    """Return the form for a question whose answer has to fit this schema."""
    if schema is None or schema.get("type") == "string":
        return QuestionForm(_alone(_field(schema or {}, {}) or {"type": "string"}), "text")
    definitions = _mapping(schema.get("$defs"))
    field = _field(schema, definitions)
    if field is not None:
        return QuestionForm(_alone(field), "value")
    properties = _mapping(schema.get("properties"))
    fields = {name: _field(one, definitions) for name, one in properties.items()}
    if fields and all(fields.values()):
        wanted = _list(schema.get("required"))
        required = [name for name in fields if name in wanted]
        return QuestionForm(
            {"type": "object", "properties": fields, "required": required}, "object"
        )
    what = f"JSON that fits this schema: {json.dumps(schema, ensure_ascii=False)}"
    return QuestionForm(_alone({"type": "string", "description": what}), "json")


def _alone(field: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}


def _field(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a plain field, in the words MCP allows; None for anything else."""
    if not isinstance(schema, Mapping):
        return None
    if isinstance(schema.get("$ref"), str):
        return _field(definitions.get(schema["$ref"].rpartition("/")[2]), {})
    branches = [one for one in _list(schema.get("anyOf")) if one != {"type": "null"}]
    if len(branches) == 1:  # a field that may be left out
        inner = _field(branches[0], definitions)
        kept = {key: schema[key] for key in ("title", "description") if key in schema}
        return None if inner is None else inner | kept
    kinds = [one for one in _list(schema.get("type")) if one != "null"]
    if len(kinds) == 1:  # as above, in fewer words
        schema = {**schema, "type": kinds[0]}
    values, kind = schema.get("enum"), schema.get("type")
    if isinstance(values, list) and values and all(isinstance(one, str) for one in values):
        schema = {**schema, "type": "string"}
    elif kind not in _PLAIN or values is not None:
        return None
    found = {key: schema[key] for key in _WORDS if schema.get(key) is not None}
    if found.get("format") not in _FORMATS:
        found.pop("format", None)
    return found


# A schema is the agent's word: what should be an object or a list may be anything.


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
