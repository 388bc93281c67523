"""Handing a part of a task to another agent: `ctx.delegate`.

The other agent's progress becomes ours, its questions are asked of our own client, cancelling us cancels it, and the trace goes on.
"""

import asyncio
import contextlib
from typing import Any

from . import observe
from .client import Client, connect
from .client.errors import AgentFault
from .client.reply import Reply
from .model import A2AError, Message, StatusUpdate, TaskState
from .run.context import Context, Fail

__all__ = ["Declined", "delegate"]

CANCEL_S = 2.0

_ENDED_BADLY = {TaskState.FAILED: "failed", TaskState.REJECTED: "declined", TaskState.CANCELED: "was canceled"}


class Declined(Fail):
    """The other agent did not do it. Left uncaught, our own task fails with this reason."""

    def __init__(self, reason: str, reply: Reply) -> None:
        super().__init__(reason)
        self.reply = reply


async def delegate(ctx: Context, agent: Any, message: Any, *, number: int) -> Reply:
    """Have another agent do something, and return what it answered.

    Args:
        ctx: The task this is a part of.
        agent: A URL, a card, an Agent, or a client of one.
        message: What `Client.send` takes.
        number: Which delegation of its run this is. Repeated after a restart, it is the same message to an agent that knows
            our idempotency extension.

    Raises:
        Declined: Its task failed, was rejected or canceled.
        AgentFault: It can't be reached, or makes no sense.
    """
    if isinstance(agent, Client):
        return await _converse(ctx, agent, message, number)
    async with connect(agent, headers={"traceparent": observe.child()}) as client:
        return await _converse(ctx, client, message, number)


async def _converse(ctx: Context, client: Client, message: Any, number: int) -> Reply:
    await client.open()
    task_id = ""
    turn = 0
    while True:
        turn += 1
        key = f"{ctx.task_id}/{number}/{turn}" if client.deduplicates else ""  # another agent would be sent the same work twice
        stream = client.stream(message, task_id=task_id, key=key)
        try:
            async for event in stream:
                task_id = getattr(event, "task_id", "") or getattr(event, "id", "") or task_id
                if isinstance(event, StatusUpdate) and event.status.state is TaskState.WORKING and event.status.message:
                    await ctx.status(f"{client.card.name}: {event.status.message.text}")
        except asyncio.CancelledError:
            await _cancel(client, task_id)
            raise
        reply = stream.reply
        task_id = reply.task_id
        if reply.state is TaskState.INPUT_REQUIRED:
            message = await _ask(ctx, client, reply, task_id)
        elif reply.state is TaskState.AUTH_REQUIRED:
            message = (await ctx.require_auth(f"{client.card.name}: {reply.question}")).parts
        elif reply.state in _ENDED_BADLY:
            raise Declined(f"{client.card.name} {_ENDED_BADLY[reply.state]}{_reason(reply)}", reply)
        else:
            return reply


async def _ask(ctx: Context, client: Client, reply: Reply, task_id: str) -> Any:
    """Pass a question on to our own client, with its schema, and return the answer."""
    said = reply.task.status.message if reply.task is not None else None
    try:
        answer = await ctx.ask(said if said is not None else f"{client.card.name} needs an answer", Message)
    except asyncio.CancelledError:
        await _cancel(client, task_id)
        raise
    return answer.parts


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
