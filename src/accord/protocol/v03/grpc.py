"""A2A 0.3 on gRPC: the objects of its HTTP+JSON, in requests that name tasks and configs by
resource name.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ...model import A2AError, AgentCard
from .. import legacy_card
from ..contract import Codec, Semantics
from ..legacy import Json
from ..v1 import codec as v1
from . import codec as v03
from . import proto_json
from .file_bytes import Form, form_of_caller
from .proto_json import RELEASED
from .rest import V03Rest

__all__ = ["CODEC", "TENANT", "error_text", "for_caller"]

TENANT = "a2a-tenant"  # of metadata: its requests have no place for one

_json = msgspec.json.Decoder().decode


def _read_task(value: Json) -> Json:
    return {**value, "id": proto_json.read_task_name(value.get("name", ""))}


def _read_config(value: Json) -> Json:
    task_id, config_id = proto_json.read_config_name(value.get("name", ""))
    return {"taskId": task_id, "id": config_id}


def _read_configs(value: Json) -> Json:
    return {"taskId": proto_json.read_task_name(value.get("parent", ""), "parent")}


_NAMED: dict[str, Callable[[Json], Json]] = {
    "GetTask": _read_task,
    "CancelTask": _read_task,
    "SubscribeToTask": _read_task,
    "GetTaskPushNotificationConfig": _read_config,
    "DeleteTaskPushNotificationConfig": _read_config,
    "ListTaskPushNotificationConfigs": _read_configs,
}


class V03Grpc(V03Rest):
    """0.3 on gRPC, as the JSON its messages stand for."""

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        named = _NAMED.get(operation)
        return super().decode(
            operation, v1.encode(named(_json(params))) if named is not None else params
        )

    def result(self, operation: str, answer: Any) -> bytes:
        if answer is None:
            return b"{}"
        if isinstance(answer, AgentCard):
            return v1.encode(_card(answer))
        return super().result(operation, answer)


def _card(card: AgentCard) -> Json:
    """The union card, with security as protobuf has it: a map can't hold lists, so both versions
    wrap them alike.
    """
    value = legacy_card.union(card)
    for place in (value, *value["skills"]):
        place["security"] = place.get("securityRequirements", [])
    del value["supportedInterfaces"]  # of the drafts, which had no versions in it
    return value


def error_text(error: A2AError) -> str:
    """Return the text of an error with its name in front, by which clients of 0.3 know it."""
    return f"{v03.error_name(error)}: {error}"


CODEC = V03Grpc("0.3/proto", RELEASED)
# For clients that send file bytes as base64 text.
_AS_TEXT = V03Grpc("0.3/proto", RELEASED._replace(form=Form.TEXT))


def for_caller(user_agent: str) -> Codec:
    """Return the codec for a client with this user agent."""
    return _AS_TEXT if form_of_caller("GRPC", user_agent) is Form.TEXT else CODEC
