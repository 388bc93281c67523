"""The operations and their names (spec 3.1), as data. Bindings find a row here and hold no names of their own."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ..model import (
    CancelTaskRequest,
    DeletePushConfigRequest,
    GetExtendedCardRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeRequest,
    TaskPushNotificationConfig,
)
from .call import Call
from .card import get_extended_card
from .push import create_push_config, delete_push_config, get_push_config, list_push_configs
from .send import send_message, send_streaming_message
from .service import Service
from .tasks import cancel_task, get_task, list_tasks, subscribe_to_task

__all__ = ["OPERATIONS", "Operation", "Route"]


class Route(NamedTuple):
    """A verb and a path of the HTTP+JSON binding; `{name}` is one segment, and a field of the request."""

    verb: str
    path: str


class Operation(NamedTuple):
    name: str  # in 1.0 the JSON-RPC method and the gRPC method
    request: type
    run: Callable[[Service, Call, Any], Awaitable[Any]]
    routes: tuple[Route, ...]
    is_stream: bool = False


_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

OPERATIONS = (
    Operation("SendMessage", SendMessageRequest, send_message, (Route("POST", "/message:send"),)),
    Operation(
        "SendStreamingMessage", SendMessageRequest, send_streaming_message, (Route("POST", "/message:stream"),), is_stream=True
    ),
    Operation("GetTask", GetTaskRequest, get_task, (Route("GET", "/tasks/{id}"),)),
    Operation("ListTasks", ListTasksRequest, list_tasks, (Route("GET", "/tasks"),)),
    Operation("CancelTask", CancelTaskRequest, cancel_task, (Route("POST", "/tasks/{id}:cancel"),)),
    Operation(
        "SubscribeToTask",
        SubscribeRequest,
        subscribe_to_task,
        # The text says POST, the proto GET (spec 7, A1).
        (Route("POST", "/tasks/{id}:subscribe"), Route("GET", "/tasks/{id}:subscribe")),
        is_stream=True,
    ),
    Operation("CreateTaskPushNotificationConfig", TaskPushNotificationConfig, create_push_config, (Route("POST", _CONFIGS),)),
    Operation("GetTaskPushNotificationConfig", GetPushConfigRequest, get_push_config, (Route("GET", _CONFIGS + "/{id}"),)),
    Operation("ListTaskPushNotificationConfigs", ListPushConfigsRequest, list_push_configs, (Route("GET", _CONFIGS),)),
    Operation(
        "DeleteTaskPushNotificationConfig", DeletePushConfigRequest, delete_push_config, (Route("DELETE", _CONFIGS + "/{id}"),)
    ),
    Operation("GetExtendedAgentCard", GetExtendedCardRequest, get_extended_card, (Route("GET", "/extendedAgentCard"),)),
)
