"""What stands in a task's log, and what is kept beside it."""

import functools
from typing import Any

import msgspec

from ...codec import v1
from ...model import Event, Message, StatusUpdate, Task, TaskState

__all__ = ["STATE_NUMBER", "About", "Entry", "TurnBegin", "encoded", "entries_of", "event_of", "state_of"]

_STATES = list(TaskState)
STATE_NUMBER = {state: number for number, state in enumerate(_STATES)}  # the proto's: what stores keep


def state_of(number: int) -> TaskState:
    return _STATES[number]


class Entry(msgspec.Struct, gc=False):
    """One numbered event as readers get it: encoded once, shared by all of them."""

    seq: int
    data: bytes  # a StreamResponse of 1.0
    state: TaskState | None  # None for an artifact
    shapes: dict[Any, list[bytes]] | None = None  # the same event as other versions write it, made when first asked for


class About(msgspec.Struct, omit_defaults=True, frozen=True):
    """What is fixed when a task is made and shown to nobody: the skill that does it, the wire it came over."""

    skill: str
    origin: str = ""


@functools.lru_cache(maxsize=256)
def encoded(about: About) -> bytes:
    """The text of it, one object for all tasks that have the same."""
    return v1.encode(about)


class TurnBegin(msgspec.Struct, array_like=True):
    """Private log entry: the function started with this message, or its n-th question was answered by it."""

    message_id: str
    ask: int = 0


def entries_of(row: int, lines: bytes) -> list[Entry]:
    """Return the visible entries of a stored row."""
    visible = [line[1:] for line in lines.split(b"\n") if line.startswith(b"v")]
    return [Entry(row + i, data, _state_of(data)) for i, data in enumerate(visible)]


def event_of(data: bytes) -> Event:
    """Return the event of a visible line."""
    event = v1.decode_event(data)
    assert not isinstance(event, Message)  # a message never enters a task's log as an event
    return event


def _state_of(data: bytes) -> TaskState | None:
    if data.startswith(b'{"artifactUpdate"'):
        return None
    event = v1.decode_event(data)
    return event.status.state if isinstance(event, (StatusUpdate, Task)) else None
