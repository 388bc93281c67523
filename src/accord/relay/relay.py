"""The skill of a relay: it follows tasks of another agent, and cancels them there."""

import asyncio

from ..client import AgentFault
from ..engine.durable import RUN_POSITION
from ..engine.skills import Cancellation, Context
from ..model import A2AError, Message, TaskNotFound
from .errors import passed_on
from .remote import Check, Connect, RequestContext, remote_of
from .task import RelayedTask

__all__ = ["Relay"]

CANCEL_S = 3.0  # for what the other agent says last of a task that it has cancelled


class Relay:
    """Follow the tasks of one agent.

    Args:
        connect: Gives a client of the agent. It may give the same one every time; it owns it.
        lost_after_s: How long an agent may be away before its tasks are failed.
        check: Asked before a later message of a task is sent on, with that message and the first
          one: it raises what the sender gets instead.
        silent_s: After so long without an answer a message gets a task, so that its sender need
          not wait.
        stale_after_s: How long an agent may be away before its tasks say so in their metadata, as
          `via.stale`.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        check: Check | None = None,
        lost_after_s: float = 3600.0,
        silent_s: float = 10.0,
        stale_after_s: float = 60.0,
    ) -> None:
        self.connect = connect
        self.check = check
        self.stale_after_s = stale_after_s
        self.lost_after_s = lost_after_s
        self.silent_s = silent_s

    async def run(self, message: Message, ctx: Context) -> None:
        """Have the other agent do what the message asks for. This is the function of the skill."""
        await self.follow(message, ctx)

    async def follow(self, message: Message, ctx: Context, *, member: str = "") -> None:
        """Have the other agent do what a message asks for, from within a skill that chose it:
        `member` is what `connect` is given for a new task.
        """
        place = RUN_POSITION.get()
        assert place is not None  # it is a skill, which a run has called
        await RelayedTask(self, place.run, place.branch, ctx, message, member).follow()

    @property
    def is_begun(self) -> bool:
        """Return whether the message of this run was sent to the other agent before a restart."""
        place = RUN_POSITION.get()
        return place is not None and bool(remote_of(place.run.private).key)

    async def cancel(self, cancellation: Cancellation) -> None:
        """Ask the other agent to cancel; what it answers is the answer."""
        remote = remote_of(cancellation.private)
        if not remote.task_id:
            return  # there is nothing it could be asked to cancel
        caller = cancellation.sender.caller
        context = RequestContext(caller=caller, tenant=cancellation.tenant, member=remote.member)
        try:
            client = await self.connect(context)
            await client.cancel(remote.task_id)
        except TaskNotFound:
            return  # it is gone there, and so it may be here
        except (A2AError, AgentFault) as error:
            raise passed_on(error, remote.task_id, cancellation.task_id) from None
        if cancellation.running is not None:  # it passes on what the agent says at the end
            await asyncio.wait({cancellation.running}, timeout=CANCEL_S)
