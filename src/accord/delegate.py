"""Handing a part of a task to another agent: `ctx.delegate`.

The other agent's progress becomes ours, its questions are asked of our own client, cancelling us cancels it, and the trace goes on.
"""

import asyncio
import contextlib
import logging
import zlib
from typing import Any

from . import observe
from .client import Client, connect
from .client.errors import AgentFault
from .client.reply import Reply
from .codec import v1
from .engine.runs.run import Run
from .engine.skills.context import Fail
from .model import A2AError, Message, StatusUpdate, Task, TaskState

__all__ = ["Declined", "Delegates", "Unanswered"]

log_ = logging.getLogger("accord")

CANCEL_S = 2.0

_ENDED_BADLY = {TaskState.FAILED: "failed", TaskState.REJECTED: "declined", TaskState.CANCELED: "was canceled"}


class Declined(Fail):
    """The other agent did not do it. Left uncaught, our own task fails with this reason."""

    def __init__(self, reason: str, reply: Reply) -> None:
        super().__init__(reason)
        self.reply = reply


class Unanswered(Fail):
    """The other agent can't be reached, or makes no sense; `reason` says which. Our client is not told where others are."""

    def __init__(self, reason: str) -> None:
        super().__init__("another agent, which was to do a part of this, gave no answer")
        self.reason = reason


class Delegates:
    """Has other agents do parts of our tasks."""

    async def ask(self, run: Run, agent: Any, message: Any, key: str) -> Any:
        """Have another agent do something, and return what it answered, as JSON.

        Args:
            run: Whose task this is a part of.
            agent: A URL, a card, an Agent, or a client of one.
            message: What `Client.send` takes.
            key: What this delegation is called in every life of its run. Repeated after a restart, it is the same message to an
                agent that knows our idempotency extension.

        That it gave no answer is something to remember too: a later life goes the same way.
        """
        try:
            if isinstance(agent, Client):
                return await _converse(run, agent, message, key)
            async with connect(agent, headers={"traceparent": observe.child()}) as client:
                return await _converse(run, client, message, key)
        except (AgentFault, A2AError) as error:
            log_.warning("a delegation of task %s failed: %s", run.log.task.id, error)
            return {"fault": f"{type(error).__name__}: {error}"}

    def reply(self, agent: Any, answered: Any) -> Reply:
        """Return what `ask` has, as a user wants to hold it.

        Raises:
            Declined: Its task failed, was rejected or canceled.
            Unanswered: There was no answer.
        """
        if "fault" in answered:
            raise Unanswered(answered["fault"])
        found = v1.decode_event(answered["said"].encode())
        assert isinstance(found, (Task, Message))  # it is what `ask` gave
        reply = Reply(agent if isinstance(agent, Client) else connect(agent), found)
        if reply.state in _ENDED_BADLY:
            raise Declined(f"{answered['agent']} {_ENDED_BADLY[reply.state]}{_reason(reply)}", reply)
        return reply


async def _converse(run: Run, client: Client, message: Any, key: str) -> Any:
    await client.open()
    task_id = ""
    turn = 0
    while True:
        turn += 1
        name = f"{key}/{turn}"
        stream = client.stream(message, task_id=task_id, key=name if client.deduplicates else "")
        try:
            async for event in stream:
                task_id = getattr(event, "task_id", "") or getattr(event, "id", "") or task_id
                if isinstance(event, StatusUpdate) and event.status.state is TaskState.WORKING and event.status.message:
                    run.progress(f"{client.card.name}: {event.status.message.text}", None)
                    await run.room()
            reply = stream.reply
            task_id = reply.task_id
            if reply.state is TaskState.INPUT_REQUIRED:
                said = reply.task.status.message if reply.task is not None else None
                question = said if said is not None else f"{client.card.name} needs an answer"
                message = (await run.questions.ask(question, Message, place=_place(name))).parts
            elif reply.state is TaskState.AUTH_REQUIRED:
                message = (await run.questions.require_auth(f"{client.card.name}: {reply.question}", None, _place(name))).parts
            else:
                found = reply.task or reply.message
                assert found is not None  # it is one or the other
                return {"agent": client.card.name, "said": v1.encode_event(found).decode()}
        except asyncio.CancelledError:
            if not run.is_let_go:
                await _cancel(client, task_id)
            raise


def _place(name: str) -> int:
    """The number of a question another agent asks: not one of our own."""
    return 1 << 32 | zlib.crc32(name.encode())


async def _cancel(client: Client, task_id: str) -> None:
    """Our task was cancelled: so is its part, if that is still possible."""
    if not task_id:
        return
    with contextlib.suppress(A2AError, AgentFault, TimeoutError):
        async with asyncio.timeout(CANCEL_S):
            await client.cancel(task_id)


def _reason(reply: Reply) -> str:
    said = reply.task.status.message if reply.task is not None else None
    return f": {said.text}" if said is not None and said.text else ""
