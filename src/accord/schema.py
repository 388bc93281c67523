"""Types of users' values: read from JSON, written to JSON, described as JSON Schema.

One face for dataclasses, msgspec structs, typed dicts, plain types and pydantic models.
"""

import copy
import dataclasses
import inspect
import logging
import pathlib
import typing
from typing import Any, cast

import msgspec

from .model import A2AError, InvalidParams, ParseError, Unavailable
from .protocol import lenient, text

__all__ = [
    "Shape",
    "in_words",
    "is_object_type",
    "json_schema",
    "load_model",
    "load_other",
    "to_builtins",
]

log_ = logging.getLogger("accord")


class Shape:
    """A type a value has to fit, or a JSON Schema (a dict)."""

    def __init__(self, type_: Any) -> None:
        self.type = type_

    def read(self, value: Any, where: str) -> Any:
        """Return the JSON value as this type, or raise InvalidParams naming the field below
        `where`; also if a check of the type's own raises something else.
        """
        if isinstance(self.type, dict):
            _check_schema(value, self.type, where)
            return value
        try:
            if hasattr(self.type, "model_validate"):
                return self._read_pydantic(value, where)
            return msgspec.convert(value, self.type, dec_hook=_load_foreign, str_keys=True)
        except msgspec.ValidationError as error:
            raise _below(where, lenient.bad_field(error).violations) from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # of a check that the user wrote: it may raise anything
            if isinstance(error, A2AError) and not isinstance(error, Unavailable):
                raise  # it refuses the value in the words of the protocol
            raise self._check_failed(where, error) from error

    def _check_failed(self, where: str, error: BaseException) -> InvalidParams:
        """Return the error for a value at which the check of its type failed. It names what was
        raised and no more: the text may hold anything, and goes to whoever sent the value.
        """
        name = getattr(self.type, "__qualname__", str(self.type))
        log_.error("%s: the check of %s raised", where, name, exc_info=error)
        what = f"the check of {name} raised {type(error).__name__}"
        return InvalidParams(f"{where}: {what}", violations=((where, what),))

    def read_text(self, value: str, where: str) -> Any:
        """Return what a person typed: JSON if that fits, else the bare text (a 16 may be meant as
        "16").
        """
        if self.type is str or _is_text_schema(self.type):
            return self.read(value, where)
        try:
            found = text.loads(value.encode())
        except ParseError:
            return self.read(_plain(value, self.type), where)
        try:
            return self.read(found, where)
        except InvalidParams as wrong:
            try:
                return self.read(value, where)
            except InvalidParams:
                raise wrong from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of this type."""
        if isinstance(self.type, dict):
            return _without_top_ref(copy.deepcopy(self.type)) if "$ref" in self.type else self.type
        return json_schema(self.type)

    def _read_pydantic(self, value: Any, where: str) -> Any:
        try:
            return load_model(self.type, value)
        except _Misfit as error:
            raise _below(where, error.violations) from None


def _is_text_schema(type_: Any) -> bool:
    return isinstance(type_, dict) and type_.get("type") == "string"


def _check_schema(value: Any, schema: dict[str, Any], where: str) -> None:
    """Raise InvalidParams if a JSON value does not fit a schema; without jsonschema any fits."""
    try:
        from jsonschema import ValidationError, validate  # not ours to require
    except ImportError:
        return
    try:
        validate(value, schema)
    except ValidationError as error:
        field = ".".join([where, *(str(step) for step in error.absolute_path)])
        raise InvalidParams(
            f"{field}: {error.message}", violations=((field, error.message),)
        ) from None


class _Misfit(ValueError):
    """A pydantic model refuses a value."""

    def __init__(self, violations: tuple[tuple[str, str], ...]) -> None:
        super().__init__(
            "; ".join(f"{field}: {what}" if field else what for field, what in violations)
        )
        self.violations = violations


def load_model(type_: Any, value: Any, *, by_name: bool = False) -> Any:
    """Return the JSON value as this pydantic model; `by_name`, if its fields stand under their own
    names, not their aliases.

    Raises:
        ValueError: It does not fit.
    """
    options = (
        {"by_name": True}
        if by_name and "by_name" in inspect.signature(type_.model_validate).parameters
        else {}
    )
    try:
        return type_.model_validate(value, **options)
    except (
        ValueError
    ) as error:  # pydantic.ValidationError is one, and pydantic may not be installed
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        try:
            # Strict models take a date as text only there.
            return type_.model_validate_json(msgspec.json.encode(value), **options)
        except ValueError:
            found = [(".".join(str(step) for step in e["loc"]), str(e["msg"])) for e in errors()]
            raise _Misfit(tuple(found)) from None


def load_other(type_: Any, value: Any) -> Any:
    """Return the JSON value as a class of the user's that is a kind of text or number, or a path.
    Raises TypeError for others.
    """
    class_ = typing.get_origin(type_) or type_
    if isinstance(class_, type):
        if isinstance(value, class_):
            return value
        if issubclass(class_, (str, int, float, pathlib.PurePath)):
            return class_(value)
    raise TypeError(f"{type_} can't be read from JSON")


def _load_foreign(type_: Any, value: Any) -> Any:
    return (
        load_model(type_, value) if hasattr(type_, "model_validate") else load_other(type_, value)
    )


def json_schema(type_: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, with no `$ref` at its top.

    Raises:
        TypeError: JSON can't hold its values.
    """
    if hasattr(type_, "model_json_schema"):
        return _without_top_ref(type_.model_json_schema())
    return _without_top_ref(msgspec.json.schema(type_, schema_hook=_schema_of_foreign))


