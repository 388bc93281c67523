"""A fork: a new task that begins with what another had done up to one of its events.

It is asked for by a message whose metadata has, under the name of the extension, which task is to
be forked and at which event. A message without parts only forks.
"""

from typing import Any

import msgspec

from .base import Metadata
from .errors import InvalidParams
from .extensions import FORK
from .task import Message

__all__ = ["ForkPoint", "fork_metadata", "fork_point", "without_fork"]


class ForkPoint(msgspec.Struct, frozen=True):
    """Name where a task is forked: after its event number `at`, before the next one."""

    task_id: str
    at: int
    # the message answers the question that is open there; without one it is refused
    is_answer: bool = False


def fork_metadata(point: ForkPoint) -> dict[str, Any]:
    """Return what a message that asks for a fork carries, and the task that is made of it."""
    answers = {"isAnswer": True} if point.is_answer else {}
    return {FORK: {"taskId": point.task_id, "at": point.at, **answers}}


def fork_point(message: Message) -> ForkPoint:
    """Return where a message that asks for a fork wants it.

    Raises:
        InvalidParams: It does not say it right.
    """
    asked = (message.metadata or {}).get(FORK)
    asked = asked if isinstance(asked, dict) else {}
    task_id, at = asked.get("taskId"), asked.get("at")
    if isinstance(at, float) and at.is_integer():
        at = int(at)  # protobuf has no whole numbers in metadata
    if not isinstance(task_id, str) or not task_id:
        raise _wrong("taskId", "names the task that is to be forked")
    if not isinstance(at, int) or isinstance(at, bool):
        raise _wrong("at", "is the number of one of its events, a whole number")
    return ForkPoint(task_id, at, asked.get("isAnswer") is True)


def without_fork(metadata: Metadata | None) -> Metadata | None:
    """Return metadata without what asks for a fork: a task is given the rest."""
    return {name: value for name, value in (metadata or {}).items() if name != FORK} or None


def _wrong(name: str, what: str) -> InvalidParams:
    field = f"message.metadata.{FORK}.{name}"
    return InvalidParams(f"{field} {what}", violations=((field, what),))
