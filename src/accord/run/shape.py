"""Types of users' values: read from JSON, written to JSON, described as JSON Schema.

One face for dataclasses, msgspec structs, typed dicts, plain types and pydantic models.
"""

import dataclasses
import typing
from typing import Any, cast

import msgspec

from ..codec import lenient, text
from ..model import InvalidParams, ParseError

__all__ = ["Shape", "is_data_type", "to_builtins"]

_PLAIN = (str, int, float, bool)


class Shape:
    """A type a value has to fit."""

    def __init__(self, type_: Any) -> None:
        self.type = type_

    def read(self, value: Any, where: str) -> Any:
        """Return the JSON value as this type, or raise InvalidParams naming the field below `where`."""
        if hasattr(self.type, "model_validate"):
            return self._read_pydantic(value, where)
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            raise _below(where, lenient.bad_field(error).violations) from None

    def read_text(self, value: str, where: str) -> Any:
        """Return what a person typed: JSON if that fits, else the bare text (a 16 may be meant as "16")."""
        if self.type is str:
            return value
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
        if hasattr(self.type, "model_json_schema"):
            return cast(dict[str, Any], self.type.model_json_schema())
        return msgspec.json.schema(self.type)

    def _read_pydantic(self, value: Any, where: str) -> Any:
        try:
            return self.type.model_validate(value)
        except ValueError as error:  # pydantic.ValidationError is one, and pydantic may not be installed
            errors = getattr(error, "errors", None)
            if errors is None:
                raise
            found = [(".".join(str(step) for step in e["loc"]), str(e["msg"])) for e in errors()]
            raise _below(where, tuple(found)) from None


def is_data_type(type_: Any) -> bool:
    """Whether values of this type travel as a data part."""
    origin = typing.get_origin(type_) or type_
    return (
        origin in (dict, list)
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
    raise TypeError(
        f"a {type(value).__name__} can't be sent: return str, a dataclass, msgspec or pydantic object, dict, list, File or Part"
    )


def _plain(value: str, type_: Any) -> Any:
    """A person's yes is a bool's true; anything else stays the text it is, for the type to refuse."""
    if type_ is bool and value.strip().lower() in ("yes", "y", "ok", "true"):
        return True
    if type_ is bool and value.strip().lower() in ("no", "n", "false"):
        return False
    return value


def _below(where: str, violations: tuple[tuple[str, str], ...]) -> InvalidParams:
    named = tuple((where if field in ("", "params") else f"{where}.{field}", what) for field, what in violations)
    return InvalidParams("; ".join(f"{field}: {what}" for field, what in named), violations=named)
