"""Functions made at run time, as agent frameworks take them for tools: a name, a Google-style
docstring, and a signature with annotations, all derived from a JSON Schema.
"""

import inspect
import keyword
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from ..slug import slug_of

__all__ = [
    "ToolParameter",
    "between_tags",
    "identifier",
    "make_function",
    "one_line",
    "parameters_of",
]

MAX_NAME = 64  # of a tool; what the model providers and MCP allow
_MAX_DESCRIPTION = 300  # characters of one parameter's

_PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool}


class ToolParameter(NamedTuple):
    """A parameter of a function."""

    name: str
    annotation: Any
    description: str
    default: Any = inspect.Parameter.empty


def identifier(text: str, *, otherwise: str = "agent") -> str:
    """Return a text as the name of a function: lower case, words joined by `_`."""
    name = slug_of(text, between="_", otherwise=otherwise, most=MAX_NAME)
    if keyword.iskeyword(name):
        return f"{otherwise}_{name}"
    return name if name.isidentifier() else f"{otherwise}_{name}"[:MAX_NAME]


def one_line(text: str, most: int) -> str:
    """Return a text of somebody else as one line of at most `most` characters.

    Without line breaks it can't pass for a section of a docstring, and without angle brackets it
    can't end the tags around it (`between_tags`).
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = line.replace("<", "(").replace(">", ")")
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def between_tags(label: str, lines: Iterable[str], most: int) -> str:
    """Return a text of somebody else between two tags, so that a model can tell it from ours."""
    shown: list[str] = []
    left = most
    for line in lines:
        if left <= 0:
            break
        shown.append(one_line(line, left))
        left -= len(shown[-1])
    return "\n".join([f"<{label}>", *shown, f"</{label}>"])


def parameters_of(schema: Mapping[str, Any]) -> list[ToolParameter] | None:
    """Return the parameters that the JSON Schema of an object describes, the required ones first.

    None if a field can't be the name of a parameter.
    """
    # A schema is a stranger's word: what should be an object or a list may be anything.
    definitions, properties = schema.get("$defs"), schema.get("properties")
    definitions = definitions if isinstance(definitions, dict) else {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    found = []
    for name, field in properties.items() if isinstance(properties, dict) else ():
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            return None
        field = _resolved(field, definitions)
        annotation = _annotation(field, definitions)
        default: Any = inspect.Parameter.empty
        if name not in required:
            default = field.get("default")
            if default is None:
                annotation = annotation | None if annotation is not Any else Any
        description = one_line(str(field.get("description") or ""), _MAX_DESCRIPTION)
        found.append(ToolParameter(name, annotation, description, default))
    return sorted(found, key=lambda one: one.default is not inspect.Parameter.empty)


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow one `$ref` to a definition of the same schema."""
    if not isinstance(schema, dict):
        return {}
    if isinstance(schema.get("$ref"), str):
        found = definitions.get(schema["$ref"].rpartition("/")[2])
        return found if isinstance(found, dict) else {}
    return schema


def _annotation(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """Return the Python type for values of a schema; Any where there is no plain one."""
    values = schema.get("enum")
    if isinstance(values, list) and values and all(isinstance(v, str | int) for v in values):
        return Literal[tuple(values)]
    if isinstance(schema.get("const"), str | int):
        return Literal[schema["const"]]
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list):
        rest = [one for one in branches if one != {"type": "null"}]
        inner = _annotation(_resolved(rest[0], definitions), {}) if len(rest) == 1 else Any
        return inner | None if inner is not Any and len(rest) < len(branches) else inner
    kind = schema.get("type")
    if kind == "array":
        items = _annotation(_resolved(schema.get("items"), definitions), {})
        return types.GenericAlias(list, (items,))
    if kind == "object":
        return dict[str, Any]
    return _PLAIN.get(kind, Any) if isinstance(kind, str) else Any


def make_function(
    name: str,
    description: str,
    parameters: Iterable[ToolParameter],
    call: Callable[[dict[str, Any]], Awaitable[Any]],
    returns: Any = str,
) -> Callable[..., Any]:
    """Return an `async def` of this name and signature. `call` gets its arguments by name."""
    parameters = list(parameters)
    signature = inspect.Signature(
        [
            inspect.Parameter(
                one.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=one.default,
                annotation=_described(one),
            )
            for one in parameters
        ],
        return_annotation=returns,
    )

    async def function(*args: Any, **fields: Any) -> Any:
        bound = signature.bind(*args, **fields)
        bound.apply_defaults()
        return await call(dict(bound.arguments))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _docstring(description, parameters)
    function.__annotations__ = {one.name: _described(one) for one in parameters} | {
        "return": returns
    }
    function.__signature__ = signature  # type: ignore[attr-defined]  # `inspect` reads it
    return function


def _described(one: ToolParameter) -> Any:
    return Annotated[one.annotation, one.description] if one.description else one.annotation


def _docstring(description: str, parameters: list[ToolParameter]) -> str:
    if not parameters:
        return description
    lines = [f"    {one.name}: {one.description or one.name}" for one in parameters]
    return "\n".join([description, "", "Args:", *lines])
