"""One task that is relayed: begun at the other agent, followed event by event, its questions passed
on and answered.
"""

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ..client import (
    AgentFault,
    Client,
    ConnectionLost,
    Gap,
    MovedOn,
    Stream,
    TooSlow,
    catch_up,
    is_interrupted,
    still_asks,
)
from ..engine.log import about_of, asked_since
from ..engine.runs import Run
from ..engine.skills import Context, Fail
from ..model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    ArtifactUpdate,
    InvalidAgentResponse,
    InvalidParams,
    Message,
    StatusUpdate,
    Task,
    TaskNotFound,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
)
from ..store import Query
from .errors import passed_on
from .message_ids import id_at_agent
from .remote import OUR_EXTENSIONS, Errand, Remote, remote_of

if TYPE_CHECKING:
    from .relay import Relay

__all__ = ["RelayedTask"]

log_ = logging.getLogger("accord")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
THERE_S = 90.0  # longer than a client tries by itself: a stream that lasted so long was connected
STALE = "via.stale"  # in the metadata of a task: its agent has not been heard of for a while


class RelayedTask:
    """One task that is relayed."""

    def __init__(
        self, relay: "Relay", run: Run, branch: Any, ctx: Context, message: Message, member: str
    ) -> None:
        self._message = message
        self._relay = relay
        self._run = run
        self._branch = branch
        self._ctx = ctx
        self._remote = remote_of(run.private)
        if member and not self._remote.member:
            self._remote.member = member
        self._cursor = run.cursor  # behind what we have said
        self._stream: Stream | None = None
        self._pending: tuple[Any, str] | None = None  # an event that was read, and its cursor
        self._refusal: A2AError | None = None  # for who sent the last answer
        self._is_answering = False  # an answer was sent, and nothing has come since
        self._left: Message | None = None  # a question that the agent went on from by itself
        known = run.log.draft.metadata if not run.is_unspoken else None
        self._is_stale = bool((known or {}).get(STALE))

    # The way of a task

    async def follow(self) -> None:
        try:
            answers = self._recorded_answers()
            if self._run.history is None and self._remote.task_id:
                await self._reopen()
            elif not self._remote.task_id and not await self._begin():
                return
            async for answer, is_new in answers:
                await self._answer(answer, is_new=is_new)
            while (question := await self._until_question()) is not None:
                found = await self._ask(question)
                if found is not None:
                    await self._answer(found, is_new=True)
        finally:
            await self._close()

    async def _recorded_answers(self) -> AsyncIterator[tuple[Message, bool]]:
        """Go through the questions that were passed on before; the last may still be open. What
        was answered then may not have arrived.
        """
        remote = self._remote
        asked, sent, question = remote.asked, remote.sent, remote.question
        count = 0
        for i, kind in enumerate(asked):
            is_last = i == len(asked) - 1
            before = self._run.log.pos
            answer = await self._put(kind, question if is_last else None)
            if answer is None:
                continue
            count += 1
            if count > sent:
                yield answer, self._run.log.pos != before

    def _record(self, **changes: Any) -> None:
        self._remote = msgspec.structs.replace(self._remote, **changes)
        self._run.private = msgspec.json.encode(self._remote).decode()

    def _errand(self) -> Errand:
        ctx = self._ctx
        return Errand(caller=ctx.caller, tenant=ctx.tenant, member=self._remote.member)

    async def _check(self, message: Message) -> None:
        """Raise what the sender of a later message gets if it is not to be sent on."""
        if self._relay.check is not None:
            await self._relay.check(self._errand(), message, self._message)

    async def _connect(self) -> Client:
        errand = self._errand()
        try:
            client = await self._relay.connect(errand)
            await client.open()
        except AgentFault as error:
            raise passed_on(error, "", "") from error
        if errand.member != self._remote.member:
            self._record(member=errand.member)
        return client

    async def _connect_patiently(self) -> Client:
        """The same for what nobody waits for: an agent that is away is waited for."""
        loop = asyncio.get_running_loop()
        since, tries = loop.time(), 0
        while True:
            try:
                return await self._connect()
            except A2AError as error:
                if loop.time() - since > self._relay.lost_after_s or not is_interrupted(error):
                    raise Fail(self._reason(error)) from None
            tries += 1
            await _pause(tries)

    # Sending

    async def _begin(self) -> bool:
        """Send the first message. Return whether there is a task to be followed."""
        run = self._run
        is_again = bool(self._remote.key)  # recorded before it was sent
        client = await (self._connect_patiently() if is_again else self._connect())
        if is_again and not client.deduplicates and not client.connection.names_tasks:
            raise Fail(
                "the connection to the agent was lost before it answered; whether it has begun is "
                "not known: send the message again if that does no harm"
            )
        if not self._remote.key:
            message_id = self._message.message_id
            if client.connection.names_tasks:
                message_id = run.task_id  # it becomes the id of the task there
            else:
                message_id = await id_at_agent(run, client, message_id)
            self._record(
                key=self._new_key(), message_id=message_id, context_id=await self._context_id()
            )
        message = await self._outgoing(self._message)
        message.message_id = self._first_id
        message.context_id = self._remote.context_id
        first = await self._first_answer(client, message)
        if isinstance(first, Message):
            run.say(first, "")
            return False
        assert self._stream is not None  # it gave the event
        self._learn(self._stream)
        return True

    async def _first_answer(self, client: Client, message: Message) -> Any:
        """Send the first message, and return the first event. Once there is a task nobody waits:
        an agent that recognises the message gets it again when it is back.
        """
        loop = asyncio.get_running_loop()
        since, tries = loop.time(), 0
        while True:
            self._open(client, message, self._remote.key)
            try:
                return await self._first_event()
            except (A2AError, AgentFault) as error:
                await self._close()
                passed = passed_on(error, "", "")
                if self._run.is_unspoken:
                    raise passed from None
                is_late = loop.time() - since > self._relay.lost_after_s
                if is_late or not is_interrupted(error) or not client.deduplicates:
                    raise Fail(str(passed)) from None
            tries += 1
            await _pause(tries)

    async def _reopen(self) -> None:
        """A message has begun an ended task anew, as old versions allow: so it does with the other
        agent; where it can't, it is a new task of that conversation.
        """
        await self._check(self._message)
        run = self._run
        key = f"relay-{run.task_id}-turn-{run.turn}"
        self._remote = Remote(
            task_id=self._remote.task_id,
            context_id=self._remote.context_id,
            member=self._remote.member,
        )
        self._record(key=key)
        client = await self._connect()
        message = await self._outgoing(self._message)
        message.message_id = await id_at_agent(run, client, message.message_id)
        self._open(client, message, key)
        try:
            await self._first_event()
        except (UnsupportedOperation, TaskNotFound, InvalidParams):
            await self._close()
            message.task_id = ""
            self._open(client, message, f"{key}-new")
            try:
                await self._first_event()
            except (A2AError, AgentFault) as error:
                raise Fail(self._reason(error)) from None
        except (A2AError, AgentFault) as error:
            raise Fail(self._reason(error)) from None
        assert self._stream is not None  # it has told the first event
        if self._stream.task is not None:
            self._learn(self._stream)

    @property
    def _first_id(self) -> str:
        """Return the id of the first message at the other agent."""
        return self._remote.message_id or self._run.task_id

    def _new_key(self) -> str:
        """Stable for a caller that sends again under its key; never another caller's."""
        run, namespace = self._run, self._run.log.namespace
        if not run.idempotency_key:
            return f"relay-{run.task_id}"
        parts = (*namespace, run.idempotency_key)
        return "relay-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    async def _context_id(self) -> str:
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

    async def _outgoing(self, message: Message) -> Message:
        """A message as the other agent gets it: tasks it refers to by their ids there."""
        references = [
            known for id_ in message.reference_task_ids if (known := await self._their_id(id_))
        ]
        return msgspec.structs.replace(
            message,
            task_id=self._remote.task_id,
            context_id=self._remote.context_id,
            reference_task_ids=references,
        )

    async def _their_id(self, task_id: str) -> str:
        run = self._run
        found = await run.runs.tasks.store.load(run.log.namespace, task_id)
        return remote_of(about_of(found.about).private).task_id if found is not None else ""

    def _open(self, client: Client, message: Message, key: str) -> None:
        ctx = self._ctx
        self._stream = client.stream(
            message,
            output_modes=ctx.accepted_output_modes,
            key=key if client.deduplicates else "",
            extensions=sorted(ctx.extensions - OUR_EXTENSIONS),
        )

    async def _first_event(self) -> Any:
        """Read the first event. A message that is not answered for a while gets its task, so that
        its sender need not wait.
        """
        assert self._stream is not None  # it was just opened
        reading = asyncio.ensure_future(anext(self._stream))
        try:
            if self._run.is_unspoken:
                await asyncio.wait({reading}, timeout=self._relay.silent_s)
                if not reading.done():
                    self._say(_status(TaskState.SUBMITTED), "")
            event = await reading
        except StopAsyncIteration:
            raise InvalidAgentResponse("the agent's answer is empty") from None
        finally:
            reading.cancel()
            await asyncio.wait({reading})
        self._pending = (event, self._stream.cursor)
        return event

    def _learn(self, stream: Stream) -> None:
        """The other agent has told which task this is."""
        task = stream.task
        assert task is not None  # an event that is no message is about a task
        context_id = task.context_id or self._remote.context_id
        if (task.id, context_id) != (self._remote.task_id, self._remote.context_id):
            self._record(task_id=task.id, context_id=context_id)

    # Following

    async def _until_question(self) -> StatusUpdate | None:
        """Pass on what happens until the agent asks something; None if the task has ended."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        tries = 0
        while True:
            before, begun_at = self._run.log.seq, loop.time()
            try:
                question = await self._read()
                if question is not None or self._run.is_over:
                    return question
                error: A2AError | AgentFault | None = None
            except (A2AError, AgentFault) as fault:
                if not is_interrupted(fault):
                    return await self._refused(fault)
                error = fault
            await self._close()
            # What lasted longer than a client tries was there, and had nothing to say.
            was_there = self._run.log.seq != before or loop.time() - begun_at > THERE_S
            if was_there or lost_at is None:
                lost_at, tries = loop.time(), 0
            if error is not None and loop.time() - lost_at > self._relay.lost_after_s:
                raise Fail(f"the agent was away for {self._relay.lost_after_s:g} s")
            away_s = loop.time() - lost_at
            if error is not None and away_s > self._relay.stale_after_s and not self._is_stale:
                self._set_stale()
            tries += 1
            await _pause(tries)

    async def _refused(self, error: A2AError | AgentFault) -> StatusUpdate | None:
        """The agent answers with an error though there is a task: whoever waits for our task gets
        that error, and the task becomes what it is there. Return its question, if it asks one.
        """
        await self._close()
        refusal = passed_on(error, self._remote.task_id, self._run.task_id)
        if isinstance(error, AgentFault | TaskNotFound):
            raise Fail(self._reason(error)) from None
        try:
            task = await (await self._connect()).get(self._remote.task_id)
        except (A2AError, AgentFault) as fault:
            raise Fail(self._reason(fault)) from None
        for event in catch_up(self._seen(), task):
            if isinstance(event, StatusUpdate) and event.status.state in FINAL:
                status = event.status
                self._run.end_turn(status.state, status.message, event.metadata, refusal=refusal)
                return None
            if isinstance(event, StatusUpdate) and event.status.state in INTERRUPTED:
                self._refusal = refusal
                return event
            assert not isinstance(event, Task)  # it is what leads to one
            self._pass(event, "")
        raise Fail(str(refusal))

    def _reason(self, error: A2AError | AgentFault) -> str:
        log_.warning("task %s: its agent: %s", self._run.task_id, error)
        if isinstance(error, TaskNotFound):
            return "the agent no longer knows this task"
        return str(passed_on(error, self._remote.task_id, self._run.task_id))

    async def _read(self) -> StatusUpdate | None:
        """Pass on one stream; return a question. None if the task or the stream has ended."""
        async for event, cursor in self._events():
            is_first = self._run.is_unspoken
            match event:
                case Gap():
                    return None  # what was missed is found by comparing
                case Message():
                    self._say(_status(TaskState.COMPLETED, event), cursor)
                case Task():
                    question = self._take_task(event, cursor)
                    if question is not None:
                        return question
                case StatusUpdate() if event.status.state in INTERRUPTED:
                    if self._was_left(event.status.message):
                        continue
                    return event
                case _:
                    self._pass(event, cursor)
            if self._run.is_over:
                return None
            if is_first:  # whoever waits for this reads along from here, not from the store later
                await asyncio.sleep(0)
            await self._run.drain()
        stream = self._stream
        if stream is not None and stream.task is not None:
            status = stream.task.status
            if status.state in FINAL or status.state in INTERRUPTED:
                update = StatusUpdate(task_id="", context_id="", status=status)
                if status.state in INTERRUPTED:
                    return update
                self._say(update, stream.cursor)
        return None

    async def _events(self) -> AsyncIterator[tuple[Any, str]]:
        """The events of the stream that is open, else those that follow what is in our log."""
        if self._stream is None:
            client = await self._connect()
            self._stream = client.subscribe(
                self._remote.task_id, after=self._cursor, seen=self._seen()
            )
        pending, self._pending = self._pending, None
        if pending is not None:
            yield pending
        stream = self._stream
        async for event in stream:
            yield event, stream.cursor

    def _seen(self) -> Task:
        """Our task as the other agent would know it."""
        if self._run.is_unspoken:
            return Task(
                id=self._remote.task_id,
                context_id=self._remote.context_id,
                status=TaskStatus(state=TaskState.SUBMITTED),
            )
        task = self._ctx.task
        task.id, task.context_id = self._remote.task_id, self._remote.context_id
        if task.history:
            task.history[0].message_id = self._first_id
        return task

    def _take_task(self, task: Task, cursor: str) -> StatusUpdate | None:
        """Pass on what of a task is new. Return its question, if it asks one."""
        is_answering, self._is_answering = self._is_answering, False
        events = list(catch_up(self._seen(), task))
        for i, event in enumerate(events):
            assert not isinstance(event, Task)  # it is what leads to one
            is_last = i == len(events) - 1
            if isinstance(event, StatusUpdate) and event.status.state in INTERRUPTED:
                # The first frame of the answer to a question may still show the question.
                return None if is_answering else event
            if isinstance(event, StatusUpdate) and is_last and task.metadata:
                event.metadata = task.metadata
            self._pass(event, cursor if is_last else "")
        if self._run.is_unspoken:
            self._say(_status(TaskState.SUBMITTED), cursor)
        return None

    def _pass(self, event: StatusUpdate | ArtifactUpdate, cursor: str) -> None:
        if isinstance(event, StatusUpdate):
            is_answering, self._is_answering = self._is_answering, False
            says_nothing = event.status.message is None and not event.metadata
            if is_answering and says_nothing and event.status.state is TaskState.WORKING:
                return  # our task became *working* when it took the answer
        elif event.append and not self._is_known(event.artifact.artifact_id):
            event = msgspec.structs.replace(event, append=False)
        self._say(event, cursor)

    def _is_known(self, artifact_id: str) -> bool:
        artifacts: Iterable[Any] = reversed(self._run.log.draft.artifacts)
        return any(artifact.artifact_id == artifact_id for artifact in artifacts)

    def _set_stale(self) -> None:
        """Tell readers that the task is as it was when the agent was last heard of."""
        if not self._run.is_unspoken:
            update = _status(self._run.log.state)
            update.metadata = {STALE: True}
            self._say(update, "")
            self._is_stale = True

    def _say(self, event: StatusUpdate | ArtifactUpdate, cursor: str) -> None:
        if self._is_stale:
            self._is_stale = False
            if isinstance(event, StatusUpdate):
                event.metadata = {**(event.metadata or {}), STALE: False}
            else:
                back = _status(self._run.log.state)
                back.metadata = {STALE: False}
                self._run.say(back, "")
        self._run.say(event, cursor)
        self._cursor = cursor or self._cursor

    # Questions

    async def _ask(self, question: StatusUpdate, refusal: A2AError | None = None) -> Message | None:
        """Ask our client what the other agent asks; None if it went on without an answer."""
        refusal, self._refusal = refusal or self._refusal, None
        kind = "a" if question.status.state is TaskState.AUTH_REQUIRED else "i"
        self._record(asked=self._remote.asked + kind, question=question)
        return await self._put(kind, question, refusal)

    async def _put(
        self, kind: str, question: StatusUpdate | None, refusal: A2AError | None = None
    ) -> Message | None:
        questions, branch = self._run.questions, self._branch
        word: Any = question.status.message if question is not None else None
        metadata = question.metadata if question is not None else None
        if kind == "i":
            await self._close()
            went_on = MovedOn(self._connect, self._remote.task_id, word)
            answer: Message | None = await questions.ask(
                branch,
                word or "",
                Message,
                "relay",
                metadata=metadata,
                refusal=refusal,
                until=went_on,
            )
            if answer is None:
                self._left = word
            return answer
        until = _Later(self._next_event)
        found = await questions.require_auth(
            branch, word or "", until, metadata=metadata, refusal=refusal
        )
        if isinstance(found, Message):
            return found
        self._is_answering = True  # our log has *working* already
        return None

    def _was_left(self, question: Message | None) -> bool:
        """Return whether this is the question that the agent went on from: its stream may begin
        with it once more.
        """
        left = self._left
        return left is not None and question is not None and left.message_id == question.message_id

    async def _next_event(self) -> None:
        """Wait until the other agent goes on by itself."""
        while True:
            try:
                async for event, cursor in self._events():
                    self._pending = (event, cursor)
                    return
            except (A2AError, AgentFault) as error:
                if not is_interrupted(error):
                    return  # what is wrong is found when it is read again
            await self._close()
            await asyncio.sleep(LONGEST_PAUSE_S)

    async def _answer(self, answer: Message, *, is_new: bool) -> None:
        """Send an answer on. If it is refused, its sender is told why and the question stays."""
        message: Message | None = answer
        while message is not None:
            remote, number = self._remote, self._remote.sent + 1
            await self._close()
            try:
                await self._check(message)
            except A2AError as refusal:
                self._record(sent=number)
                assert remote.question is not None  # it was answered
                message, is_new = await self._ask(remote.question, refusal), True
                continue
            try:
                client = await (self._connect() if is_new else self._connect_patiently())
                if is_new and (since := await self._asked_since(client)) is not None:
                    self._record(sent=number)
                    question = since if since.status.state in INTERRUPTED else None
                    if question is None:
                        return  # it went on: its sender gets what comes next
                    too_late = asked_since(self._run.task_id)
                    message, is_new = await self._ask(question, too_late), True
                    continue
                if not is_new and not client.deduplicates:
                    # Whether it arrived is not known. If it did not, the agent still asks.
                    self._record(sent=number)
                    return
                outgoing = await self._outgoing(message)
                outgoing.message_id = await id_at_agent(self._run, client, message.message_id)
                self._open(client, outgoing, f"relay-{self._run.task_id}-{number}")
                await self._first_event()
            except (A2AError, AgentFault) as error:
                await self._close()
                self._record(sent=number)
                if isinstance(error, ConnectionLost | TooSlow):
                    return
                question = remote.question
                if isinstance(error, UnsupportedOperation | TaskNotFound | InvalidParams):
                    question = await self._refused(error)  # it may have ended there meanwhile
                    if question is None:
                        return
                assert question is not None  # it was answered
                passed = passed_on(error, remote.task_id, self._run.task_id)
                message, is_new = await self._ask(question, passed), True
            else:
                self._record(sent=number)
                self._is_answering = True
                return

    async def _asked_since(self, client: Client) -> StatusUpdate | None:
        """Return the status of the agent's task, if it no longer asks the question that was
        answered: the answer is too late. None if it still asks.
        """
        question = self._remote.question
        if question is None or question.status.state is not TaskState.INPUT_REQUIRED:
            return None
        task = await client.get(self._remote.task_id)
        if task.status.state in FINAL or still_asks(task, question.status.message):
            return None  # a task that has ended refuses the answer itself
        return StatusUpdate(task_id="", context_id="", status=task.status)

    async def _close(self) -> None:
        stream, self._stream = self._stream, None
        self._pending = None
        if stream is not None:
            with contextlib.suppress(A2AError, AgentFault):
                await stream.close()


async def _pause(tries: int) -> None:
    """Wait before the next attempt, longer each time, and never all at once."""
    pause_s = min(FIRST_PAUSE_S * 2 ** min(tries, 10), LONGEST_PAUSE_S)
    await asyncio.sleep(pause_s * (0.5 + random.random() / 2))


class _Later:
    """Something to be awaited that begins only then."""

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._function = function

    def __await__(self) -> Generator[Any, None, None]:
        return self._function().__await__()


def _status(state: TaskState, message: Message | None = None) -> StatusUpdate:
    status = TaskStatus(state=state, message=message)
    return StatusUpdate(task_id="", context_id="", status=status)
