"""What the end of a function means for its task: it returned, or raised something."""

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Any

from ...model import A2AError, InvalidAgentResponse, Message, TaskState
from ..durable import Expired, Mismatch, StepFailed
from ..skills import Ask, Fail, Reject, Reply, StatusMessage
from .lifecycle import OVER, Move, State
from .questions import identified, parts_of
from .raised import raised

if TYPE_CHECKING:
    from .run import Run

__all__ = ["function_raised", "function_returned"]

log_ = logging.getLogger("accord")


def function_returned(run: "Run", value: Any) -> None:
    """End the turn with what the function returned: a result, a question, or a message."""
    if run.life.state in OVER:
        return
    if run.history is not None:
        run.history.end_all()  # all that was recorded must have come up again
    output = run.output
    if isinstance(value, Ask):
        if run.history is not None:
            output.resend_changed()
        output.wait_for_message(
            TaskState.INPUT_REQUIRED,
            identified(run, parts_of(value.question, value.type), ("end",)),
            metadata=None,
            keeps_waiting=value.takes_waiting,
        )
        return
    if (left_open := output.left_open) is not None:
        status = left_open.status
        if status.state is TaskState.AUTH_REQUIRED:  # which was said at once
            output.wait_in_last_status(run.private)
        else:
            output.wait_for_message(status.state, status.message, left_open.metadata)
        return
    word = output.last_message
    if isinstance(value, (Reply, StatusMessage, Message)):
        if output.answer(value):
            return
        word = output.message(value)
    elif value is not None:
        output.emit(value, is_last=True)
    if run.history is not None:
        output.resend_changed()
    output.end(TaskState.COMPLETED, word)


def function_raised(run: "Run", error: BaseException) -> None:
    """End the turn with what the function raised. Whatever it is, it ends this task and nothing
    else.
    """
    match error:
        case Mismatch():
            _mismatched(run, error)
        case Reject():
            _end(run, TaskState.REJECTED, str(error))
        case Fail() | Expired():
            _end(run, TaskState.FAILED, str(error))
        case StepFailed(type=Fail.__name__):  # it failed in a step, and nobody caught it
            _end(run, TaskState.FAILED, error.message)
        case StepFailed(type=Reject.__name__):
            _end(run, TaskState.REJECTED, error.message)
        case InvalidAgentResponse():
            run.output.complain(logging.ERROR, str(error))
            if not run.output.refuse(error):
                _end(run, TaskState.FAILED, str(error))
        case A2AError():
            _refuse(run, error)
        case asyncio.CancelledError() if run.life.state is State.CANCELING:
            run.output.end(TaskState.CANCELED)
        case asyncio.CancelledError() if run.life.state is State.RELEASING:
            run.leave()
        case _:
            _fail(run, error)


def _fail(run: "Run", error: BaseException) -> None:
    """Fail the task: the client gets a number to quote, the log the rest. A function that was
    cancelled, and failed as it cleaned up, has been cancelled all the same.
    """
    if run.is_over or _is_incomplete(run):
        return
    run.failure = type(error).__name__
    run.output.rewrites = []  # they may be what failed, and what is said now is ours
    reference = secrets.token_hex(4)
    log_.error(
        "task %s: skill %s failed, reference %s",
        run.task_id,
        run.skill.id,
        reference,
        exc_info=error,
        extra={"task_id": run.task_id},
    )
    is_canceled = run.life.state is State.CANCELING
    word = f"The agent failed. Reference: {reference}"
    if run.output.refuse(A2AError(word, reference=reference)):
        return
    if not is_canceled:
        run.log.append(raised(reference, error))
    run.output.end(TaskState.FAILED, None if is_canceled else word)


def _refuse(run: "Run", error: A2AError) -> None:
    """Give the sender an error of the protocol, if raising it is all the function did. What another
    agent reported is a failure like any other.
    """
    output, log = run.output, run.log
    if error.agent or run.life.state is State.CANCELING:
        _fail(run, error)
    elif output.has_output:
        _end(run, TaskState.FAILED, str(error))
    elif not run.is_over and not _is_incomplete(run) and not output.refuse(error):
        before = run.status_before
        if before is not None:
            output.hand_back()
            log.set_status(before.state, before.message, refusal=error, keeps_waiting=True)
        else:
            message = output.closing_message(str(error))
            log.set_status(TaskState.REJECTED, message, refusal=error)
        run.life.move(Move.END)


def _end(run: "Run", state: TaskState, word: str) -> None:
    """End the task as the function has said."""
    if not run.output.refuse(A2AError(word)) and not _is_incomplete(run):
        run.output.end(state, word)


def _is_incomplete(run: "Run") -> bool:
    """Return whether the function has ended without all that is recorded: then it is not the one
    that recorded it.
    """
    if run.history is None or run.is_over:
        return False
    try:
        run.history.end_all()
    except Mismatch as reason:
        _mismatched(run, reason)
        return True
    return False


def _mismatched(run: "Run", reason: Mismatch) -> None:
    """Give the run up, to be tried again later: the function has changed since it was recorded."""
    if run.life.state is State.CANCELING:
        run.output.end(TaskState.CANCELED)
    elif run.life.move(Move.LEAVE):
        run.runs.mismatched(run, str(reason))
