"""A command that works for an agent's skill, made from its signature."""

import json
import mimetypes
import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

from ..auth import Auth, Scheme
from ..engine.skills import Skill

__all__ = ["credential_words", "example_line", "example_words"]

_FILES = ("file", "files", "bytes")
_PYTHON = "text/x-python"  # of the file that is served
# Commands that print a small file of a media type.
_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_SAMPLES = {
    "text/csv": r"printf 'name,value\nA,3\nB,5\n'",
    "text/tab-separated-values": r"printf 'name\tvalue\nA\t3\nB\t5\n'",
    "application/json": """echo '{"name": "A", "value": 3}'""",
    "text/html": "echo '<p>Hello</p>'",
    "application/xml": "echo '<a>Hello</a>'",
    "text/xml": "echo '<a>Hello</a>'",
    "image/svg+xml": """echo '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'""",
    "image/png": f"echo {_PNG} | base64 -d",
    "text/plain": "echo Hello",
    "text/markdown": "echo Hello",
}

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
# Words in the texts of a skill without modes, and the files they stand for.
_WORDS = {
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
    "xml": "application/xml",
    "svg": "image/svg+xml",
    "png": "image/png",
    "image": "image/png",
    "picture": "image/png",
    "photo": "image/png",
}


def example_line(
    url: str, skill: Skill, *, is_alone: bool, file: str = "", modes: Sequence[str] = ()
) -> str:
    """A line to type that sends a skill something it takes. See `example_words`."""
    words = example_words(skill, is_alone=is_alone, file=file, modes=modes)
    kind = _sample(skill, file, modes)
    source = f"{_SAMPLES[kind]} | " if kind in _SAMPLES else ""
    return f"{source}accord send {url} {words}"


def example_words(
    skill: Skill, *, is_alone: bool, file: str = "", modes: Sequence[str] = ()
) -> str:
    """What to type behind `accord send URL` for a skill; without its name if it `is_alone`. Where
    it takes a file, `file` is one that is there, if that is of the `modes` it takes. Else it is
    read from standard input, for which `example_line` has a command.
    """
    words = [] if is_alone or skill.is_default else ["--skill", skill.id]
    binding = skill.binding
    kind = _sample(skill, file, modes)
    if kind in _SAMPLES:
        words += ["--file", "-", "--media-type", kind]
    elif _needs_file(skill):
        words += ["--file", f"FILE{mimetypes.guess_extension(kind) or ''}" if kind else file]
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


def _needs_file(skill: Skill) -> bool:
    return any(slot.kind in _FILES and slot.is_required for slot in skill.binding.slots)


def _sample(skill: Skill, file: str, modes: Sequence[str]) -> str:
    """The media type of a file to make for a skill; empty if `file` does, or it needs none."""
    if not _needs_file(skill):
        return ""
    modes = modes or _skill_lines(skill)
    if not modes:
        return "" if file else "text/plain"
    patterns = [mode.lower() if "/" in mode else f"{mode.lower()}/*" for mode in modes]
    if file and any(fnmatch(_PYTHON, pattern) for pattern in patterns):
        return ""
    known = [kind for pattern in patterns for kind in _SAMPLES if fnmatch(kind, pattern)]
    return known[0] if known else patterns[0]


def _skill_lines(skill: Skill) -> list[str]:
    """The media type that the words of a skill speak of, as far as that is one we know."""
    words = re.findall("[a-z]+", f"{skill.id} {skill.card.description}".lower())
    return [_WORDS[word] for word in words if word in _WORDS][:1]


def credential_words(auth: Auth) -> str:
    """Return the options a caller needs to authenticate in the first way the card offers, with
    placeholders in capitals; empty if anyone may call.
    """
    if any(scheme.is_open for scheme in auth.schemes.values()):
        return ""
    return " ".join(_option(scheme) for scheme in auth.alternatives[0])


def _option(scheme: Scheme) -> str:
    card = scheme.card()
    http = card.http_auth_security_scheme
    if card.api_key_security_scheme is not None:
        return "--api-key KEY"
    if card.mtls_security_scheme is not None:
        return "--client-cert CERTIFICATE.pem"
    if http is None or http.scheme.lower() == "bearer":
        return "--bearer TOKEN"
    if http.scheme.lower() == "basic":
        return '--header "Authorization: Basic $(printf USER:PASSWORD | base64)"'
    return f'--header "Authorization: {http.scheme} CREDENTIALS"'


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
