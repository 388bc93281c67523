"""A command that works for an agent's skill, made from its signature."""

import json
import shlex
from typing import Any

from ..engine.skills import Skill

__all__ = ["example_words"]

_VALUES: dict[str, Any] = {
    "integer": 1,
    "number": 1.5,
    "string": "Hello",
    "boolean": True,
    "array": [],
    "null": None,
}
_MOMENTS = {"date": "2026-05-31", "time": "12:00:00", "date-time": "2026-05-31T12:00:00Z"}


def example_words(skill: Skill, *, is_alone: bool) -> str:
    """What to type behind `accord send URL` for a skill; without its name if it `is_alone`."""
    words = [] if is_alone or skill.is_default else ["--skill", skill.id]
    schema = skill.schemas().get("input")
    if skill.card.examples:
        words.append(skill.card.examples[0])
    elif schema is None:
        takes_files = any(slot.kind.startswith("file") for slot in skill.binding.slots)
        words += ["--file", "FILE"] if takes_files else ["Hello"]
    else:
        value = _example(schema, schema.get("$defs", {}))
        if isinstance(value, str):
            words.append(value)
        else:
            words += ["--data", json.dumps(value)]
    return shlex.join(words)


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
    if schema.get("format") in _MOMENTS:
        return _MOMENTS[schema["format"]]
    if "properties" in schema:
        wanted = schema.get("required") or list(schema["properties"])[:1]
        return {
            name: _example(schema["properties"][name], definitions, depth + 1) for name in wanted
        }
    if "minimum" in schema:
        return schema["minimum"]
    return _VALUES.get(str(schema.get("type")), {})
