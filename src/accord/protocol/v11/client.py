"""A2A 1.1 from the client's side: 1.0, and the generations in answers and events.

An agent is a stranger. A generation that is none counts as 0, which says that the agent has none.
"""

import copy
from typing import Any

import msgspec

from ...model import (
    Event,
    InvalidParams,
    ListTasksResponse,
    Message,
    SendMessageResponse,
    Task,
    TimelineEntry,
    whole_number,
)
from .. import lenient
from ..client import EventFrame, FrameDecoder
from ..mending import MessageIds, Note
from ..v1 import client as v1_client
from .requests import MAX_GENERATION

__all__ = [
    "error",
    "extensions_header",
    "frames",
    "method",
    "params",
    "read_event",
    "result",
    "version",
    "without_generations",
]

version = "1.1"
extensions_header = v1_client.extensions_header
method = v1_client.method
params = v1_client.params
error = v1_client.error

_EVENTS = ("task", "statusUpdate", "status_update", "artifactUpdate", "artifact_update")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def result(operation: str, raw: bytes, request: Any, note: Note) -> Any:
    """Return the result of an operation, its tasks with their generations."""
    value = _decode(raw)
    # By their ids: a task that can't be read is left out of a list.
    taken = {str(task.get("id")): _take(task, note) for task in _tasks(operation, value)}
    if not taken:
        return v1_client.result(operation, raw, request, note)
    found = v1_client.result(operation, _encode(value), request, note)
    match found:
        case Task():
            tasks = [found]
        case SendMessageResponse(task=Task() as task):
            tasks = [task]
        case ListTasksResponse():
            tasks = found.tasks
    for task in tasks:
        _give(task, taken[task.id])
    return found


def frames(request: Any, note: Note) -> FrameDecoder:
    ids = MessageIds()
    return lambda raw: EventFrame((read_event(raw, ids, note),))


def read_event(raw: bytes, ids: MessageIds, note: Note) -> Event | Message:
    """Return the event in a message of a stream, or in a push notification."""
    value = _decode(raw)
    found = [value.get(name) for name in _EVENTS] if isinstance(value, dict) else []
    taken = [_take(one, note) for one in found if isinstance(one, dict)]
    event = v1_client.read_event(_encode(value), ids, note)
    if not isinstance(event, Message):
        _give(event, taken[0])
    return event


def without_generations(value: Any) -> Any:
    """Return the answer to a send, given as JSON, as 1.0 would have written it."""
    plain = copy.deepcopy(value)
    for task in _tasks("SendMessage", plain):
        _take(task, lambda _: None)
    return plain


def _tasks(operation: str, value: Any) -> list[dict[str, Any]]:
    """Return the tasks in an answer, given as JSON."""
    if not isinstance(value, dict):
        return []
    found: Any
    match operation:
        case "GetTask" | "CancelTask":
            found = [value]
        case "SendMessage":
            found = [value.get("task")]
        case "ListTasks":
            found = value.get("tasks")
        case _:
            found = ()
    return [task for task in found if isinstance(task, dict)] if isinstance(found, list) else []


def _take(value: dict[str, Any], note: Note) -> dict[str, Any]:
    """Take what 1.0 does not know out of a task or an event; return it by its name in the model."""
    found: dict[str, Any] = {"generation": _number(value.pop("generation", None))}
    timeline = value.pop("timeline", None)
    if isinstance(timeline, list):
        found["timeline"] = _timeline(timeline, note)
    artifacts = value.get("artifacts")
    spans = {}
    for artifact in artifacts if isinstance(artifacts, list) else ():
        if isinstance(artifact, dict):
            first = _number(artifact.pop("startGeneration", None))
            last = _number(artifact.pop("endGeneration", None))
            if first and last:
                spans[str(artifact.get("artifactId"))] = (first, last)
    if spans:
        found["artifact_generations"] = spans
    return found


def _timeline(given: list[Any], note: Note) -> list[TimelineEntry]:
    found = []
    try:
        for entry in given:
            one = lenient.convert({**entry, "generation": 0}, TimelineEntry)
            one.generation = _number(entry.get("generation"))
            found.append(one)
        return found
    except (InvalidParams, TypeError, AttributeError, RecursionError):
        note("the timeline can't be understood; left out")
        return []


def _give(event: Any, taken: dict[str, Any]) -> None:
    for name, value in taken.items():
        if name in event.__struct_fields__:  # an event may say what only a task has
            setattr(event, name, value)


def _number(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given if 0 <= given <= MAX_GENERATION else 0
    return (whole_number(given, MAX_GENERATION) or 0) if isinstance(given, str) else 0
