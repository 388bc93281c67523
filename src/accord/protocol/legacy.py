"""What the versions before 1.0 share: words for states and roles, parts with a discriminator, and
marks.

Everything here works on plain JSON values. `read_x` takes an old value and gives the one of 1.0;
`write_x` goes the other way. What an old shape has no place for travels in metadata under `MARK`,
and is taken out again when it comes back.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from ..model import FINAL, A2AError, Event, InvalidParams, Message, StatusUpdate, Task, TaskState
from . import lenient, text
from .task_outline import is_object

__all__ = [
    "FINAL_WORDS",
    "MARK",
    "WRAPPED",
    "Json",
    "convert",
    "drop_marks",
    "error_data",
    "load",
    "mark",
    "need",
    "plain_base64",
    "read",
    "read_modes",
    "read_part",
    "read_parts",
    "read_role",
    "read_state",
    "read_time",
    "read_webhook",
    "refuse",
    "some",
    "task_id_of",
    "wrapped",
    "write_part",
    "write_role",
    "write_state",
    "write_webhook",
]

T = TypeVar("T")

Json: TypeAlias = dict[str, Any]

MARK = "a2a_compat"
WRAPPED = "data_part_compat"  # the one official mark: a data part whose `value` is the real data

WORDS = {
    state.value: "unknown"
    if state is TaskState.UNSPECIFIED
    else state.value.removeprefix("TASK_STATE_").lower().replace("_", "-")
    for state in TaskState
}
FINAL_WORDS = frozenset(WORDS[state] for state in FINAL)

_STATES = {word: state for state, word in WORDS.items()} | {
    "cancelled": TaskState.CANCELED.value,
    # Never official, but written by libraries in use.
    "pending": TaskState.SUBMITTED.value,
    "processing": TaskState.WORKING.value,
    "unspecified": TaskState.UNSPECIFIED.value,
}
_NUMBERS = [state.value for state in TaskState]
_ROLES = {
    "user": "ROLE_USER",
    "agent": "ROLE_AGENT",
    "ROLE_USER": "ROLE_USER",
    "ROLE_AGENT": "ROLE_AGENT",
    1: "ROLE_USER",
    2: "ROLE_AGENT",
}
_PLAIN = {"text": "text/plain", "data": "application/json"}
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$", re.IGNORECASE)

_json = msgspec.json.Decoder()


# Reading requests


def load(params: bytes) -> Json:
    """Return the JSON object in `params`, which the door has checked with `text.check`."""
    try:
        value = _json.decode(params)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise text.parse_error(error) from None
    if not isinstance(value, dict):
        raise refuse("params", "is not an object")
    return value


def read(reader: Callable[[Any], T], value: Any, field: str = "params") -> T:
    """Return what `reader` makes of a value from outside.

    Readers say what is wrong where that helps; beyond that they take a value for what it
    should be. That it is not is the sender's mistake as well.
    """
    try:
        return reader(value)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise refuse(field, "is not valid in this version of the protocol") from None


def convert(value: Json, type_: type[T]) -> T:
    """Return a 1.0 JSON value as the model's `type_`; raises InvalidParams."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError:
        return lenient.convert(value, type_)


def refuse(field: str, what: str) -> InvalidParams:
    return InvalidParams(f"{field}: {what}", violations=((field, what),))


def need(value: Any, field: str) -> Json:
    """Return `value` if it is an object."""
    if not isinstance(value, dict):
        raise refuse(field, "is required" if value is None else "is not an object")
    return value


def some(value: Mapping[str, Any], *names: str) -> Json:
    """The members of `value` that are there; null is not."""
    return {name: found for name in names if (found := value.get(name)) is not None}


# States, roles, times


def read_state(value: Any, field: str = "status.state") -> str:
    """Return 1.0's name of a state in any spelling met on a wire or in a drawing."""
    if isinstance(value, str):
        found = _STATES.get(value) or _STATES.get(
            value.removeprefix("TASK_STATE_").lower().replace("_", "-")
        )
        if found is not None:
            return found
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_NUMBERS):
        return _NUMBERS[value]
    raise refuse(field, f"{value!r:.80} is not a state; use one of {', '.join(WORDS.values())}")


def write_state(state: str) -> str:
    return WORDS[state]


