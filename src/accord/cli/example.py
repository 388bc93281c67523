"""A command that works for an agent's skill, made from its signature."""

import json
import shlex
from typing import Any

from ..auth import ApiKeys, Auth
from ..engine.skills import Skill

__all__ = ["credential_words", "example_words"]

_FILES = ("file", "files", "bytes")

_VALUES: dict[str, Any] = {
    "integer": 1,
    "number": 1.5,
    "string": "Hello",
    "boolean": True,
    "null": None,
}
_FORMATS = {
    "date": "2026-05-31",
    "time": "12:00:00",
    "date-time": "2026-05-31T12:00:00Z",
    "duration": "PT90S",
    "uuid": "01964d6e-5f4c-7b1a-9c3d-2e8f6a7b1c0d",
    "decimal": "1.5",
    "email": "ada@example.com",
    "uri": "https://example.com",
}


def example_words(skill: Skill, *, is_alone: bool, file: str = "") -> str:
    """What to type behind `accord send URL` for a skill; without its name if it `is_alone`. Where
    it takes a file, `file` is one that is there.
    """
    words = [] if is_alone or skill.is_default else ["--skill", skill.id]
    binding = skill.binding
    if any(slot.kind in _FILES and slot.is_required for slot in binding.slots):
        words += ["--file", file or "FILE"]
    if skill.card.examples:
        return shlex.join([*words, skill.card.examples[0]])
    if binding.fields is not None:
        words += _typed(binding.fields.schema())
    takes_text = any(slot.kind == "text" for slot in binding.slots)
    for slot in binding.slots:
        if slot.kind == "text":
            words.append("Hello")
        elif slot.shape is not None and (slot.is_required or not takes_text):
            words += _typed(slot.shape.schema())
    has_parts = "--file" in words or "--data" in words
    if not has_parts and words in ([], ["--skill", skill.id]):
        words.append("Hello")  # any message does
    return shlex.join(words)


def credential_words(auth: Auth) -> str:
    """What a caller has to add, with the words for its credentials."""
    keys = any(isinstance(scheme, ApiKeys) for scheme in auth.schemes.values())
    return "--api-key KEY" if keys else "--bearer TOKEN"


def _typed(schema: dict[str, Any]) -> list[str]:
    value = _example(schema, schema.get("$defs", {}))
    return [value] if isinstance(value, str) else ["--data", json.dumps(value)]


def _example(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> Any:
    """A value that fits a schema, as far as that needs no more than a look."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _example(definitions.get(name, {}), definitions, depth + 1) if depth < 8 else {}
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if schema.get("anyOf"):
        return _example(schema["anyOf"][0], definitions, depth + 1)
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if "properties" in schema:
        wanted = schema.get("required") or list(schema["properties"])[:1]
        return {
            name: _example(schema["properties"][name], definitions, depth + 1) for name in wanted
        }
    if schema.get("type") in ("integer", "number"):
        return _number(schema)
    if schema.get("type") == "array":
        first = [_example(one, definitions, depth + 1) for one in schema.get("prefixItems", [])]
        rest = schema["items"] if isinstance(schema.get("items"), dict) else {}
        missing = max(0, int(schema.get("minItems", 0)) - len(first))
        return first + [_example(rest, definitions, depth + 1)] * missing
    value = _VALUES.get(str(schema.get("type")), {})
    if isinstance(value, str):
        return value.ljust(int(schema.get("minLength", 0)), "o")[: schema.get("maxLength")]
    return value


def _number(schema: dict[str, Any]) -> Any:
    """A number that is neither too small nor too large."""
    step = schema.get("multipleOf", 1)
    if "minimum" in schema:
        return -(-schema["minimum"] // step) * step
    if "exclusiveMinimum" in schema:
        return (schema["exclusiveMinimum"] // step + 1) * step
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    value = _VALUES[schema["type"]] if "multipleOf" not in schema else step
    return value if most is None or value < most else (most // step - 1) * step