def _without_top_ref(schema: dict[str, Any]) -> dict[str, Any]:
    """Put a definition that is the whole schema in its place, and nested ones at the top."""
    definitions = dict(schema.pop("$defs", {}))
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = dict(definitions[name])
        if f'"#/$defs/{name}"' not in msgspec.json.encode([schema, definitions]).decode():
            del definitions[name]
    for definition in [schema, *definitions.values()]:
        for field in definition.get("properties", {}).values():
            definitions |= field.pop("$defs", {})
    return schema | {"$defs": definitions} if definitions else schema


def _schema_of_foreign(type_: Any) -> dict[str, Any]:
    if hasattr(type_, "model_json_schema"):
        return cast(dict[str, Any], type_.model_json_schema())
    class_ = typing.get_origin(type_) or type_
    if isinstance(class_, type):
        for base, name in (
            (str, "string"),
            (pathlib.PurePath, "string"),
            (int, "integer"),
            (float, "number"),
        ):
            if issubclass(class_, base):
                return {"type": name}
    raise TypeError(f"{getattr(type_, '__name__', type_)} has no JSON form")


def in_words(value: Any) -> str:
    """Say what kind of JSON value this is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
    return "an object"


def is_object_type(type_: Any) -> bool:
    """Whether values of this type are a JSON object, which is a data part of its own."""
    origin = typing.get_origin(type_) or type_
    return (
        origin is dict
        or typing.is_typeddict(origin)
        or dataclasses.is_dataclass(origin)
        or hasattr(origin, "model_validate")
        or (isinstance(origin, type) and issubclass(origin, msgspec.Struct))
    )


def to_builtins(value: Any) -> Any:
    """Return `value` as plain JSON types. Raises TypeError for what JSON can't hold."""
    return msgspec.to_builtins(value, enc_hook=_dump_foreign, str_keys=True)


def _dump_foreign(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if inspect.isawaitable(value):
        if hasattr(value, "close"):
            value.close()  # nobody will await it
        raise TypeError(
            "a coroutine can't be sent: write `await` before the call that "
            "made it, as in `await ctx.step(...)`"
        )
    raise TypeError(
        f"a {type(value).__name__} can't be sent: return str, a dataclass, msgspec or "
        "pydantic object, dict, list, File or Part"
    )


def _plain(value: str, type_: Any) -> Any:
    """A person's yes is a bool's true; anything else stays the text it is, for the type to
    refuse.
    """
    if isinstance(type_, dict) and type_.get("type") == "boolean":
        type_ = bool
    if type_ is bool and value.strip().lower() in ("yes", "y", "ok", "true"):
        return True
    if type_ is bool and value.strip().lower() in ("no", "n", "false"):
        return False
    return value


def _below(where: str, violations: tuple[tuple[str, str], ...]) -> InvalidParams:
    named = tuple(
        (where if field in ("", "params") else f"{where}.{field}", what)
        for field, what in violations
    )
    return InvalidParams("; ".join(f"{field}: {what}" for field, what in named), violations=named)