def read_role(value: Any, field: str, default: str = "") -> str:
    """Return 1.0's name of a role; with a default, for the shapes that may leave it out."""
    if value is None and default:
        return default
    found = _ROLES.get(value) if isinstance(value, (str, int)) and value is not True else None
    if found is None:
        raise refuse(
            field,
            "is required: user" if value is None else f"{value!r:.80} is neither user nor agent",
        )
    return found


def write_role(role: str) -> str:
    return "user" if role == "ROLE_USER" else "agent"


def read_time(value: str) -> str:
    """A time without a zone is UTC."""
    return value if _ZONE.search(value) else value + "Z"


def read_modes(modes: list[str]) -> list[str]:
    """0.1 wrote `text` for what is `text/plain`."""
    return ["text/plain" if mode == "text" else mode for mode in modes]


# Marks


def mark(metadata: Json | None, **facts: Any) -> Json:
    """Return `metadata` with facts the old shape has no place for."""
    metadata = dict(metadata or {})
    metadata[MARK] = {**metadata.get(MARK, {}), **facts}
    return metadata


def drop_marks(metadata: Any) -> tuple[Json | None, Json]:
    """Return the metadata without our mark, and what the mark said."""
    if not isinstance(metadata, dict):
        return metadata, {}
    facts = metadata.get(MARK)
    if not isinstance(facts, dict):
        return metadata, {}
    rest = {key: value for key, value in metadata.items() if key != MARK}
    return rest or None, facts


# Parts with a discriminator: `kind` since 0.2, `type` before


def write_part(part: Json, tag: str) -> Json:
    """Return the old part; a plain text part is changed into it, as most are that."""
    if len(part) == 1 and "text" in part:
        part[tag] = "text"
        return part
    metadata = part.get("metadata")
    if "text" in part:
        old: Json = {tag: "text", "text": part["text"]}
        metadata = _mark_kind(part, "text", metadata)
    elif "data" in part:
        data = part["data"]
        if not is_object(data):
            data, metadata = {"value": data}, {**(metadata or {}), WRAPPED: True}
        old = {tag: "data", "data": data}
        metadata = _mark_kind(part, "data", metadata)
    else:
        file: Json = {}
        if "raw" in part:
            file["bytes"] = part["raw"]
            metadata, facts = drop_marks(metadata)
            if "uri" in facts:
                file["uri"] = facts["uri"]
            elif facts.get("emptyFile") and not part["raw"]:
                del file["bytes"]
        else:
            file["uri"] = part["url"]
        if "filename" in part:
            file["name"] = part["filename"]
        if "mediaType" in part:
            file["mimeType"] = part["mediaType"]
        old = {tag: "file", "file": file}
    if metadata:
        old["metadata"] = metadata
    return old


def _mark_kind(part: Json, kind: str, metadata: Json | None) -> Json | None:
    """A text or data part of an old version has neither name nor media type."""
    facts = {name: part[name] for name in ("mediaType", "filename") if name in part}
    if facts.get("mediaType") == _PLAIN[kind]:
        del facts["mediaType"]
    return mark(metadata, **facts) if facts else metadata


def read_part(old: Any, field: str, *, lone_file: bool = False) -> Json:
    """Return the 1.0 part. The discriminator may be `kind`, `type` or missing: then the members
    decide.

    Args:
        lone_file: A file may come with neither content nor address, as 0.1 allows.
    """
    old = need(old, field)
    kind = old.get("kind") or old.get("type")
    if kind is None:
        kind = next((name for name in ("text", "file", "data") if old.get(name) is not None), None)
    metadata = old.get("metadata")
    if kind == "text" and isinstance(old.get("text"), str):
        part: Json = {"text": old["text"]}
    elif kind == "data" and "data" in old:
        data = old["data"]
        if isinstance(metadata, dict) and metadata.get(WRAPPED) is True:
            data = data.get("value") if isinstance(data, dict) else data
            metadata = {key: value for key, value in metadata.items() if key != WRAPPED} or None
        part = {"data": data}
    elif kind == "file":
        part, facts = _read_file(need(old.get("file"), f"{field}.file"), f"{field}.file", lone_file)
        metadata = mark(metadata, **facts) if facts else metadata
        return part | {"metadata": metadata} if metadata is not None else part
    else:
        raise refuse(
            field,
            f"a part of kind {kind!r:.40} has no such content"
            if kind in _PLAIN
            else f"{kind!r:.40} is not a kind of part",
        )
    if metadata is not None:
        metadata, facts = drop_marks(metadata)
        part |= {name: facts[name] for name in ("mediaType", "filename") if name in facts}
        if metadata is not None:
            part["metadata"] = metadata
    return part


