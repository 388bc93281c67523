"""The second look at a request that strict decoding refused.

ProtoJSON allows more than one spelling of the same thing, and real clients use them all: snake_case
names, enum numbers, url-safe or unpadded base64, `null` for absent, integers as "10" or 10.0,
members we don't know. `convert` rewrites them to the one spelling `model` takes. What is still
wrong after that is the caller's error.
"""

import base64
import binascii
import functools
import re
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as mi

from ..model import InvalidParams, TaskState
from . import text

__all__ = ["bad_field", "convert"]

T = TypeVar("T")

_MEMBER = re.compile(r"(?:missing required field|contains unknown field) `(?P<name>[^`]+)`")
_INT32 = range(-(2**31), 2**31)


def convert(value: Any, type_: type[T]) -> T:
    """Return the JSON value `value` as a `type_`, or raise InvalidParams naming the field."""
    try:
        return msgspec.convert(_normal(value, mi.type_info(type_), ""), type_)
    except msgspec.ValidationError as error:
        raise bad_field(error) from None


def bad_field(error: msgspec.ValidationError) -> InvalidParams:
    """Turn a decoder's complaint into InvalidParams with a field violation."""
    what, path = _place(text.in_plain_words(error))
    member = _MEMBER.search(what)
    if member is not None:
        path = f"{path}.{member['name']}" if path else member["name"]
        what = "is required" if what.startswith("Object missing") else "is not known"
    return _refuse(path, what)


def _place(complaint: str) -> tuple[str, str]:
    """Split an error of msgspec into what is wrong and where. The place is missing if it is the
    whole value.
    """
    what, at, where = complaint.rpartition(" - at ")
    where = where.removeprefix("key in ")
    if not at or not where.startswith("`$") or not where.endswith("`"):
        return complaint, ""
    return what, where[2:-1].lstrip(".")


def _refuse(path: str, what: str) -> InvalidParams:
    field = path.lstrip(".") or "params"
    return InvalidParams(f"{field}: {what}", violations=((field, what),))


def _normal(value: Any, node: mi.Type, path: str) -> Any:
    match node:
        case mi.StructType():
            return _normal_struct(value, node, path)
        case mi.UnionType():
            # Only ever `X | None` or `X | unset` here: null was dropped by the struct around it.
            return _normal(
                value,
                next(t for t in node.types if not isinstance(t, (mi.NoneType, mi.CustomType))),
                path,
            )
        case mi.ListType() if isinstance(value, list):
            return [_normal(item, node.item_type, f"{path}[{i}]") for i, item in enumerate(value)]
        case mi.DictType() if isinstance(value, dict):
            return {
                key: _normal(item, node.value_type, f"{path}.{key}") for key, item in value.items()
            }
        case mi.EnumType():
            return _normal_enum(value, node, path)
        case mi.BytesType() if isinstance(value, str):
            return _normal_base64(value, path)
        case mi.IntType():
            return _normal_int(value, node, path)
    return value


def _normal_struct(value: Any, node: mi.StructType, path: str) -> Any:
    if not isinstance(value, dict):
        return value
    fields = _fields(node.cls)
    seen: dict[str, Any] = {}
    for key, item in value.items():
        field = fields.get(key)
        if field is None:
            continue
        # `data: null` is the JSON value null; everywhere else null means absent.
        if item is None and not isinstance(field.type, mi.AnyType):
            continue
        seen[field.encode_name] = _normal(item, field.type, f"{path}.{field.encode_name}")
    return seen


@functools.cache
def _fields(cls: type) -> dict[str, mi.Field]:
    node = mi.type_info(cls)
    assert isinstance(node, mi.StructType)
    # camelCase last: where both spellings of a name are the same word, they are one entry.
    return {f.name: f for f in node.fields} | {f.encode_name: f for f in node.fields}


def _normal_enum(value: Any, node: mi.EnumType, path: str) -> Any:
    members = list(node.cls)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(members):
        return members[value].value
    known = [member.value for member in members]
    if value == "TASK_STATE_CANCELLED" and node.cls is TaskState:
        return TaskState.CANCELED.value
    if value not in known:
        raise _refuse(path, f"{value!r:.80} is not one of {', '.join(known[1:])}")
    return value


def _normal_base64(value: str, path: str) -> str:
    standard = value.replace("-", "+").replace("_", "/")
    padded = standard + "=" * (-len(standard) % 4)
    try:
        return base64.b64encode(base64.b64decode(padded, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise _refuse(path, "is not base64") from None


def _normal_int(value: Any, node: mi.IntType, path: str) -> Any:
    if (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value)
    ):
        value = int(value)
    allowed = range(node.ge or 0, node.le + 1) if node.le is not None else _INT32
    if isinstance(value, int) and not isinstance(value, bool) and value not in allowed:
        within = "does not fit 32 bits" if node.le is None else "is not from 0 to 2^63 - 1"
        raise _refuse(path, within)
    return value
