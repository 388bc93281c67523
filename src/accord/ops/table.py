"""The operations and their names, as data (spec 3.1). Bindings find a row here and hold no names of their own.

A version of the protocol is a row of `VERSIONS`: its codecs and its names for the operations.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ..codec import v1
from ..codec.contract import Codec
from ..model import A2AError
from .call import Call
from .card import get_extended_card
from .push import create_push_config, delete_push_config, get_push_config, list_push_configs
from .send import send_message, send_streaming_message
from .service import Service
from .tasks import cancel_task, get_task, list_tasks, subscribe_to_task

__all__ = ["OPERATIONS", "VERSIONS", "Operation", "Route", "Version"]


class Operation(NamedTuple):
    name: str  # 1.0's
    run: Callable[[Service, Call, Any], Awaitable[Any]]
    is_stream: bool = False
    is_read: bool = False  # changes nothing: may be left half done


class Route(NamedTuple):
    """A verb and a path of HTTP+JSON; `{name}` is one segment, and a field of the request."""

    verb: str
    path: str
    operation: str


class Version(NamedTuple):
    """What one version of the protocol calls the operations, and how it writes them."""

    number: str
    rpc: dict[str, str]  # JSON-RPC method -> operation
    rpc_codec: Codec
    rest: tuple[Route, ...]
    rest_codec: Codec
    grpc: dict[str, str] = {}  # rpc -> operation
    grpc_service: str = ""
    grpc_text: Callable[[A2AError], str] = str  # what an error says


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("SendMessage", send_message),
        Operation("SendStreamingMessage", send_streaming_message, is_stream=True),
        Operation("GetTask", get_task, is_read=True),
        Operation("ListTasks", list_tasks, is_read=True),
        Operation("CancelTask", cancel_task),
        Operation("SubscribeToTask", subscribe_to_task, is_stream=True),
        Operation("CreateTaskPushNotificationConfig", create_push_config),
        Operation("GetTaskPushNotificationConfig", get_push_config),
        Operation("ListTaskPushNotificationConfigs", list_push_configs),
        Operation("DeleteTaskPushNotificationConfig", delete_push_config),
        Operation("GetExtendedAgentCard", get_extended_card),
    )
}

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

V1_0 = Version(
    "1.0",
    {name: name for name in OPERATIONS}
    | {  # the names of the drafts before 1.0
        "SetTaskPushNotificationConfig": "CreateTaskPushNotificationConfig",
        "ListTaskPushNotificationConfig": "ListTaskPushNotificationConfigs",
    },
    v1.CODEC,
    (
        Route("POST", "/message:send", "SendMessage"),
        Route("POST", "/message:stream", "SendStreamingMessage"),
        Route("GET", "/tasks", "ListTasks"),
        Route("GET", "/tasks/{id}", "GetTask"),
        Route("POST", "/tasks/{id}:cancel", "CancelTask"),
        # The text says POST, the proto GET (spec 7, A1).
        Route("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
        Route("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
        Route("POST", _CONFIGS, "CreateTaskPushNotificationConfig"),
        Route("GET", _CONFIGS, "ListTaskPushNotificationConfigs"),
        Route("GET", _CONFIGS + "/{id}", "GetTaskPushNotificationConfig"),
        Route("DELETE", _CONFIGS + "/{id}", "DeleteTaskPushNotificationConfig"),
        Route("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
    ),
    v1.CODEC,
    grpc={name: name for name in OPERATIONS},
    grpc_service="lf.a2a.v1.A2AService",
)

VERSIONS = (V1_0,)
