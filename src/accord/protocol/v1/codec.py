"""A2A 1.0 as JSON: request texts to model, model to answers.

Strict first, at C speed; what strict decoding refuses gets a second look in `lenient`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import (
    A2AError,
    Artifact,
    ArtifactUpdate,
    CancelTaskRequest,
    DeletePushConfigRequest,
    Event,
    GetExtendedCardRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    InvalidParams,
    ListPushConfigsRequest,
    ListTasksRequest,
    Message,
    SendMessageRequest,
    StatusUpdate,
    StreamResponse,
    SubscribeRequest,
    Task,
    TaskPushNotificationConfig,
    whole_number,
)
from .. import lenient, text
from ..contract import DEFAULT_SEMANTICS, LARGE_HEAD_BYTES, Semantics, Snapshot, TaskPage

__all__ = [
    "DOMAIN",
    "FRAMES",
    "agree",
    "decode_artifact",
    "decode_artifacts",
    "decode_event",
    "decode_message",
    "decode_task",
    "encode",
    "encode_event",
    "error_details",
    "from_query",
]

DOMAIN = "a2a-protocol.org"
JSON = b"application/json"
A2A_JSON = b"application/a2a+json"

REQUESTS: dict[str, type] = {
    "SendMessage": SendMessageRequest,
    "SendStreamingMessage": SendMessageRequest,
    "GetTask": GetTaskRequest,
    "ListTasks": ListTasksRequest,
    "CancelTask": CancelTaskRequest,
    "SubscribeToTask": SubscribeRequest,
    "CreateTaskPushNotificationConfig": TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": GetPushConfigRequest,
    "ListTaskPushNotificationConfigs": ListPushConfigsRequest,
    "DeleteTaskPushNotificationConfig": DeletePushConfigRequest,
    "GetExtendedAgentCard": GetExtendedCardRequest,
}

encode = msgspec.json.Encoder().encode
decode_task = msgspec.json.Decoder(Task).decode
decode_artifact = msgspec.json.Decoder(Artifact).decode
decode_artifacts = msgspec.json.Decoder(list[Artifact]).decode
decode_message = msgspec.json.Decoder(Message).decode
_decode_stream = msgspec.json.Decoder(StreamResponse).decode
_decode: dict[str, Callable[[bytes], Any]] = {
    operation: msgspec.json.Decoder(type_).decode for operation, type_ in REQUESTS.items()
}


class _TaskFrame(msgspec.Struct, gc=False):
    task: Task


class _MessageFrame(msgspec.Struct, gc=False):
    message: Message


class _StatusFrame(msgspec.Struct, gc=False):
    status: StatusUpdate = msgspec.field(name="statusUpdate")


class _ArtifactFrame(msgspec.Struct, gc=False):
    artifact: ArtifactUpdate = msgspec.field(name="artifactUpdate")


# A StreamResponse around each kind of event, for encoding.
FRAMES: dict[type, Callable[[Any], msgspec.Struct]] = {
    Task: _TaskFrame,
    Message: _MessageFrame,
    StatusUpdate: _StatusFrame,
    ArtifactUpdate: _ArtifactFrame,
}


def encode_event(event: Event | Message) -> bytes:
    """Return `event` as a StreamResponse."""
    return encode(FRAMES[type(event)](event))


def decode_event(data: bytes) -> Event | Message:
    return _decode_stream(data).event


class V1:
    """A2A 1.0 as a codec: the same JSON on JSON-RPC and HTTP+JSON."""

    origin = "1.0"
    errors_in_streams = False
    requests = REQUESTS

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        try:
            return _decode[operation](params), DEFAULT_SEMANTICS
        except msgspec.ValidationError:
            return lenient.convert(text.loads(params), REQUESTS[operation]), DEFAULT_SEMANTICS
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise text.parse_error(error) from None

    def result(self, operation: str, answer: Any) -> bytes:
        """Encode an answer; tasks are spliced in as they were stored."""
        match answer:
            case Snapshot(head=head, artifacts=artifacts):
                if operation != "SendMessage":
                    return answer.data
                if artifacts == b"[]" or len(head) > LARGE_HEAD_BYTES:
                    return answer.wrapped(b'{"task":', b"}")
                return b'{"task":%b,"artifacts":%b}}' % (head[:-1], artifacts)
            case Message():
                return encode_event(answer)
            case TaskPage():
                return b'{"tasks":[%b],"nextPageToken":"%b","pageSize":%d,"totalSize":%d}' % (
                    b",".join(answer.tasks),
                    answer.next_page_token.encode(),
                    answer.page_size,
                    answer.total_size,
                )
            case None:
                return b"{}"
        return encode(answer)

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        return [encode_event(event)]

    def error(self, error: A2AError) -> dict[str, Any]:
        return {"code": error.code, "message": str(error), "data": error_details(error)}

    # On HTTP+JSON

    def join(
        self, operation: str, fields: dict[str, str], query: dict[str, list[str]], body: bytes
    ) -> bytes:
        value = text.loads(body) if body else from_query(REQUESTS[operation], query)
        if not isinstance(value, dict):
            raise InvalidParams(
                "the body is not a JSON object", violations=(("body", "is not a JSON object"),)
            )
        agree(value, fields)
        return encode(value | fields)

    def failure(self, error: A2AError) -> tuple[int, bytes]:
        body = {
            "code": error.status,
            "status": error.grpc,
            "message": str(error),
            "details": error_details(error),
        }
        return error.status, encode({"error": body})

    def answer_type(self, accept: bytes, sent: bytes) -> bytes:
        """What was asked for, else what was sent, else A2A's own."""
        for kind in (A2A_JSON, JSON):
            if kind in accept:
                return kind
        sent = sent.partition(b";")[0].strip().lower()
        return sent if sent in (A2A_JSON, JSON) else A2A_JSON


