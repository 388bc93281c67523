"""Messages that a task has accepted, where in a function something is said, and which messages a
status answers or refuses.
"""

from collections.abc import Collection

import msgspec

from ...model import FINAL, A2AError, Message, UnsupportedOperation, errors, timestamp
from .entries import Sender, StatusChanged

__all__ = [
    "NO_ORIGIN",
    "Origin",
    "Turn",
    "asked_since",
    "closed",
    "reason",
    "refuse_answered",
    "settle_turns",
    "too_late",
]


class Turn(msgspec.Struct, eq=False, frozen=True):
    """A message that was accepted. Its number is its position in the log; who sent it waits for the
    entry that answers it.
    """

    number: int
    message: Message
    modes: tuple[str, ...] = ()  # media types its sender can take
    # it is for the task also if that ends first, as versions want it whose tasks can be reopened
    reopens: bool = False
    sender: Sender | None = None  # None: who sent the first message


class Origin(msgspec.Struct, frozen=True):
    """Where in a function something was said: in which branch, within which step."""

    branch: str = ""
    step: str = ""


NO_ORIGIN: Origin = Origin()


def asked_since(task_id: str) -> UnsupportedOperation:
    """Return the error for a message that was accepted before the question that is open."""
    return UnsupportedOperation(
        f"task {task_id} asked a question after it had accepted your message, so the message is no "
        "answer to it; read the question, and send the message again if it answers that",
        taskId=task_id,
    )


def too_late(task_id: str, expired_ms: int) -> UnsupportedOperation:
    """Return the error for an answer to a question whose deadline has passed."""
    return UnsupportedOperation(
        f"the question of task {task_id} could be answered until {timestamp(expired_ms)}, and that "
        "has passed: the message is no answer to it, and was not stored",
        taskId=task_id,
    )


def closed(task_id: str) -> UnsupportedOperation:
    """Return the error for an answer that names a question which is not open."""
    return UnsupportedOperation(
        f"the question that your message names is not open in task {task_id}: it was answered, its "
        "deadline has passed, or the agent went on without an answer; get the task to see",
        taskId=task_id,
    )


def reason(turn: int, error: A2AError) -> tuple[int, str, str]:
    """Return why a turn is refused, as it is logged: by the class of the protocol, not one of a
    user's.
    """
    name = next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in errors.__all__)
    return turn, name, str(error)


def settle_turns(
    entry: StatusChanged, begun: Collection[int], inbox: Collection[Turn], *, keeps_waiting: bool
) -> None:
    """Have an interrupted or terminal status answer the turns that have begun, and refuse those
    that wait: the task has ended, or asks something that they were sent too early to answer.
    """
    entry.answers = tuple(begun)
    if entry.update.status.state in FINAL:
        if inbox:
            entry.refuses = tuple(turn.number for turn in inbox if not turn.reopens)
    elif keeps_waiting:
        entry.keeps_waiting = True
    elif inbox:
        error = asked_since(entry.update.task_id)
        entry.refuses = tuple(turn.number for turn in inbox)
        entry.reasons = tuple(reason(turn, error) for turn in entry.refuses)


def refuse_answered(entry: StatusChanged, error: A2AError) -> None:
    """Have the senders of the turns that a status would answer get this error instead."""
    entry.refuses = (*entry.answers, *entry.refuses)
    entry.reasons += tuple(reason(turn, error) for turn in entry.answers)
    entry.answers = ()
