"""The operations (A2A 1.0, section 3.1) and their names, as data. Bindings find a row here and hold
no names of their own.

A version of the protocol is a row of `VERSIONS`: its codecs and its names for the operations.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..model import A2AError, VersionNotSupported
from ..protocol import NEWEST, NEWEST_OLD, Codec, CodecChoice, RestCodec, legacy, legacy_card
from ..protocol.v01 import codec as v01
from ..protocol.v03 import codec as v03
from ..protocol.v03 import grpc as v03_grpc
from ..protocol.v03 import rest as v03_rest
from ..protocol.v1 import codec as v1
from ..protocol.v11 import codec as v11
from .call import Call
from .card import get_card, get_extended_card
from .push import create_push_config, delete_push_config, get_push_config, list_push_configs
from .send import send_message, send_streaming_message
from .service import Service
from .tasks import cancel_task, get_task, list_tasks, subscribe_to_task

__all__ = [
    "ASSUMED",
    "NEWEST",
    "OPERATIONS",
    "PREVIEWS",
    "VERSIONS",
    "Operation",
    "Route",
    "RpcMethod",
    "Version",
    "known_version",
    "major_minor",
    "methods",
    "numbers",
    "served_versions",
]

# The version of a caller who names none, unless the method or path shows it (A2A 1.0, section 3.6).
ASSUMED = NEWEST_OLD


class Operation(NamedTuple):
    name: str  # 1.0's
    run: Callable[[Service, Call, Any], Awaitable[Any]]
    is_stream: bool = False
    is_droppable: bool = (
        False  # may be left when its caller is: what it has done by then stands on its own
    )
    is_public: bool = False  # also for callers without credentials


class Route(NamedTuple):
    """A verb and a path of HTTP+JSON; `{name}` is one segment, and a field of the request."""

    verb: str
    path: str
    operation: str
    codec: RestCodec | None = None  # instead of its version's
    is_anywhere: bool = False  # below any path, not only below the base of HTTP+JSON


class Version(NamedTuple):
    """What one version of the protocol calls the operations, and how it writes them."""

    number: str
    rpc: dict[str, str]  # JSON-RPC method -> operation
    rpc_codec: Codec
    rest: tuple[Route, ...]
    rest_codec: RestCodec
    aliases: tuple[str, ...] = ()  # other numbers that mean the same
    is_lax: bool = False  # its requests may leave out `jsonrpc`
    has_tenants: bool = False  # its paths may have a tenant in front
    rest_variants: CodecChoice | None = None  # where HTTP+JSON has more than `rest_codec`
    rest_for: Callable[[RestCodec, str], RestCodec] | None = (
        None  # a codec as it is for callers of some user agent
    )
    is_only_its_own: Callable[[bytes], bool] | None = (
        None  # whether a body can be nothing but its, whatever the header says
    )
    card: Callable[[dict[str, Any]], None] | None = (
        None  # adds what its readers need to the 1.0 card
    )
    card_path: str = ""  # where its readers look for the card, if not at 1.0's place
    grpc: dict[str, str] = {}  # rpc -> operation
    grpc_service: str = ""
    grpc_codec: Codec = v1.CODEC
    grpc_for: Callable[[str], Codec] | None = (
        None  # instead of `grpc_codec`: the one for callers of some user agent
    )
    grpc_text: Callable[[A2AError], str] = str  # what an error says
    grpc_tenant: str = ""  # metadata that name a tenant; empty: it is in the request
    grpc_extensions: str = "a2a-extensions"  # metadata that name extensions
    # its package was never used by versions that have another: who names one of them is refused
    grpc_is_closed: bool = False
    grpc_pool: Callable[[], Any] | None = None  # its schema, if that is not with the others
    # pushed are whole tasks, as this codec writes them; None: events, as streams of 1.0 show them
    push_codec: Codec | None = None
    pushes_events: bool = False  # `push_codec` writes events, not tasks
    push_type: str = "application/json"


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("SendMessage", send_message, is_droppable=True),
        Operation(
            "SendStreamingMessage", send_streaming_message, is_stream=True, is_droppable=True
        ),
        Operation("GetTask", get_task, is_droppable=True),
        Operation("ListTasks", list_tasks, is_droppable=True),
        Operation("CancelTask", cancel_task),
        Operation("SubscribeToTask", subscribe_to_task, is_stream=True, is_droppable=True),
        Operation("CreateTaskPushNotificationConfig", create_push_config),
        Operation("GetTaskPushNotificationConfig", get_push_config),
        Operation("ListTaskPushNotificationConfigs", list_push_configs),
        Operation("DeleteTaskPushNotificationConfig", delete_push_config),
        Operation("GetExtendedAgentCard", get_extended_card),
        # 0.3 on gRPC, where no well-known address is.
        Operation("GetAgentCard", get_card, is_droppable=True, is_public=True),
    )
}

_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

V1_0 = Version(
    NEWEST,
    {name: name for name in OPERATIONS if name != "GetAgentCard"}
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
        # The text says POST, the proto GET.
        Route("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
        Route("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
        Route("POST", _CONFIGS, "CreateTaskPushNotificationConfig"),
        Route("GET", _CONFIGS, "ListTaskPushNotificationConfigs"),
        Route("GET", _CONFIGS + "/{id}", "GetTaskPushNotificationConfig"),
        Route("DELETE", _CONFIGS + "/{id}", "DeleteTaskPushNotificationConfig"),
        Route("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
    ),
    v1.CODEC,
    has_tenants=True,
    grpc={name: name for name in OPERATIONS if name != "GetAgentCard"},
    grpc_service="lf.a2a.v1.A2AService",
    push_type="application/a2a+json",
)

# Shares all its names with 1.0.
V1_1 = V1_0._replace(
    number="1.1",
    rpc_codec=v11.CODEC,
    rest_codec=v11.CODEC,
    grpc_codec=v11.CODEC,
    grpc_pool=v11.grpc_pool,
    push_codec=v11.CODEC,
    pushes_events=True,
)

_OLD_ROUTES = (
    Route("POST", "/message:send", "SendMessage"),
    Route("POST", "/message:stream", "SendStreamingMessage"),
    Route("GET", "/tasks", "ListTasks"),
    Route("GET", "/tasks/{id}", "GetTask"),
    Route("POST", "/tasks/{id}:cancel", "CancelTask"),
    Route("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
    Route("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
    Route("POST", _CONFIGS, "CreateTaskPushNotificationConfig"),
    Route("GET", _CONFIGS, "ListTaskPushNotificationConfigs"),
    Route("GET", _CONFIGS + "/{id}", "GetTaskPushNotificationConfig"),
    Route("DELETE", _CONFIGS + "/{id}", "DeleteTaskPushNotificationConfig"),
    Route("GET", "/card", "GetExtendedAgentCard"),
    Route("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
)

# The proto of 0.2 was published with slips of the pen that clients made from it repeat.
_SLIPS = (
    Route("POST", "/v1//message:send", "SendMessage"),
    Route("POST", "/v1/task/{taskId}/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
    Route("POST", "/v1/task/{taskId}/pushNotifications", "CreateTaskPushNotificationConfig"),
    Route("POST", "/v1/tasks/{taskId}/pushNotifications", "CreateTaskPushNotificationConfig"),
    Route("GET", "/v1/tasks/{taskId}/pushNotifications", "ListTaskPushNotificationConfigs"),
    Route("GET", "/v1/tasks/{taskId}/pushNotifications/{id}", "GetTaskPushNotificationConfig"),
)

V0_3 = Version(
    "0.3",
    {
        "message/send": "SendMessage",
        "message/stream": "SendStreamingMessage",
        "tasks/get": "GetTask",
        "tasks/list": "ListTasks",
        "tasks/cancel": "CancelTask",
        "tasks/resubscribe": "SubscribeToTask",
        "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
        "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
        "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
        # The prose of 0.2.6, and a stale link in the drafts.
        "agent/authenticatedExtendedCard": "GetExtendedAgentCard",
        "tasks/subscribe": "SubscribeToTask",
    },
    v03.CODEC,
    (
        *(Route(verb, "/v1" + path, name) for verb, path, name, *_ in _OLD_ROUTES),
        *_SLIPS,
        *_OLD_ROUTES,  # for callers whose header says 0.3
        Route(
            "GET",
            "/agent/authenticatedExtendedCard",
            "GetExtendedAgentCard",
            v03_rest.CARD,
            is_anywhere=True,
        ),
    ),
    v03_rest.PROTO,
    aliases=("0.2",),
    rest_variants=v03_rest.REST_VARIANTS,
    rest_for=v03_rest.for_caller,
    is_only_its_own=v03_rest.is_only_its_own,
    card=legacy_card.add_v03,
    card_path="/.well-known/agent.json",
    grpc={
        "SendMessage": "SendMessage",
        "SendStreamingMessage": "SendStreamingMessage",
        "GetTask": "GetTask",
        "CancelTask": "CancelTask",
        "TaskSubscription": "SubscribeToTask",
        "CreateTaskPushNotificationConfig": "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig": "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfig": "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig": "DeleteTaskPushNotificationConfig",
        "GetAgentCard": "GetAgentCard",
        # Up to 0.2.4, and in the prose of later versions.
        "CreateTaskPushNotification": "CreateTaskPushNotificationConfig",
        "GetTaskPushNotification": "GetTaskPushNotificationConfig",
        "ListTaskPushNotification": "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotification": "DeleteTaskPushNotificationConfig",
        "ListTask": "ListTasks",
        # In the drafts between 0.3 and 1.0.
        "ListTasks": "ListTasks",
        "SubscribeToTask": "SubscribeToTask",
        "SetTaskPushNotificationConfig": "CreateTaskPushNotificationConfig",
        "GetExtendedAgentCard": "GetAgentCard",
    },
    grpc_service="a2a.v1.A2AService",
    grpc_codec=v03_grpc.CODEC,
    grpc_for=v03_grpc.for_caller,
    grpc_text=v03_grpc.error_text,
    grpc_tenant=v03_grpc.TENANT,
    grpc_extensions="x-a2a-extensions",
    grpc_is_closed=True,
    push_codec=v03.CODEC,
)

V0_1 = Version(
    "0.1",
    {
        "tasks/send": "SendMessage",
        "tasks/sendSubscribe": "SendStreamingMessage",
        "tasks/get": "GetTask",
        "tasks/cancel": "CancelTask",
        "tasks/resubscribe": "SubscribeToTask",
        "tasks/pushNotification/set": "CreateTaskPushNotificationConfig",
        "tasks/pushNotification/get": "GetTaskPushNotificationConfig",
    },
    v01.CODEC,
    (),
    v1.CODEC,  # has no HTTP+JSON
    is_lax=True,
    card=legacy_card.add_v01,
    card_path="/.well-known/agent.json",
    push_codec=v01.CODEC,
)

VERSIONS = (V1_0, V0_3, V0_1)
PREVIEWS = (V1_1,)  # not released: used only where somebody asks for them


def served_versions(
    wanted: Sequence[str] | None, previews: Sequence[str] = ()
) -> tuple[Version, ...]:
    """Return the versions of these numbers, all of them for None, and these previews; raises
    ValueError for one that is not known.
    """
    unknown = set(previews) - numbers(PREVIEWS)
    if unknown:
        raise ValueError(
            f"previews {', '.join(sorted(unknown))}: choose from "
            f"{', '.join(sorted(numbers(PREVIEWS)))}"
        )
    ahead = tuple(version for version in PREVIEWS if version.number in previews)
    if wanted is None:
        return (*VERSIONS, *ahead)
    known = (*VERSIONS, *ahead)
    found = tuple(version for version in known if {version.number, *version.aliases} & set(wanted))
    unknown = set(wanted) - numbers(found)
    if unknown & numbers(PREVIEWS):
        names = ", ".join(sorted(unknown & numbers(PREVIEWS)))
        raise ValueError(
            f"version {names} is a preview; serve it with previews=[{names!r}] (--preview {names})"
        )
    if unknown or not found:
        raise ValueError(
            f"versions {', '.join(sorted(unknown)) or '(none)'}: choose from "
            f"{', '.join(sorted(numbers(known)))}"
        )
    return (*found, *(version for version in ahead if version not in found))


def numbers(versions: Sequence[Version]) -> frozenset[str]:
    """All the version numbers a caller may name."""
    return frozenset(
        number for version in versions for number in (version.number, *version.aliases)
    )


def major_minor(given: str) -> str:
    """Return a version as callers name it without its patch number."""
    return ".".join(given.strip().split(".")[:2])


def known_version(given: str, known: frozenset[str]) -> str:
    """Return a version as Major.Minor, empty for none; raises VersionNotSupported for one that is
    not known.
    """
    version = major_minor(given)
    if version and version not in known:
        supported = ", ".join(sorted(known))
        raise VersionNotSupported(
            f"A2A version {given!r:.40} is not supported here; use {supported}",
            requested=given[:40],
            supported=supported,
        )
    return version


class RpcMethod(NamedTuple):
    """A JSON-RPC method: what it does, in which codec or choice of codecs."""

    operation: Operation
    codec: Codec
    choice: CodecChoice | None = None
    lax: frozenset[str] = frozenset()  # origins of codecs whose requests may leave out `jsonrpc`
    named: Mapping[str, Codec] = {}  # of versions that are used only if the caller names them


def methods(versions: Sequence[Version]) -> dict[str, RpcMethod]:
    """Return the JSON-RPC methods of these versions; one that several have under the same name is a
    choice between them.
    """
    having: dict[str, list[Version]] = {}
    for version in versions:
        for method in version.rpc:
            having.setdefault(method, []).append(version)
    return {method: _method(method, found) for method, found in having.items()}


def _method(name: str, versions: Sequence[Version]) -> RpcMethod:
    released = [version for version in versions if version not in PREVIEWS] or versions
    named = {
        number: version.rpc_codec
        for version in versions
        if version not in released
        for number in numbers([version])
    }
    return RpcMethod(
        OPERATIONS[released[0].rpc[name]],
        released[0].rpc_codec,
        Shared(released) if len(released) > 1 else None,
        frozenset(version.rpc_codec.origin for version in released if version.is_lax),
        named,
    )


class Shared:
    """One method name with two result shapes: the version named decides, else the one the task was
    made in.
    """

    def __init__(self, versions: Sequence[Version]) -> None:
        self._first = versions[0].rpc_codec
        self._by_number = {
            number: v.rpc_codec for v in versions for number in (v.number, *v.aliases)
        }
        self._by_origin = {v.rpc_codec.origin: v.rpc_codec for v in versions}

    def codec_or_task_id(self, operation: str, hint: str, params: bytes) -> Codec | str:
        if hint in self._by_number:
            return self._by_number[hint]
        task_id = legacy.task_id_of(legacy.load(params))
        # Which says what is wrong with it.
        return task_id if isinstance(task_id, str) else self._first

    def for_origin(self, origin: str) -> Codec:
        return self._by_origin.get(origin, self._first)
