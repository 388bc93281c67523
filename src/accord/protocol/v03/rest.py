"""A2A 0.3 on HTTP+JSON. Clients use three variants of its JSON, and a server answers each client in
its own.

The released variant is protobuf's JSON (`proto_json`). Clients written from the specification's
prose send the objects of JSON-RPC (`v03`). The drafts after 0.3 renamed a few members. The body of
a send shows its variant. Other requests have no body, so the variant is stored with the task.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import (
    A2AError,
    ContentTypeNotSupported,
    Event,
    ExtendedAgentCardNotConfigured,
    InvalidAgentResponse,
    ListPushConfigsResponse,
    Message,
    PushNotificationNotSupported,
    TaskNotCancelable,
    TaskPushNotificationConfig,
    UnsupportedMediaType,
    UnsupportedOperation,
)
from .. import legacy, legacy_card
from ..contract import Codec, RestCodec, Semantics, Snapshot, TaskPage
from ..legacy import Json
from ..task_outline import shallow_task
from ..v1 import codec as v1
from . import codec as v03
from . import proto_json
from .file_bytes import Form, form_of_caller
from .proto_json import DRAFT, RELEASED, Names

__all__ = [
    "CARD",
    "DRAFT_CODEC",
    "PROSE",
    "PROTO",
    "REST_VARIANTS",
    "RestVariants",
    "V03Card",
    "V03Prose",
    "V03Rest",
    "for_caller",
    "is_only_its_own",
]


def _read_task(value: Json) -> Json:
    task_id = value["id"]
    request: Json = {"id": task_id}
    length = value.get("historyLength", value.get("history_length"))
    if length is not None:
        request["historyLength"] = proto_json.read_number(length, "historyLength")
    return request


class V03Rest:
    """The released dialect, or with `DRAFT` names that of the drafts. The names say how file bytes
    travel, too.
    """

    errors_in_streams = False

    def __init__(self, origin: str, names: Names) -> None:
        self.origin = origin
        self._names = names
        self._readers: dict[str, Callable[[Json], Json]] = {
            "SendMessage": lambda value: proto_json.read_send(value, names.form),
            "SendStreamingMessage": lambda value: proto_json.read_send(value, names.form),
            "GetTask": _read_task,
            "ListTasks": proto_json.read_list,
            "CancelTask": lambda value: {"id": value["id"]},
            "SubscribeToTask": lambda value: {"id": value["id"]},
            "CreateTaskPushNotificationConfig": lambda value: proto_json.read_push(
                value, value.pop("taskId", "")
            ),
            "GetTaskPushNotificationConfig": lambda value: legacy.some(value, "taskId", "id"),
            "ListTaskPushNotificationConfigs": lambda value: legacy.some(value, "taskId"),
            "DeleteTaskPushNotificationConfig": lambda value: legacy.some(value, "taskId", "id"),
            "GetExtendedAgentCard": lambda value: {},
            "GetAgentCard": lambda value: {},
        }

    def join(self, operation: str, fields: Json, query: dict[str, list[str]], body: bytes) -> bytes:
        """What the path names wins over what a body says: its `name` or `parent` is the same thing
        spelt out.
        """
        value: Any = {name: texts[-1] for name, texts in query.items()}
        if body and body != b"null":
            value = legacy.load(body)
        return v1.encode(value | fields)

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        _, type_, semantics = v03.READERS[operation]
        return legacy.convert(
            legacy.read(self._readers[operation], legacy.load(params)), type_
        ), semantics

    def result(self, operation: str, answer: Any) -> bytes:
        match answer:
            case Snapshot():
                task = self.task(shallow_task(answer.data))
                return v1.encode({"task": task} if operation == "SendMessage" else task)
            case Message():
                return v1.encode(self.event({"message": msgspec.to_builtins(answer)}, False))
            case TaskPage():
                return v1.encode(v03.write_tasks(answer, self.task))
            case TaskPushNotificationConfig():
                return v1.encode(self.push(msgspec.to_builtins(answer)))
            case ListPushConfigsResponse():
                configs = [self.push(msgspec.to_builtins(config)) for config in answer.configs]
                return v1.encode(
                    {"configs": configs}
                    | ({"nextPageToken": answer.next_page_token} if answer.next_page_token else {})
                )
            case None:
                return b""  # 204
        return v1.encode(legacy_card.union(answer))

    def task(self, task: Json) -> Json:
        return proto_json.write_task(task, self._names)

    def event(self, event: Json, is_last: bool) -> Json:
        return proto_json.write_event(event, is_last=is_last, names=self._names)

    def push(self, config: Json) -> Json:
        return proto_json.write_push(config)

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        return [v1.encode(self.event(legacy.wrapped(event), is_last))]

    def error(self, error: A2AError) -> Json:
        """Errors were never standardised on this binding: this one object is read by every client
        there is.
        """
        name = v03.error_name(error)
        return v03.write_error(error) | {"type": name, "error": name}

    def failure(self, error: A2AError) -> tuple[int, bytes]:
        return _status(error), v1.encode(self.error(error))

    def answer_type(self, accept: bytes, sent: bytes) -> bytes:
        return b"application/json"


class V03Prose(V03Rest):
    """The dialect of the prose: the objects of JSON-RPC in the wrappers of HTTP+JSON."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin, RELEASED)
        self._readers["SendMessage"] = self._readers["SendStreamingMessage"] = _read_prose

    def task(self, task: Json) -> Json:
        return v03.write_task(task)

    def event(self, event: Json, is_last: bool) -> Json:
        [name] = event
        return {name: v03.write_event(event, is_last=is_last)}

    def push(self, config: Json) -> Json:
        return v03.write_push(config)


