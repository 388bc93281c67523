"""-o text: the text form of the A2A command line specification. One field per line, texts as
blocks that end with an empty line, labels that never change.
"""

import sys

import msgspec

from ..client import Gap
from ..client.streams import StreamEvent
from ..model import (
    FINAL,
    INTERRUPTED,
    ArtifactUpdate,
    Message,
    Part,
    StatusUpdate,
    Task,
    TaskState,
    timestamp,
)
from .advice import typed
from .countdown import expires_at_of
from .target import AgentTarget
from .terminal import clean, echo

__all__ = ["print_event", "print_task"]


def print_task(found: Task | Message, target: AgentTarget) -> None:
    """Print a task or a message with everything in it."""
    lines: list[str] = []
    if isinstance(found, Message):
        lines += _field("Context", found.context_id) + _parts(found.parts, "Message", target)
    else:
        lines += _state(found.id, found.context_id, found.status.state)
        lines += _field("Updated", found.status.timestamp)
        lines += _field("Resume", _resume(found, target))
        lines += _deadline(found)
        if found.status.message is not None:
            lines += _parts(found.status.message.parts, "Status message", target)
        for artifact in found.artifacts:
            if target.verbose:
                lines += _block("Artifact", f"{artifact.artifact_id} {artifact.name}".strip())
            lines += _parts(artifact.parts, "", target)
        for message in found.history if target.verbose else ():
            lines += _block("History", f"{message.role.value}: {message.text}")
    _print(lines)


def print_event(event: StreamEvent, task: Task | None, target: AgentTarget) -> None:
    """Print one event of a stream; `task` is the task after it."""
    if isinstance(event, Message):
        _print(_field("Event", "message"))
        return print_task(event, target)
    if isinstance(event, Task | Gap):
        _print(_field("Event", "task"))
        return print_task(event.task if isinstance(event, Gap) else event, target)
    assert task is not None  # an event of a task comes with it
    lines = _field("Event", "artifact" if isinstance(event, ArtifactUpdate) else "status")
    # The task may be further than this event: what came at once is read one by one.
    state = event.status.state if isinstance(event, StatusUpdate) else TaskState.WORKING
    lines += _state(task.id, task.context_id, state)
    if isinstance(event, StatusUpdate):
        if event.status.state in FINAL | INTERRUPTED:
            lines += _field("Resume", _resume(task, target)) + _deadline(task)
        if event.status.message is not None:
            lines += _parts(event.status.message.parts, "Status message", target)
    else:
        lines += _parts(event.artifact.parts, "", target)
    _print(lines)


def _state(task_id: str, context_id: str, state: TaskState) -> list[str]:
    return _field("Task", task_id) + _field("Context", context_id) + _field("State", state.value)


def _deadline(task: Task) -> list[str]:
    """Until when a question may be answered, if it has a deadline."""
    expires_at = expires_at_of(task)
    if expires_at is None:
        return []
    return _field("Answer until", timestamp(round(expires_at.timestamp() * 1000)))


def _resume(task: Task, target: AgentTarget) -> str:
    """What to type to go on."""
    state = task.status.state
    if state is TaskState.INPUT_REQUIRED:
        return typed("send", *target.words, "--task-id", task.id, "<reply>")
    if state in FINAL:
        return typed("send", *target.words, "--context-id", task.context_id, "<message>")
    return typed("task", "get", *target.words, "--wait", task.id)


def _parts(parts: list[Part], label: str, target: AgentTarget) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if isinstance(part.text, str):
            lines += _block(label or "Artifact text", part.text)
        elif part.data is not msgspec.UNSET:
            text = msgspec.json.format(msgspec.json.encode(part.data), indent=2).decode()
            lines += _block(label or "Artifact data", text)
        else:
            size = part.url if isinstance(part.url, str) else f"{len(part.raw or b'')} bytes"
            about = [part.filename or "file", part.media_type, size]
            lines += _block(label or "Artifact file", ", ".join(str(one) for one in about if one))
        if target.verbose and part.metadata:
            lines += _block("Part metadata", msgspec.json.encode(part.metadata).decode())
    return lines


def _field(label: str, value: str) -> list[str]:
    return [f"{label}: {' '.join(clean(value).split())}"] if value else []


def _block(label: str, text: str) -> list[str]:
    # Indented: no line of an agent can look like a field, or like the end of the block.
    return [f"{label}:", *(f"  {line}" for line in clean(text).splitlines()), ""]


def _print(lines: list[str]) -> None:
    for line in lines:
        echo(line)
    sys.stdout.flush()
