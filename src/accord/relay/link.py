"""The other agent, as one relayed task sees it: clients, messages out, and events in."""

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..client import AgentFault, Client, Stream, is_interrupted
from ..engine.log import about_of
from ..engine.runs import Run
from ..engine.skills import Context, Fail
from ..model import A2AError, InvalidAgentResponse, Message, Task, TaskNotFound
from ..net import backoff_s
from ..store import Query
from .errors import passed_on
from .files import RelayedFiles
from .remote import OUR_EXTENSIONS, Remote, RequestContext, remote_of

if TYPE_CHECKING:
    from .relay import Relay

__all__ = ["LONGEST_PAUSE_S", "AgentLink", "pause"]

log_ = logging.getLogger("accord")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class AgentLink:
    """What one task sends to the other agent, and what it reads from it.

    Args:
        member: What `connect` is given for a new task.
        on_silence: Called if the agent does not answer the first message for a while.
    """

    def __init__(
        self,
        relay: "Relay",
        run: Run,
        ctx: Context,
        *,
        member: str,
        on_silence: Callable[[], None],
    ) -> None:
        self._relay = relay
        self._run = run
        self._ctx = ctx
        self._on_silence = on_silence
        self._files = RelayedFiles(run)
        self.remote: Remote = remote_of(run.private)
        if member and not self.remote.member:
            self.remote.member = member
        self.stream: Stream | None = None
        self.pending: tuple[Any, str] | None = None  # an event that was read, and its cursor

    def record(self, **changes: Any) -> None:
        """Change the private record of the task; it is stored with what the task says next."""
        self.remote = msgspec.structs.replace(self.remote, **changes)
        self._run.private = msgspec.json.encode(self.remote).decode()

    def context(self) -> RequestContext:
        """Return what a client of the agent is wanted for."""
        ctx = self._ctx
        return RequestContext(caller=ctx.caller, tenant=ctx.tenant, member=self.remote.member)

    async def connect(self) -> Client:
        """Return a client of the agent that has the task. Raises what a caller gets."""
        context = self.context()
        try:
            client = await self._relay.connect(context)
            await client.open()
        except AgentFault as error:
            raise passed_on(error, "", "") from error
        self._files.client = client
        if context.member != self.remote.member:
            self.record(member=context.member)
        return client

    async def connect_patiently(self) -> Client:
        """The same for what nobody waits for: an agent that is away is waited for."""
        loop = asyncio.get_running_loop()
        since, tries = loop.time(), 0
        while True:
            try:
                return await self.connect()
            except A2AError as error:
                if loop.time() - since > self._relay.lost_after_s or not is_interrupted(error):
                    raise Fail(self.reason(error)) from None
            tries += 1
            await pause(tries)

    def reason(self, error: A2AError | AgentFault) -> str:
        """Return why a task fails, for its caller; what it was is logged."""
        log_.warning("task %s: the agent that works on it: %s", self._run.task_id, error)
        if isinstance(error, TaskNotFound):
            return "the agent no longer knows this task"
        return str(passed_on(error, self.remote.task_id, self._run.task_id))

    @property
    def first_id(self) -> str:
        """Return the id of the first message at the other agent."""
        return self.remote.message_id or self._run.task_id

    def new_key(self) -> str:
        """Stable for a caller that sends again under its key; never another caller's."""
        run, namespace = self._run, self._run.log.namespace
        if not run.idempotency_key:
            return f"relay-{run.task_id}"
        parts = (*namespace, run.idempotency_key)
        return "relay-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    async def context_id(self) -> str:
        """The other agent's id of this conversation, as an earlier task has it. It chooses that of
        a new one. Of one that a caller named, and we don't know, it is an id of our making: other
        callers may choose the same.
        """
        run, log = self._run, self._run.log
        if run.is_new_conversation:
            return ""
        query = Query(log.namespace, 8, context_id=log.ids.context_id)
        for record in (await run.runs.tasks.reader.page(query)).tasks:
            known = remote_of(about_of(record.about).private).context_id
            if known:
                return known
        parts = (*log.namespace, log.ids.context_id)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    async def outgoing(self, message: Message) -> Message:
        """A message as the other agent gets it: tasks it refers to by their ids there."""
        references = [
            known for id_ in message.reference_task_ids if (known := await self._their_id(id_))
        ]
        return msgspec.structs.replace(
            message,
            parts=await self._files.taken_along(message.parts),
            task_id=self.remote.task_id,
            context_id=self.remote.context_id,
            reference_task_ids=references,
        )

    async def _their_id(self, task_id: str) -> str:
        run = self._run
        found = await run.runs.tasks.store.load(run.log.namespace, task_id)
        return remote_of(about_of(found.about).private).task_id if found is not None else ""

    def open(self, client: Client, message: Message, key: str) -> None:
        """Send a message; its events are read next."""
        ctx = self._ctx
        self.stream = client.stream(
            message,
            output_modes=ctx.accepted_output_modes,
            key=key if client.deduplicates else "",
            extensions=sorted(ctx.extensions - OUR_EXTENSIONS),
        )

    async def first_event(self) -> Any:
        """Read the first event. A message that is not answered for a while gets its task, so that
        its sender need not wait.
        """
        assert self.stream is not None  # it was just opened
        timer = asyncio.get_running_loop().call_later(self._relay.silent_s, self._give_task)
        try:
            event = await anext(self.stream)
        except StopAsyncIteration:
            raise InvalidAgentResponse("the agent's answer is empty") from None
        finally:
            timer.cancel()
        self.pending = (event, self.stream.cursor)
        return event

    def _give_task(self) -> None:
        if self._run.is_pending:
            self._on_silence()

    def learn(self, stream: Stream) -> None:
        """Record which task of the other agent this is."""
        task = stream.task
        assert task is not None  # an event that is no message is about a task
        context_id = task.context_id or self.remote.context_id
        if (task.id, context_id) != (self.remote.task_id, self.remote.context_id):
            self.record(task_id=task.id, context_id=context_id)

    async def events(self, after: str, seen: Callable[[], Task]) -> AsyncIterator[tuple[Any, str]]:
        """The events of the stream that is open, else those that follow what is in our log."""
        if self.stream is None:
            client = await self.connect()
            self.stream = client.subscribe(self.remote.task_id, after=after, seen=seen())
        pending, self.pending = self.pending, None
        if pending is not None:
            yield await self._files.brought(pending[0]), pending[1]
        stream = self.stream
        async for event in stream:
            yield await self._files.brought(event), stream.cursor

    async def brought(self, event: Any) -> Any:
        """Return what the agent says with its files here. Its own addresses are not passed on."""
        return await self._files.brought(event)

    async def close(self) -> None:
        """End the stream that is open, if there is one."""
        self._files.close()
        stream, self.stream = self.stream, None
        self.pending = None
        if stream is not None:
            with contextlib.suppress(A2AError, AgentFault):
                await stream.close()


async def pause(tries: int) -> None:
    """Wait before the next attempt, longer each time, and never all at once."""
    pause_s = backoff_s(tries, first_s=FIRST_PAUSE_S, most_s=LONGEST_PAUSE_S)
    await asyncio.sleep(pause_s * (0.5 + random.random() / 2))