def _read_prose(value: Json) -> Json:
    return v03.read_send(
        value if "message" in value else {**value, "message": value.get("request")}
    )


class V03Card(V03Rest):
    """0.2's plain GET of the extended card: an agent without one has nothing at that address."""

    def failure(self, error: A2AError) -> tuple[int, bytes]:
        status, body = super().failure(error)
        return (404 if isinstance(error, UnsupportedOperation) else status), body


PROTO = V03Rest("0.3/proto", RELEASED)
DRAFT_CODEC = V03Rest("0.3/draft", DRAFT)
PROSE = V03Prose("0.3/prose")
CARD = V03Card("0.3/proto", RELEASED)

# The same for clients that send file bytes as base64 text. A task made by one is like any other:
# its origin is the same.
_AS_TEXT: dict[RestCodec, RestCodec] = {
    PROTO: V03Rest(PROTO.origin, RELEASED._replace(form=Form.TEXT)),
    DRAFT_CODEC: V03Rest(DRAFT_CODEC.origin, DRAFT._replace(form=Form.TEXT)),
}


def for_caller(codec: RestCodec, user_agent: str) -> RestCodec:
    """Return the codec for a client with this user agent."""
    return (
        _AS_TEXT.get(codec, codec)
        if form_of_caller("HTTP+JSON", user_agent) is Form.TEXT
        else codec
    )


class RestVariants:
    """Which of the three a request is in."""

    def codec_or_task_id(self, operation: str, hint: str, params: bytes) -> Codec | str:
        """Return the codec, or the id of the task that remembers it."""
        value = legacy.load(params)
        if operation in ("SendMessage", "SendStreamingMessage"):
            return _variant(value)
        return str(value.get("taskId") or value.get("id") or "") or PROTO

    def for_origin(self, origin: str) -> Codec:
        return {PROSE.origin: PROSE, DRAFT_CODEC.origin: DRAFT_CODEC}.get(origin, PROTO)


REST_VARIANTS = RestVariants()


def is_only_its_own(body: bytes) -> bool:
    """Whether a send that says it is of another version is 0.3's all the same: only 0.3 has
    `content`.
    """
    message = _message(legacy.load(body)) if body else None
    return message is not None and "content" in message


def _message(value: Json) -> Json | None:
    message = value.get("message", value.get("request"))
    return message if isinstance(message, dict) else None


def _variant(value: Json) -> Codec:
    message = _message(value)
    if message is None or "content" in message:
        return PROTO
    parts = message.get("parts")
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    if message.get("role") in ("user", "agent") or any(
        "kind" in part or "type" in part for part in parts
    ):
        return PROSE
    if any(name in part for part in parts for name in ("raw", "url", "filename", "mediaType")):
        return v1.CODEC  # a 1.0 client that forgot its header
    return DRAFT_CODEC if "parts" in message else PROTO


_STATUS: dict[type[A2AError], int] = {
    TaskNotCancelable: 409,
    PushNotificationNotSupported: 501,
    ContentTypeNotSupported: 415,
    UnsupportedMediaType: 415,
    InvalidAgentResponse: 502,
    ExtendedAgentCardNotConfigured: 404,
}


def _status(error: A2AError) -> int:
    if isinstance(error, UnsupportedOperation):
        return 400 if "taskId" in error.detail else 501  # this task can't, or this agent can't
    return _STATUS.get(type(error), error.status)
