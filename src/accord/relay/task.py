"""One task that is relayed: begun at the other agent, followed event by event, its questions passed
on and answered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from ..client import (
    AgentFault,
    Client,
    ConnectionLost,
    Gap,
    MovedOn,
    TooSlow,
    catch_up,
    is_interrupted,
    still_asks,
)
from ..engine.log import asked_since, closed
from ..engine.runs import Run
from ..engine.skills import Context, Fail
from ..model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    InvalidParams,
    Message,
    StatusUpdate,
    Task,
    TaskNotFound,
    TaskState,
    UnsupportedOperation,
    naming,
    question_named,
)
from .errors import passed_on
from .link import LONGEST_PAUSE_S, AgentLink, pause
from .message_ids import id_at_agent
from .output import RelayedOutput, status_of
from .remote import Remote

if TYPE_CHECKING:
    from .relay import Relay

__all__ = ["RelayedTask"]

log_ = logging.getLogger("accord")

THERE_S = 90.0  # longer than a client tries by itself: a stream that lasted so long was connected


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
        self._link = AgentLink(relay, run, ctx, member=member, on_silence=self._accept)
        self._output = RelayedOutput(run, ctx, self._link)
        self._refusal: A2AError | None = None  # for who sent the last answer
        self._left: Message | None = None  # a question that the agent went on from by itself

    # The way of a task

    async def follow(self) -> None:
        try:
            answers = self._recorded_answers()
            if self._run.history is None and self._link.remote.task_id:
                await self._reopen()
            elif not self._link.remote.task_id and not await self._begin():
                return
            async for answer, is_new in answers:
                await self._answer(answer, is_new=is_new)
            while (question := await self._until_question()) is not None:
                found = await self._ask(question)
                if found is not None:
                    await self._answer(found, is_new=True)
        finally:
            await self._link.close()

    async def _recorded_answers(self) -> AsyncIterator[tuple[Message, bool]]:
        """Go through the questions that were passed on before; the last may still be open. What
        was answered then may not have arrived.
        """
        remote = self._link.remote
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

    def _accept(self) -> None:
        """The agent has not answered for a while: there is a task now."""
        self._output.say(status_of(TaskState.SUBMITTED), "")

    async def _check(self, message: Message) -> None:
        """Raise what the sender of a later message gets if it is not to be sent on."""
        if self._relay.check is not None:
            await self._relay.check(self._link.context(), message, self._message)

    # Sending

    async def _begin(self) -> bool:
        """Send the first message. Return whether there is a task to be followed."""
        run = self._run
        is_again = bool(self._link.remote.key)  # recorded before it was sent
        client = await (self._link.connect_patiently() if is_again else self._link.connect())
        if is_again and not client.deduplicates and not client.connection.names_tasks:
            raise Fail(
                "the connection to the agent was lost before it answered; whether it has begun is "
                "not known: send the message again if that does no harm"
            )
        if not self._link.remote.key:
            message_id = self._message.message_id
            if client.connection.names_tasks:
                message_id = run.task_id  # it becomes the id of the task there
            else:
                message_id = await id_at_agent(run, client, message_id)
            self._link.record(
                key=self._link.new_key(),
                message_id=message_id,
                context_id=await self._link.context_id(),
            )
        message = await self._link.outgoing(self._message)
        message.message_id = self._link.first_id
        message.context_id = self._link.remote.context_id
        first = await self._first_answer(client, message)
        if isinstance(first, Message):
            run.output.say(first, "")
            return False
        assert self._link.stream is not None  # it gave the event
        self._link.learn(self._link.stream)
        return True

    async def _first_answer(self, client: Client, message: Message) -> Any:
        """Send the first message, and return the first event. Once there is a task nobody waits:
        an agent that recognises the message gets it again when it is back.
        """
        loop = asyncio.get_running_loop()
        since, tries = loop.time(), 0
        while True:
            self._link.open(client, message, self._link.remote.key)
            try:
                return await self._link.first_event()
            except (A2AError, AgentFault) as error:
                await self._link.close()
                passed = passed_on(error, "", "")
                if self._run.is_pending:
                    raise passed from None
                is_late = loop.time() - since > self._relay.lost_after_s
                if is_late or not is_interrupted(error) or not client.deduplicates:
                    raise Fail(str(passed)) from None
            tries += 1
            await pause(tries)

    async def _reopen(self) -> None:
        """A message has begun an ended task anew, as old versions allow: so it does with the other
        agent; where it can't, it is a new task of that conversation.
        """
        await self._check(self._message)
        run = self._run
        key = f"relay-{run.task_id}-turn-{run.turn}"
        self._link.remote = Remote(
            task_id=self._link.remote.task_id,
            context_id=self._link.remote.context_id,
            member=self._link.remote.member,
        )
        self._link.record(key=key)
        client = await self._link.connect()
        message = await self._link.outgoing(self._message)
        message.message_id = await id_at_agent(run, client, message.message_id)
        self._link.open(client, message, key)
        try:
            await self._link.first_event()
        except (UnsupportedOperation, TaskNotFound, InvalidParams):
            await self._link.close()
            message.task_id = ""
            self._link.open(client, message, f"{key}-new")
            try:
                await self._link.first_event()
            except (A2AError, AgentFault) as error:
                raise Fail(self._link.reason(error)) from None
        except (A2AError, AgentFault) as error:
            raise Fail(self._link.reason(error)) from None
        assert self._link.stream is not None  # it gave the first event
        if self._link.stream.task is not None:
            self._link.learn(self._link.stream)

    # Following

    async def _until_question(self) -> StatusUpdate | None:
        """Pass on what happens until the agent asks something; None if the task has ended."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        tries = 0
        while not self._run.is_over:  # the refusal of an answer may show that it has ended
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
            await self._link.close()
            # What lasted longer than a client tries was there, and had nothing to say.
            was_there = self._run.log.seq != before or loop.time() - begun_at > THERE_S
            if was_there or lost_at is None:
                lost_at, tries = loop.time(), 0
            if error is not None and loop.time() - lost_at > self._relay.lost_after_s:
                raise Fail(f"the agent was away for {self._relay.lost_after_s:g} s")
            away_s = loop.time() - lost_at
            if (
                error is not None
                and away_s > self._relay.stale_after_s
                and not self._output.is_stale
            ):
                self._output.set_stale()
            tries += 1
            await pause(tries)
        return None

    async def _refused(self, error: A2AError | AgentFault) -> StatusUpdate | None:
        """The agent answers with an error though there is a task: whoever waits for our task gets
        that error, and the task becomes what it is there. Return its question, if it asks one.
        """
        await self._link.close()
        refusal = passed_on(error, self._link.remote.task_id, self._run.task_id)
        if isinstance(error, AgentFault | TaskNotFound):
            raise Fail(self._link.reason(error)) from None
        try:
            task = await (await self._link.connect()).get(self._link.remote.task_id)
            task = await self._link.brought(task)
        except (A2AError, AgentFault) as fault:
            raise Fail(self._link.reason(fault)) from None
        for event in catch_up(self._output.seen(), task):
            if isinstance(event, StatusUpdate) and event.status.state in FINAL:
                status = event.status
                self._run.output.end_turn(
                    status.state, status.message, event.metadata, refusal=refusal
                )
                return None
            if isinstance(event, StatusUpdate) and event.status.state in INTERRUPTED:
                self._refusal = refusal
                return event
            assert not isinstance(event, Task)  # it is what leads to one
            self._output.pass_on(event, "")
        raise Fail(str(refusal))

    async def _read(self) -> StatusUpdate | None:
        """Pass on one stream; return a question. None if the task or the stream has ended."""
        async for event, cursor in self._events():
            is_first = self._run.is_pending
            match event:
                case Gap():
                    return None  # what was missed is found by comparing
                case Message():
                    self._output.say(status_of(TaskState.COMPLETED, event), cursor)
                case Task():
                    question = self._output.take_task(event, cursor)
                    if question is not None:
                        return question
                case StatusUpdate() if event.status.state in INTERRUPTED:
                    if self._is_closed(event.status.message):
                        continue
                    return event
                case _:
                    self._output.pass_on(event, cursor)
            if self._run.is_over:
                return None
            if is_first:  # whoever waits for this reads along from here, not from the store later
                await asyncio.sleep(0)
            await self._run.output.drain()
        stream = self._link.stream
        if stream is not None and stream.task is not None:
            status = stream.task.status
            if status.state in FINAL or status.state in INTERRUPTED:
                update = StatusUpdate(task_id="", context_id="", status=status)
                if status.state in INTERRUPTED:
                    return update
                self._output.say(update, stream.cursor)
        return None

    def _events(self) -> AsyncIterator[tuple[Any, str]]:
        """The events of the stream that is open, else those that follow what is in our log."""
        return self._link.events(self._output.cursor, self._output.seen)

    # Questions

    async def _ask(self, question: StatusUpdate, refusal: A2AError | None = None) -> Message | None:
        """Ask our client what the other agent asks; None if it went on without an answer."""
        refusal, self._refusal = refusal or self._refusal, None
        kind = "a" if question.status.state is TaskState.AUTH_REQUIRED else "i"
        self._link.record(asked=self._link.remote.asked + kind, question=question)
        return await self._put(kind, question, refusal)

    async def _put(
        self, kind: str, question: StatusUpdate | None, refusal: A2AError | None = None
    ) -> Message | None:
        questions, branch = self._run.questions, self._branch
        word: Any = question.status.message if question is not None else None
        metadata = question.metadata if question is not None else None
        if kind == "i":
            await self._link.close()
            went_on = MovedOn(self._link.connect, self._link.remote.task_id, word)
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
        self._output.is_answering = True  # our log has *working* already
        return None

    def _is_closed(self, question: Message | None) -> bool:
        """Return whether the agent has gone on from this question: it did so by itself, or has
        asked another one since. Its stream may begin with such a question once more.
        """
        if question is None:
            return False
        if self._left is not None and self._left.message_id == question.message_id:
            return True
        newest = _asked_in(self._link.remote.question)
        if newest is None or newest.message_id == question.message_id:
            return False
        return any(
            (said.message_id, said.text) == (question.message_id, question.text)
            for said in self._ctx.task.history
        )

    async def _next_event(self) -> None:
        """Wait until the other agent goes on by itself."""
        while True:
            try:
                async for event, cursor in self._link.events(
                    self._output.cursor, self._output.seen
                ):
                    self._link.pending = (event, cursor)
                    return
            except (A2AError, AgentFault) as error:
                if not is_interrupted(error):
                    return  # what is wrong is found when it is read again
            await self._link.close()
            await asyncio.sleep(LONGEST_PAUSE_S)

    async def _answer(self, answer: Message, *, is_new: bool) -> None:
        """Send an answer on. If it is refused, its sender gets the reason; the question stays."""
        message: Message | None = answer
        while message is not None:
            remote, number = self._link.remote, self._link.remote.sent + 1
            await self._link.close()
            try:
                await self._check(message)
            except A2AError as refusal:
                self._link.record(sent=number)
                assert remote.question is not None  # it was answered
                message, is_new = await self._ask(remote.question, refusal), True
                continue
            try:
                client = await (self._link.connect() if is_new else self._link.connect_patiently())
                if is_new and (since := await self._asked_since(client)) is not None:
                    self._link.record(sent=number)
                    question = since if since.status.state in INTERRUPTED else None
                    if question is None:  # it went on, and never got the answer
                        self._left = _asked_in(remote.question)
                        self._run.refuse_taken(closed(self._run.task_id))
                        return
                    too_late = asked_since(self._run.task_id)
                    message, is_new = await self._ask(question, too_late), True
                    continue
                if not is_new and not client.deduplicates:
                    # Whether it arrived is not known. If it did not, the agent still asks.
                    self._link.record(sent=number)
                    return
                outgoing = await self._link.outgoing(message)
                outgoing.message_id = await id_at_agent(self._run, client, message.message_id)
                outgoing.metadata = naming(_id_of(remote.question), outgoing.metadata)
                self._link.open(client, outgoing, f"relay-{self._run.task_id}-{number}")
                await self._link.first_event()
            except (A2AError, AgentFault) as error:
                await self._link.close()
                self._link.record(sent=number)
                if isinstance(error, ConnectionLost | TooSlow):
                    return
                question = remote.question
                if isinstance(error, UnsupportedOperation) and await self._went_on(client):
                    self._left = _asked_in(question)
                    passed = passed_on(error, remote.task_id, self._run.task_id)
                    self._run.refuse_taken(passed)
                    return
                if isinstance(error, UnsupportedOperation | TaskNotFound | InvalidParams):
                    question = await self._refused(error)  # it may have ended there meanwhile
                    if question is None:
                        return
                assert question is not None  # it was answered
                passed = passed_on(error, remote.task_id, self._run.task_id)
                message, is_new = await self._ask(question, passed), True
            else:
                self._link.record(sent=number)
                self._output.is_answering = True
                return

    async def _went_on(self, client: Client) -> bool:
        """Return whether the agent works on its task, though it has refused the answer: the
        deadline of its question has passed.
        """
        try:
            task = await client.get(self._link.remote.task_id)
        except (A2AError, AgentFault):
            return False
        return task.status.state not in FINAL and task.status.state not in INTERRUPTED

    async def _asked_since(self, client: Client) -> StatusUpdate | None:
        """Return the status of the agent's task, if it no longer asks the question that was
        answered: the answer is too late. None if it still asks.
        """
        question = self._link.remote.question
        if question is None or question.status.state is not TaskState.INPUT_REQUIRED:
            return None
        task = await client.get(self._link.remote.task_id)
        if task.status.state in FINAL or still_asks(task, question.status.message):
            return None  # a task that has ended refuses the answer itself
        update = StatusUpdate(task_id="", context_id="", status=task.status)
        since: StatusUpdate = await self._link.brought(update)
        return since


def _asked_in(question: StatusUpdate | None) -> Message | None:
    """The message of a question of the other agent."""
    return question.status.message if question is not None else None


def _id_of(question: StatusUpdate | None) -> str:
    """The id of a question of the other agent; empty if it gives none."""
    asked = _asked_in(question)
    return question_named(asked) if asked is not None else ""


class _Later:
    """Something to be awaited that begins only then."""

    def __init__(self, function: Callable[[], Awaitable[None]]) -> None:
        self._function = function

    def __await__(self) -> Generator[Any, None, None]:
        return self._function().__await__()