CODEC = V1()


def agree(body: dict[str, Any], fields: dict[str, str]) -> None:
    """Raise an error if a tenant or task in the body is another than in the path, which decides."""
    for name, value in fields.items():
        snake = "task_id" if name == "taskId" else name
        for given in (body.pop(snake, None), body.pop(name, None)):
            if given not in (None, "", value):
                what = f"the path says {value!r:.80}, the body {given!r:.80}"
                raise InvalidParams(f"{name}: {what}", violations=((name, what),))


def from_query(type_: type, query: dict[str, list[str]]) -> dict[str, Any]:
    """Read a request of this type from the query string, where everything is text."""
    known = {f.encode_name: f.type for f in msgspec.structs.fields(type_)}
    value: dict[str, Any] = {}
    for name, texts in query.items():
        name = _ALIASES.get(name, name)
        if name in known:
            value[name] = _from_text(name, texts[-1], known[name])
    return value


_ALIASES = {"lastUpdatedAfter": "statusTimestampAfter"}  # what the Go client sends


def _from_text(name: str, given: str, type_: Any) -> Any:
    if type_ == bool | None or type_ is bool:
        if given.lower() not in ("true", "false"):
            raise InvalidParams(
                f"{name}: {given!r:.80} is neither true nor false",
                violations=((name, "is neither true nor false"),),
            )
        return given.lower() == "true"
    number = whole_number(given) if name == "status" else None
    return given if number is None else number


def error_details(error: A2AError) -> list[dict[str, Any]]:
    """Return the typed details of an error: who says it and why, then which fields are wrong (spec
    4.3).
    """
    info: dict[str, Any] = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.reason,
        "domain": DOMAIN,
    }
    if error.detail:
        info["metadata"] = error.detail
    details = [info]
    if error.violations:
        fields = [{"field": field, "description": what} for field, what in error.violations]
        details.append(
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}
        )
    return details