def _read_file(file: Json, field: str, lone_file: bool) -> tuple[Json, Json]:
    """Return the part and what it can't hold."""
    # `data` stands in examples of the 0.2 specification, the two long names in 1.0's notes on
    # migration.
    raw = next(
        (file[name] for name in ("bytes", "data", "fileWithBytes") if file.get(name) is not None),
        None,
    )
    uri = next((file[name] for name in ("uri", "fileWithUri") if file.get(name) is not None), None)
    part: Json = {}
    facts: Json = {}
    if raw is not None:
        part["raw"] = plain_base64(raw, f"{field}.bytes")
        if uri is not None:
            facts["uri"] = uri
    elif uri is not None:
        part["url"] = uri
    elif lone_file:
        part["raw"], facts["emptyFile"] = "", True
    else:
        raise refuse(field, "has neither bytes nor uri")
    name, kind = file.get("name"), file.get("mimeType") or file.get("mediaType")
    if name:
        part["filename"] = name
    if kind:
        part["mediaType"] = kind
    return part, facts


def plain_base64(value: Any, field: str) -> str:
    """Return base64 in its standard form; url-safe or unpadded text is put right."""
    if not isinstance(value, str):
        raise refuse(field, "is not base64 text")
    standard = (
        value.replace("-", "+").replace("_", "/").replace("\n", "").replace("\r", "").rstrip("=")
    )
    standard += "=" * (-len(standard) % 4)
    try:
        base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError):
        raise refuse(field, "is not base64") from None
    return standard


def read_parts(values: Any, field: str, read: Callable[[Any, str], Json]) -> list[Json]:
    if not isinstance(values, list):
        raise refuse(field, "is required" if values is None else "is not a list")
    return [read(value, f"{field}[{i}]") for i, value in enumerate(values)]


# Requests, webhooks, events


def task_id_of(value: Json, *names: str) -> str:
    """The id of the task a request is about, under whichever name it came."""
    for name in names or ("id", "taskId", "name"):
        found = value.get(name)
        if found is not None:
            return (
                found.removeprefix("tasks/") if name == "name" and isinstance(found, str) else found
            )
    raise refuse("id", "is required")


def write_webhook(config: Json, schemes: list[str] | None = None) -> Json:
    """Return the inner config. `schemes`: all it was registered with, where 1.0 keeps the first."""
    webhook = some(config, "id", "url", "token")
    authentication = config.get("authentication")
    if authentication is not None:
        webhook["authentication"] = {
            "schemes": schemes or [authentication["scheme"]],
            **some(authentication, "credentials"),
        }
    return webhook


def read_webhook(value: Any, field: str) -> Json:
    value = need(value, field)
    if value.get("url") is None:
        raise refuse(f"{field}.url", "is required")
    config = some(value, "id", "url", "token")
    authentication = value.get("authentication")
    authentication = need(
        {} if authentication is None else authentication, f"{field}.authentication"
    )
    schemes = authentication.get("schemes") or [authentication.get("scheme") or ""]
    if not isinstance(schemes, list):
        raise refuse(f"{field}.authentication.schemes", "is not a list")
    # Clients of 0.x send an empty object, or one with no schemes, where they mean none.
    if schemes[0]:
        config["authentication"] = {"scheme": schemes[0], **some(authentication, "credentials")}
    elif authentication.get("credentials"):
        raise refuse(f"{field}.authentication.schemes", "is required with credentials")
    return config


def wrapped(event: Event | Message) -> Json:
    """The event as a StreamResponse in plain values."""
    if isinstance(event, StatusUpdate):
        name = "statusUpdate"
    elif isinstance(event, Task):
        name = "task"
    else:
        name = "message" if isinstance(event, Message) else "artifactUpdate"
    return {name: msgspec.to_builtins(event)}


def error_data(error: A2AError) -> Json:
    """Return what is sent beside code and text: the details, and the reason of an error that is
    an HTTP status, because in a stream there is no status.
    """
    return error.detail | ({"reason": error.reason} if error.is_http_level else {})
