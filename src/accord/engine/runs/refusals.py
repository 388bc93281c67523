"""Errors for messages and cancels that a task does not take."""

from ...model import (
    InvalidParams,
    Message,
    SendMessageRequest,
    TaskGenerationMismatch,
    TaskNotFound,
    TaskState,
    Unavailable,
    UnsupportedOperation,
)
from ...store import Record
from ..log import FORMAT, Log
from ..skills import skill_named

__all__ = [
    "changes_hands",
    "check_context",
    "check_generation",
    "check_skill",
    "generation_mismatch",
    "has_ended",
    "not_found",
]


def not_found(task_id: str) -> TaskNotFound:
    """Return the error for a task that is not there, or is not the caller's."""
    return TaskNotFound(f"Task not found: {task_id[:80]}", taskId=task_id[:256])


def has_ended(task_id: str, context_id: str, state: TaskState) -> UnsupportedOperation:
    """Return the error for a message to a task that has ended."""
    return UnsupportedOperation(
        f"task {task_id} is {state.word} and takes no more messages; "
        f"send without taskId, in context {context_id}, to start a new one",
        taskId=task_id,
        contextId=context_id,
    )


def changes_hands(found: Log | Record | None) -> Unavailable:
    """Return the error for a call that did not find the owner of a task in several tries."""
    if isinstance(found, Record) and found.format > FORMAT:
        return Unavailable(
            f"task {found.id} was written by a newer version of this agent's server, which alone "
            "can go on with it; try again in a moment",
            retry_after_s=5,
        )
    return Unavailable(
        "the owner of the task changes too often right now; try again in a moment", retry_after_s=1
    )


def generation_mismatch(task_id: str, expected: int, current: int) -> TaskGenerationMismatch:
    """Return the error for a message that is only for another generation of its task."""
    return TaskGenerationMismatch(
        f"task {task_id} is at generation {current}, not {expected}; get the task, and send the "
        "message again if it is still right",
        taskId=task_id,
        expectedGeneration=str(expected),
        currentGeneration=str(current),
    )


def check_generation(task: Record, expected: int | None) -> None:
    """Raise TaskGenerationMismatch if a message is only for another generation of its task."""
    if expected is not None and expected != task.seq:
        raise generation_mismatch(task.id, expected, task.seq)


def check_context(message: Message, task_id: str, context_id: str) -> None:
    """Raise InvalidParams if a message names another context than its task's."""
    if message.context_id and message.context_id != context_id:
        what = f"task {task_id} belongs to context {context_id}, not to {message.context_id!r:.80}"
        raise InvalidParams(what, violations=(("message.contextId", what),))


def check_skill(request: SendMessageRequest, task_id: str, skill: str) -> None:
    """Raise InvalidParams if a message names another skill than its task's."""
    named = skill_named(request)
    if named is not None and named != skill:
        what = (
            f"task {task_id} is worked on by skill {skill!r}; to use {named!r:.80}, "
            "send without taskId"
        )
        raise InvalidParams(what, violations=(("message.metadata.skill", what),))
