"""Whether JSON is as a version of A2A writes it. Our client mends much; these functions do not.

Each returns what is wrong, one text per fault; an empty list means well-formed.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..model import AgentCard, InvalidParams, SendMessageResponse
from ..protocol import SpokenVersion, card_version, lenient, needed_members

__all__ = ["card_faults", "envelope_faults", "send_faults"]

Json = dict[str, Any]

_SNAKE = re.compile(r"[a-z]+(_[a-z]+)+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_FREE = {"metadata", "data", "params", "header"}  # members whose content is the user's own
_STATES = {
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
}


def card_faults(card: Any) -> list[str]:
    """What keeps a card from being one of its version."""
    if not isinstance(card, dict):
        return ["the card is no JSON object"]
    version = card_version(card)
    if not version:
        snakes = [f"{name} is written with underscores" for name in _snakes(card)]
        if snakes:
            return snakes
        try:
            # Members of other versions may stand beside: one card for readers of all.
            lenient.convert(card, AgentCard)
        except InvalidParams as error:
            return [str(error)]
        return []
    return [
        f"{name} is missing" for name in needed_members(version) if card.get(name) in (None, "")
    ]


def envelope_faults(reply: Any, sent: Any) -> list[str]:
    """What is wrong with a JSON-RPC answer to a request."""
    if not isinstance(reply, dict):
        return ["the answer is no JSON object"]
    faults = []
    if reply.get("jsonrpc") != "2.0":
        faults.append('"jsonrpc" is not "2.0"')
    if isinstance(sent, dict) and reply.get("id") != sent.get("id"):
        faults.append(f'"id" is {reply.get("id")!r:.40}, not that of the request')
    has_result, has_error = "result" in reply, reply.get("error") is not None
    if has_result == has_error:
        faults.append("there is not exactly one of result and error")
    return faults


def send_faults(value: Any, version: SpokenVersion, *, is_rest: bool) -> list[str]:
    """What is wrong with the result of sending a message, given as JSON."""
    if not isinstance(value, dict):
        return ["the result is no JSON object"]
    if not version.is_old:
        return _send_1(version.read_send(value) if version.read_send is not None else value)
    if version.names_tasks:
        return _task_old(value, version.kind_member, has_context=False)
    if is_rest:
        return _send_rest_03(value)
    kind = value.get("kind")
    if kind == "message":
        return _message_old(value, "kind")
    if kind != "task":
        return [f'"kind" is {kind!r:.40}: neither "task" nor "message"']
    return _task_old(value, "kind", has_context=True)


def _send_1(value: Json) -> list[str]:
    try:
        found = msgspec.convert(value, SendMessageResponse)
    except msgspec.ValidationError as error:
        return [str(lenient.bad_field(error))]
    faults = [f"{name} is written with underscores" for name in _snakes(value)]
    if (found.task is None) == (found.message is None):
        faults.append("there is not exactly one of task and message")
    if found.task is not None:
        faults += ["task.id is empty"] if not found.task.id else []
        faults += ["task.contextId is empty"] if not found.task.context_id else []
        status = value["task"]["status"]
        time = status.get("timestamp")
        if time is not None and not (isinstance(time, str) and _TIME.fullmatch(time)):
            faults.append(f"status.timestamp {time!r:.40} is no time in UTC that ends in Z")
        faults += _message_1(status.get("message"), "status.message")
    faults += _message_1(value.get("message"), "message")
    return faults


def _message_1(message: Any, where: str) -> list[str]:
    if not isinstance(message, dict):
        return []
    faults = [] if message.get("messageId") else [f"{where}.messageId is empty"]
    if message.get("role") != "ROLE_AGENT":
        faults.append(f"{where}.role is not ROLE_AGENT")
    return faults + ([] if message.get("parts") else [f"{where}.parts is empty"])


def _task_old(value: Json, kind: str, *, has_context: bool) -> list[str]:
    faults = [] if value.get("id") else ["task.id is missing"]
    if has_context and not value.get("contextId"):
        faults.append("task.contextId is missing")
    status = value.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if state not in _STATES:
        faults.append(f"status.state is {state!r:.40}")
    said = status.get("message") if isinstance(status, dict) else None
    if said is not None:
        faults += _message_old(said, kind)
    artifacts = value.get("artifacts") or []
    for artifact in artifacts if isinstance(artifacts, list) else ():
        faults += _parts_old(artifact, kind, "artifact")
    return faults


def _message_old(value: Any, kind: str) -> list[str]:
    if not isinstance(value, dict):
        return ["the message is no object"]
    faults = [] if value.get("role") == "agent" else ['message.role is not "agent"']
    if kind == "kind" and not value.get("messageId"):
        faults.append("message.messageId is missing")
    return faults + _parts_old(value, kind, "message")


def _parts_old(value: Any, kind: str, where: str) -> list[str]:
    parts = value.get("parts") if isinstance(value, dict) else None
    if not isinstance(parts, list):
        return [f"{where}.parts is no list"]
    wrong = [
        part
        for part in parts
        if not isinstance(part, dict) or part.get(kind) not in ("text", "file", "data")
    ]
    return [f'{where}.parts has one whose "{kind}" is not text, file or data'] if wrong else []


def _send_rest_03(value: Json) -> list[str]:
    inner = value.get("task") or value.get("message") or value.get("msg") or value
    if not isinstance(inner, dict):
        return ["the result holds neither a task nor a message"]
    if "status" in inner:
        return [] if inner.get("id") else ["task.id is missing"]
    return [] if inner.get("messageId") else ["the result holds neither a task nor a message"]


def _snakes(value: Any) -> Iterator[str]:
    """Names of members in snake_case, where A2A has camelCase."""
    if isinstance(value, list):
        for one in value:
            yield from _snakes(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if isinstance(name, str) and _SNAKE.fullmatch(name):
                yield name
            if name not in _FREE and name not in ("scopes", "schemes", "securitySchemes"):
                yield from _snakes(one)
