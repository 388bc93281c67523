"""Handing a part of a task to another agent: `ctx.delegate`.

The other agent's progress becomes ours, its questions are asked of our own client, cancelling us
cancels it, and the trace goes on.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from msgspec.structs import replace

from . import observe
from .client import AgentFault, Client, ClientReply, MovedOn, Stream, connect, still_asks
from .engine.durable import Branch, DelegateOptions
from .engine.log import closed
from .engine.runs import Run
from .engine.skills import Fail, to_parts
from .files import CopiedFiles, has_references
from .model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    File,
    Message,
    Part,
    StatusUpdate,
    Task,
    TaskState,
    UnsupportedOperation,
    naming,
    question_named,
)
from .protocol.v1 import codec as v1

__all__ = ["ClientDelegates", "Declined", "Unanswered"]

log_ = logging.getLogger("accord")

CANCEL_S = 2.0
FIRST_S = 10.0  # how long a cancelled delegation waits to learn which task there is to cancel

_ENDED_BADLY = {
    TaskState.FAILED: "failed",
    TaskState.REJECTED: "declined",
    TaskState.CANCELED: "was canceled",
}


class Declined(Fail):
    """The other agent did not do it. Left uncaught, our own task fails with this reason."""

    def __init__(self, reason: str, reply: ClientReply) -> None:
        super().__init__(reason)
        self.reply = reply


# What our client learns of an error of the other agent. Where that agent is, it does not learn.
_FAULTS = {
    "Unauthenticated": "did not accept our credentials",
    "OAuthError": "did not accept our credentials",
    "PermissionDenied": "did not allow it",
    "TooManyRequests": "has too much to do",
    "BadAnswer": "answered with something else than A2A",
    "Unreachable": "can't be reached",
    "ConnectionLost": "gave no answer",
    "TooSlow": "gave no answer",
}


class Unanswered(Fail):
    """The other agent can't be reached, refuses the message, or makes no sense; `reason` says
    which. Our client is not told where others are.
    """

    def __init__(self, reason: str) -> None:
        what = _FAULTS.get(reason.partition(":")[0], "answered with an error")
        super().__init__(f"another agent that does a part of this task {what}")
        self.reason = reason


class ClientDelegates:
    """Has other agents do parts of our tasks.

    Args:
        egress_proxy: For places that cards of these agents name elsewhere; see `connect`.
    """

    def __init__(self, egress_proxy: str = "") -> None:
        self._egress_proxy = egress_proxy
        self._late: set[asyncio.Task[None]] = set()  # cancel what nobody waits for any more
        self._warned: set[str] = set()  # names of agents

    async def close(self) -> None:
        """Let cancelled delegations cancel their tasks, if that is soon done."""
        if self._late:
            _, rest = await asyncio.wait(self._late, timeout=CANCEL_S)
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

    async def converse(
        self,
        run: Run,
        agent: Any,
        message: Any,
        key: str,
        *,
        task_id: str,
        branch: Branch,
        on_task: Callable[[str], Awaitable[None]],
        options: DelegateOptions,
    ) -> Any:
        """Have another agent do something, and return what it answered as a JSON value. See
        `durable.branches.Delegates`.

        That it gave no answer is something to remember too: the next attempt goes the same way.
        """
        spans = observe.tracing()
        if spans is None and not observe.current():
            observe.enter(observe.child())  # what belongs together is to be found together
        with spans.delegation() if spans is not None else contextlib.nullcontext() as span:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    client = agent
                    if not isinstance(agent, Client):
                        self._warn_of_memory(run, agent)
                        client = connect(
                            agent, headers=options.headers, egress_proxy=self._egress_proxy
                        )
                        stack.push_async_callback(client.close)
                    talk = _Conversation(run, client, key, branch, on_task, options)
                    try:
                        found = await talk.hold(message, task_id)
                    except asyncio.CancelledError:
                        if talk.is_unnamed:
                            self._cancel_later(talk, stack.pop_all())
                        raise
            except (AgentFault, A2AError) as error:
                log_.warning("a delegation of task %s failed: %s", run.task_id, error)
                if span is not None:
                    span.fail(type(error).__name__)
                return {"fault": f"{type(error).__name__}: {error}"}
            if spans is not None and span is not None:
                spans.name_delegation(span, found["agent"])
            return found

    def _warn_of_memory(self, run: Run, agent: Any) -> None:
        """Warn if durable work waits for tasks that this process alone has."""
        is_object = callable(getattr(agent, "app", None))  # as `connect` tells it from an app
        if not is_object or not run.skill.is_durable or not run.runs.can_go_on:
            return
        name = str(agent.name)
        if name not in self._warned:
            self._warned.add(name)
            log_.warning(
                "the durable skill %s delegates to the Agent object %r, whose tasks are in memory: "
                "a restart loses them, and the task that waits for them fails; give ctx.delegate "
                "its URL, or an app with a store: agent.app(store=...), made once",
                run.skill.id,
                name,
            )

    def _cancel_later(self, talk: "_Conversation", client: contextlib.AsyncExitStack) -> None:
        """Cancel the task of a delegation once it is known. The client stays open for that."""

        async def cancel() -> None:
            async with client:
                await talk.cancel_when_named()

        task = asyncio.get_running_loop().create_task(cancel())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def reply(self, agent: Any, value: Any) -> ClientReply:
        """Return what `converse` gave, as a user wants to hold it.

        Raises:
            Declined: Its task failed, was rejected or canceled.
            Unanswered: There was no answer.
        """
        if "fault" in value:
            raise Unanswered(value["fault"])
        found = v1.decode_event(value["said"].encode())
        assert isinstance(found, (Task, Message))  # it is what `converse` gave
        if not isinstance(agent, Client):
            agent = connect(agent, egress_proxy=self._egress_proxy)
        reply = ClientReply(agent, found)
        if reply.state in _ENDED_BADLY:
            raise Declined(f"{value['agent']} {_ENDED_BADLY[reply.state]}{_reason(reply)}", reply)
        return reply


class _Conversation:
    """One delegation: a message, what comes of it, and answers to what the other agent asks."""

    def __init__(
        self,
        run: Run,
        client: Client,
        key: str,
        branch: Branch,
        on_task: Callable[[str], Awaitable[None]],
        options: DelegateOptions,
    ) -> None:
        self._options = options
        self._written: dict[str, int] = {}  # how much of each of its artifacts we have written
        self._run = run
        self._client = client
        self._key = key
        self._branch = branch
        self._on_task = on_task
        self._task_id = ""
        self._copies = CopiedFiles(run.runs.tasks.files, run.log.namespace)
        self._unnamed: tuple[Stream, asyncio.Future[Any]] | None = None

    @property
    def is_unnamed(self) -> bool:
        """It was cancelled before the other agent said which task it is; there may be one."""
        return self._unnamed is not None

    async def hold(self, message: Any, task_id: str) -> Any:
        """Send a message, or follow the task of an earlier attempt; return how it ended."""
        client = self._client
        self._task_id = task_id
        try:
            await client.open()
            reply = await (self._follow() if task_id else self._send(message, self._key))
            while reply.state in INTERRUPTED:
                reply = await self._answered(reply)
        except asyncio.CancelledError:
            if not self._run.goes_on_elsewhere:  # else the next attempt goes on with it
                await _cancel(client, self._task_id)
            raise
        finally:
            self._copies.close()
        found = reply.task or reply.message
        assert found is not None  # it is one or the other
        return {"agent": client.card.name, "said": v1.encode_event(found).decode()}

    async def _send(self, message: Any, key: str, question: str = "") -> ClientReply:
        """Send a message: the first, or an answer to the question with this id."""
        client = self._client
        stream = client.stream(
            await self._with_files(message),
            skill="" if self._task_id else self._options.skill,
            metadata=naming(question, self._options.metadata),
            task_id=self._task_id,
            key=key if client.deduplicates else "",
        )
        event: Any = None
        if not self._task_id:
            event = await self._first(stream)
            await self._on_event(event)
        if not _needs_auth(event):
            async for event in stream:
                await self._on_event(event)
                if _needs_auth(event):
                    break  # the stream stays open meanwhile, and we have to tell our client
        reply = stream.reply
        await stream.close()
        return reply

    async def _with_files(self, message: Any) -> Any:
        """Return a message with copies of files that lie in the file store of this server."""
        if isinstance(message, Message):
            if not has_references(message):
                return message
            return replace(message, parts=await self._copies.parts(message.parts))
        values = message if isinstance(message, list | tuple) else [message]
        if not any(isinstance(value, File | Part) for value in values):
            return message
        return await self._copies.parts(part for value in values for part in to_parts(value))

    async def _first(self, stream: Stream) -> Any:
        """The first event, which names the task. If we are cancelled before it comes, the message
        may have been taken already: `cancel_when_named` goes on waiting for it.
        """
        first = asyncio.ensure_future(anext(stream))
        try:
            return await asyncio.shield(first)
        except asyncio.CancelledError:
            if self._run.goes_on_elsewhere:
                first.cancel()
            else:
                self._unnamed = stream, first
            raise

    async def cancel_when_named(self) -> None:
        """Wait for the first event, for a while, and cancel the task that it names."""
        assert self._unnamed is not None  # is_unnamed
        stream, first = self._unnamed
        try:
            await asyncio.wait({first}, timeout=FIRST_S)
            if first.done() and not first.cancelled() and first.exception() is None:
                await _cancel(self._client, _task_of(first.result()))
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)  # it reads the stream until then
            await stream.close()

    async def _follow(self) -> ClientReply:
        """Read on in a task that was begun before."""
        client = self._client
        task = await client.get(self._task_id)
        if self._options.writes:
            await self._write(task)
        if task.state not in FINAL and task.state not in INTERRUPTED:
            with contextlib.suppress(UnsupportedOperation):  # it has ended meanwhile
                async for event in client.subscribe(self._task_id):
                    await self._on_event(event)
                    if isinstance(event, StatusUpdate) and event.status.state in INTERRUPTED:
                        break
            task = await client.get(self._task_id)
        return ClientReply(client, task)

    async def _on_event(self, event: Any) -> None:
        task_id = _task_of(event)
        if task_id and task_id != self._task_id:
            self._task_id = task_id
            await self._on_task(task_id)
        if (
            isinstance(event, StatusUpdate)
            and event.status.state is TaskState.WORKING
            and event.status.message
        ):
            known = event.progress
            text = f"{self._client.card.name}: {event.status.message.text}"
            self._run.output.progress(text, known.metadata if known is not None else None)
            await self._run.output.drain()
        if self._options.writes:
            await self._write(event)

    async def _write(self, event: Any) -> None:
        """Write what the other agent has written, where we have not yet."""
        if isinstance(event, ArtifactUpdate):
            id_, text = event.artifact.artifact_id, event.artifact.text
            before = self._written.get(id_, 0)
            new = text if event.append else text[before:]
            self._written[id_] = before + len(new)
            if new:
                self._run.output.emit(new)
                await self._run.output.drain()
        elif isinstance(event, Task):
            for artifact in event.artifacts:
                new = artifact.text[self._written.get(artifact.artifact_id, 0) :]
                self._written[artifact.artifact_id] = len(artifact.text)
                if new:
                    self._run.output.emit(new)

    async def _connected(self) -> Client:
        return self._client

    async def _answered(self, reply: ClientReply) -> ClientReply:
        """Ask our own client what the other agent asks us, and hand on the answer."""
        name, questions = self._client.card.name, self._run.questions
        said: Message | None = None
        if reply.state is TaskState.AUTH_REQUIRED:
            answer = await questions.require_auth(
                self._branch, f"{name}: {reply.question}", _Authorized(self._client, self._task_id)
            )
            if (await self._client.get(self._task_id)).state not in INTERRUPTED:
                return await self._follow()  # it was authorized, with a message or without one
        else:
            said = reply.task.status.message if reply.task is not None else None
            answer = await questions.ask(
                self._branch,
                said if said is not None else f"{name} needs an answer",
                Message,
                until=MovedOn(self._connected, self._task_id, said),
            )
            if answer is None or not still_asks(await self._client.get(self._task_id), said):
                return await self._go_on(answer)
        key = f"{self._key}/{answer.message_id}"
        try:
            return await self._send(
                answer.parts, key, question_named(said) if said is not None else ""
            )
        except UnsupportedOperation:
            if still_asks(await self._client.get(self._task_id), said):
                raise
            return await self._go_on(answer)

    async def _go_on(self, answer: Message | None) -> ClientReply:
        """Follow the other agent, which did not wait for this answer: what it asks now, if it does,
        is another question.
        """
        if answer is not None:
            self._run.refuse_taken(closed(self._run.task_id))
        return await self._follow()


class _Authorized:
    """Awaits that a task no longer waits for an authorization. Nothing happens before that."""

    def __init__(self, client: Client, task_id: str) -> None:
        self._client = client
        self._task_id = task_id

    def __await__(self) -> Generator[Any, None, None]:
        return self._watch().__await__()

    async def _watch(self) -> None:
        with contextlib.suppress(UnsupportedOperation):  # it has ended meanwhile
            async with self._client.subscribe(self._task_id) as stream:
                async for event in stream:
                    if not isinstance(event, StatusUpdate | Task):
                        continue
                    if event.status.state is not TaskState.AUTH_REQUIRED:
                        return


def _task_of(event: Any) -> str:
    """The id of the task that an event is about; empty if there is none."""
    found: str = getattr(event, "task_id", "") or getattr(event, "id", "")
    return found


def _needs_auth(event: Any) -> bool:
    return isinstance(event, StatusUpdate) and event.status.state is TaskState.AUTH_REQUIRED


async def _cancel(client: Client, task_id: str) -> None:
    """Our task was cancelled: so is its part, if that is still possible."""
    if not task_id:
        return
    with contextlib.suppress(A2AError, AgentFault, TimeoutError):
        async with asyncio.timeout(CANCEL_S):
            await client.cancel(task_id)


def _reason(reply: ClientReply) -> str:
    said = reply.task.status.message if reply.task is not None else None
    return f": {said.text}" if said is not None and said.text else ""
