"""Runs: a message becomes a task, a user's function is driven to its end, and everything it says put in the task's log.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import contextlib
import copy
import logging
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ..auth import Caller
from ..model import (
    FINAL,
    A2AError,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
    InvalidParams,
    Limits,
    Message,
    Metadata,
    Part,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
    UnsupportedOperation,
    moment,
    new_id,
)
from ..store import Keep, Scope, Store
from .agent import Agent
from .context import Context, Fail, Reject
from .entry import About
from .feed import Feed
from .log import Log, Turn
from .parts import Ask, Reply, to_parts
from .replay import Differs, Past
from .say import read_answer, said
from .shape import Shape
from .skill import Skill
from .steps import Steps
from .threads import Threads

__all__ = ["Accepted", "Delegates", "Run", "Runs"]

log_ = logging.getLogger("accord")

CANCEL_GRACE_S = 3.0
_BREATH = 64  # events between two turns given to the rest of the loop


class Delegates(Protocol):
    """Has other agents do things; what they answered can be noted, and read again in a later life."""

    async def ask(self, run: "Run", agent: Any, message: Any, key: str) -> Any: ...

    def reply(self, agent: Any, answered: Any) -> Any: ...


class Accepted(NamedTuple):
    """A message that has its place in a task."""

    log: Log
    turn: Turn
    is_new: bool


class Runs:
    """Starts the runs of an agent, and holds what they share."""

    def __init__(self, agent: Agent, store: Store, limits: Limits) -> None:
        self.agent = agent
        self.limits = limits
        self.feed = Feed(store, limits)
        self.threads = Threads()
        self._next_end: asyncio.Future[None] | None = None
        self.delegates: Callable[[], Delegates] | None = None  # put in by the app, which knows the client

    def start(
        self,
        skill: Skill,
        request: SendMessageRequest,
        scope: Scope,
        caller: Caller,
        *,
        keep: Keep | None = None,
        origin: str = "",
        task_id: str = "",
    ) -> Accepted:
        """Make a task of a message and start its run. `task_id`, if given, is one no task has."""
        message = request.message
        values = skill.binding.values(message)
        message.task_id = task_id or new_id()
        message.context_id = message.context_id or new_id()
        at_ms, now = moment()
        status = TaskStatus(state=TaskState.SUBMITTED, timestamp=now)
        task = Task(id=message.task_id, context_id=message.context_id, status=status, history=[message])
        log = self.feed.create(scope, task, About(skill.id, origin), at_ms)
        if keep is not None:
            keep.task_id, keep.reply = task.id, message.message_id.encode()
            self.feed.keep(keep)
        turn = Turn(message)
        modes = request.configuration.accepted_output_modes if request.configuration is not None else ()
        Run(self, log, skill, turn, values, caller, output_modes=modes)
        return Accepted(log, turn, True)

    def ended(self, run: "Run") -> None:
        """A run is over. If its task is open and messages wait, the oldest starts the next run."""
        log = run.log
        run.is_over = True
        if log.run is not run:
            return  # it has been told before
        log.run = None
        self.feed.working.discard(run)
        if self._next_end is not None and not self._next_end.done():
            self._next_end.set_result(None)
        if self.feed.is_closing:
            return  # nothing can be stored any more
        if self.feed.is_draining and run.skill.is_durable:
            return  # what waits is in the log, for the next life
        while log.inbox and log.task.status.state not in FINAL and not log.is_dead:
            turn = log.inbox.popleft()
            try:
                skill = self.skill_of(log)
                values = skill.binding.values(turn.message)
            except A2AError as error:
                turn.last = log.seq
                turn.refuse(error)
                continue
            Run(self, log, skill, turn, values, run.caller)
            return
        self.feed.let_go(log)

    def next_end(self) -> asyncio.Future[None]:
        """Done when a run is over, and what waited for it has begun."""
        self._next_end = self.feed.loop.create_future()
        return self._next_end

    def skill_of(self, log: Log) -> Skill:
        """Return the skill a task was begun by."""
        skill = self.agent.skills.get(log.about.skill)
        if skill is None:
            raise UnsupportedOperation(
                f"task {log.task.id} was begun by skill {log.about.skill!r}, which this agent no longer has", taskId=log.task.id
            )
        return skill


class Run:
    """One call of a skill's function for a task, until it returns, fails or is cancelled."""

    # Where most runs never get: kept on the class until one does.
    is_over = False
    worked_s = 0.0  # before the last question; waiting for the client is not work
    _is_canceled = False
    is_leaving = False  # it is to be let go, and begins nothing new
    _answer: asyncio.Future[Message] | None = None
    _last_word: Message | None = None
    _chunks = ""  # the artifact the yields feed, once there is one
    _asked = 0
    _place = 0  # the question it is in
    _steps: Steps | None = None
    _events = 0

    def __init__(
        self,
        runs: Runs,
        log: Log,
        skill: Skill,
        turn: Turn,
        values: dict[str, Any],
        caller: Caller,
        *,
        past: Past | None = None,
        gate: asyncio.Future[None] | None = None,
        output_modes: Sequence[str] = (),
    ) -> None:
        self._runs = runs
        self.log = log
        self.skill = skill
        self.caller = caller
        self.message = turn.message if past is None else past.message
        self.output_modes = output_modes
        self.since_s = time.monotonic()
        self._values = values
        self._past = past
        self._gate = gate
        self._artifacts = len(log.task.artifacts) if past is None else past.artifacts
        self.loop = runs.feed.loop
        self.thread = threading.get_ident()
        log.run = self
        runs.feed.working.add(self)
        log.is_clear = False
        if past is None:
            log.begin(turn)
            log.set_status(TaskState.WORKING)
        if sys.version_info >= (3, 12):
            self.task: asyncio.Task[None] = asyncio.Task(self._drive(), loop=self.loop, eager_start=True)
        else:
            self.task = self.loop.create_task(self._drive())

    # Driving

    async def _drive(self) -> None:
        binding, values = self.skill.binding, self._values
        if binding.context:
            values[binding.context] = Context(self, self.caller, self.log.task.context_id)
        if binding.caller:
            values[binding.caller] = self.caller
        try:
            if self._gate is not None:
                await self._gate
                self.log.note(b"r")
            if self.skill.is_durable:
                await self.log.stored()  # a run that is to be taken up again has to be known before it does anything
            if self.skill.kind == "coroutine":
                self._finish(await self.skill.function(**values))
            else:
                self._finish(await _CALL[self.skill.kind](self, values))
        except Reject as reason:
            self._end(TaskState.REJECTED, str(reason))
        except Fail as reason:
            self._end(TaskState.FAILED, str(reason))
        except Differs as reason:
            log_.error("skill %s: %s", self.skill.id, reason, extra={"task_id": self.log.task.id})
            self._end(TaskState.FAILED, f"interrupted, and can't be taken up again: {reason}")
        except InvalidAgentResponse as error:
            log_.error("skill %s: %s", self.skill.id, error, extra={"task_id": self.log.task.id})
            self._end(TaskState.FAILED, str(error))
        except asyncio.CancelledError:
            if self._is_canceled:
                self._end(TaskState.CANCELED)
            elif not self.is_over:
                self._fail(sys.exc_info())
        except (Exception, SystemExit):
            self._fail(sys.exc_info())
        finally:
            self._runs.ended(self)

    async def _iterate(self, values: dict[str, Any]) -> Any:
        stream = self.skill.function(**values)
        try:
            async for item in stream:
                if isinstance(item, Ask):
                    return item
                self.emit(item)
                await self._breathe()
        finally:
            await stream.aclose()
        return self._last_word

    async def _await_thread(self, values: dict[str, Any]) -> Any:
        return await self._runs.threads.run(lambda: self.skill.function(**values), self.skill.id)

    async def _iterate_thread(self, values: dict[str, Any]) -> Any:
        async def pass_on(item: Any) -> None:
            if self.is_over:
                raise Fail("cancelled")  # ends the thread, which can't be stopped from outside
            self.emit(item)
            await self._breathe()

        def work() -> Any:
            stream = self.skill.function(**values)
            while True:
                try:
                    item = next(stream)
                except StopIteration as end:
                    return end.value if end.value is not None else self._last_word
                if isinstance(item, Ask):
                    return item
                asyncio.run_coroutine_threadsafe(pass_on(item), self.loop).result()

        return await self._runs.threads.run(work, self.skill.id)

    def _finish(self, value: Any) -> None:
        """The function has returned: say so."""
        if self._past is not None:
            self._past.end()
        if isinstance(value, Ask):
            self._question(value.question, value.type)
            self.log.is_clear = True
            return
        word = self._last_word
        if isinstance(value, (Reply, Message)):
            word = self._message(value)
        elif value is not None:
            self.emit(value, is_last=True)
        if not self.is_over:
            self.status(TaskState.COMPLETED, word)

    def _fail(self, error: Any) -> None:
        """The function has raised: the client gets a number to quote, the log the rest."""
        reference = secrets.token_hex(4)
        log_.error("skill %s failed, reference %s", self.skill.id, reference, exc_info=error, extra={"task_id": self.log.task.id})
        self._end(TaskState.FAILED, f"The agent failed. Reference: {reference}")

    def _end(self, state: TaskState, word: Any = None) -> None:
        if not self.is_over:
            self.status(state, word)

    # What the function says

    @property
    def is_here(self) -> bool:
        """Whether this is the thread of the loop, and not one in which a plain function runs."""
        return threading.get_ident() == self.thread

    def act(self, action: Callable[[], None]) -> None:
        """Do something to the log at once, or from another thread as soon as the loop gets to it."""
        if self.is_here:
            action()
            return
        self.loop.call_soon_threadsafe(self._act_late, action)
        if self.log.is_far_ahead:
            asyncio.run_coroutine_threadsafe(self.log.room(), self.loop).result()

    def _act_late(self, action: Callable[[], None]) -> None:
        try:
            action()
        except InvalidAgentResponse as error:
            log_.warning("skill %s: %s", self.skill.id, error, extra={"task_id": self.log.task.id})

    def status(self, state: TaskState, word: Any = None, metadata: Metadata | None = None) -> None:
        if self.is_over or self.log.task.status.state in FINAL:
            self._drop()
        else:
            self.log.set_status(state, None if word is None else self._message(word), metadata)
            self.is_over = state in FINAL

    def progress(self, text: str, metadata: Metadata | None) -> None:
        if self._past is not None and self._past.word(text):
            return
        self.status(TaskState.WORKING, text, metadata)

    def emit(self, value: Any, *, is_last: bool = False) -> None:
        """Add what was yielded or returned: an Artifact is its own, anything else is a chunk of the run's one."""
        append = False
        if isinstance(value, Artifact):
            artifact, is_last = copy.copy(value), True
        elif isinstance(value, (Reply, Message)):
            self._last_word = self._message(value)
            return
        else:
            append = bool(self._chunks)
            parts = [Part(text=value)] if isinstance(value, str) else to_parts(value)
            artifact = Artifact(artifact_id=self._chunks, parts=parts)
        task = self.log.task
        if self.is_over or task.status.state in FINAL:
            self._drop()
            return
        if not artifact.artifact_id:
            self._artifacts += 1  # counted, not random: the same function gives the same ids again
            artifact.artifact_id = f"artifact-{self._artifacts}"
        if not isinstance(value, Artifact):
            self._chunks = artifact.artifact_id
        if not artifact.parts:
            raise InvalidAgentResponse(f"artifact {artifact.artifact_id!r} has no parts")
        if self._past is not None:
            new = self._past.chunk(artifact, append=append, is_last=is_last)
            if new is None:
                return
            artifact, append = new
        self.log.append(
            ArtifactUpdate(task_id=task.id, context_id=task.context_id, artifact=artifact, append=append, last_chunk=is_last),
            is_ours=isinstance(value, str),
        )

    def add_artifact(
        self, content: tuple[Any, ...], *, name: str, description: str, artifact_id: str, metadata: Metadata | None
    ) -> None:
        parts = [part for value in content for part in to_parts(value)]
        self.emit(Artifact(artifact_id=artifact_id, parts=parts, name=name, description=description, metadata=metadata))

    def _drop(self) -> None:
        """After the end nothing is heard: a cancelled thread may go on talking for a while."""
        if self.is_leaving:
            return  # its next life says it
        log_.warning("skill %s: output after the end was dropped", self.skill.id, extra={"task_id": self.log.task.id})

    def _message(self, word: Any) -> Message:
        return said(word, self.log.task.id, self.log.task.context_id)

    async def _breathe(self) -> None:
        self._events += 1
        if self._events % _BREATH == 0:
            await asyncio.sleep(0)
        if self.log.is_far_ahead:
            await self.log.room()
        if self.is_leaving and self.is_over:
            await self.begin_nothing()

    async def room(self) -> None:
        await self._breathe()

    async def conversation(self, limit: int) -> list[Task]:
        task = self.log.task
        found = await self._runs.feed.context(self.log.scope, task.context_id, limit + 1)
        return [other for other in reversed(found) if other.id != task.id][-limit:]

    # What is done once

    @property
    def steps(self) -> Steps:
        if self._steps is None:
            self._steps = Steps(self, self._past)
        return self._steps

    @property
    def threads(self) -> Threads:
        return self._runs.threads

    @property
    def delegates(self) -> Delegates:
        if self._runs.delegates is None:
            raise TypeError("ctx.delegate needs an agent that is served: use accord.Agent, and its app() or run()")
        return self._runs.delegates()

    # Questions

    async def ask(self, question: str | Message, type_: Any, place: int = 0) -> Any:
        """Ask the client. Questions are known by their number, or by a `place` of their own."""
        with self._asking(place) as place:
            wrong = ""
            while True:
                answer = await self._answered(place)
                if answer is None:
                    self._question(f"{wrong}\n{question}" if wrong else question, type_)
                    self.log.note(b"q", b"%d" % place)
                    answer = await self._next_message(place)
                self.message = answer
                if type_ is Message:
                    return answer
                try:
                    return read_answer(answer, type_)
                except InvalidParams as error:
                    wrong = f"That does not fit: {error}"

    async def require_auth(self, text: str, until: Awaitable[Any] | None, place: int = 0) -> Any:
        with self._asking(place) as place:
            answer = await self._answered(place)
            if answer is not None:
                return answer
            if self._past is None or self._past.asked != place:  # else it has been said, and nothing has come of it yet
                self.status(TaskState.AUTH_REQUIRED, text)
                self.log.note(b"q", b"%d" % place if until is None else b"%d+" % place)
            message = asyncio.ensure_future(self._next_message(place))
            if until is None:
                return await message
            granted = asyncio.ensure_future(until)
            try:
                await asyncio.wait({message, granted}, return_when=asyncio.FIRST_COMPLETED)
                if message.done():
                    return message.result()
                self._answer = None
                self.status(TaskState.WORKING)
                return granted.result()
            finally:
                message.cancel()
                granted.cancel()

    @contextlib.contextmanager
    def _asking(self, place: int) -> Iterator[int]:
        if self._place:
            raise RuntimeError("one question at a time: a message can't say which of two it answers")
        if not place:
            self._asked += 1
        self._place = place or self._asked
        try:
            yield self._place
        finally:
            self._place = 0

    async def _answered(self, place: int) -> Message | None:
        """What an earlier life was told at this question."""
        past = self._past
        if past is None:
            return None
        answer = await self.steps.recall(past, lambda: past.answer(place))
        if answer is None and past.is_unanswered(place):
            await self.loop.create_future()  # the function stopped waiting then, and will again
        return answer

    def _question(self, question: str | Message, type_: Any) -> None:
        parts = list(question.parts) if isinstance(question, Message) else [Part(text=question)]
        if type_ is not None and type_ not in (str, Message):
            parts.append(Part(data=Shape(type_).schema(), media_type="application/schema+json"))
        self.status(TaskState.INPUT_REQUIRED, parts)

    async def _next_message(self, place: int) -> Message:
        """The oldest message that waits for a turn, or the next to come."""
        if self.log.inbox:
            self._take(self.log.inbox.popleft())
            return self.message
        self._answer = self.loop.create_future()
        self.worked_s += time.monotonic() - self.since_s
        feed = self._runs.feed
        feed.working.discard(self)
        if feed.is_draining:
            self.release()  # nobody can answer here any more
        try:
            return await self._answer
        except asyncio.CancelledError:
            if not (self.is_over or self._is_canceled):
                self.log.note(b"u", b"%d" % place)  # the function has stopped waiting
                self.status(TaskState.WORKING)
            raise
        finally:
            self._answer = None
            self.since_s = time.monotonic()
            if self.log.run is self:
                feed.working.add(self)

    def deliver(self, turn: Turn) -> None:
        """A message for this run, already logged: taken at once if it is waited for, else it waits for its turn."""
        if self._answer is None or self._answer.done():
            self.log.inbox.append(turn)
            return
        self._take(turn)
        self._answer.set_result(turn.message)

    def _take(self, turn: Turn) -> None:
        self.message = turn.message
        self.log.begin(turn, self._place)
        self.status(TaskState.WORKING)  # in the commit that stores the message: nobody is shown the old question

    @property
    def is_waiting(self) -> bool:
        """The function waits for the client, and would wait as well after a restart."""
        return self._answer is not None

    # Ending

    def open_gate(self) -> None:
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(None)

    async def cancel(self) -> None:
        """Stop the function, giving it a moment to clean up; the task is terminal afterwards."""
        self._is_canceled = True
        self.task.cancel()
        try:
            await asyncio.wait({self.task}, timeout=CANCEL_GRACE_S)
        finally:  # also if whoever asked for it has gone meanwhile
            self._end(TaskState.CANCELED)  # it did not stop in time: it is no longer listened to
            if self.task.done():
                self._runs.ended(self)  # cancelled before its first step, it has not said so itself

    def release(self) -> None:
        """Leave the function where its next life can go on: at once, or when the steps it is in have been done."""
        self.is_leaving = True
        self.step_ended()

    def step_ended(self) -> None:
        if self.is_leaving and not (self._steps is not None and self._steps.under_way):
            self.park()

    def park(self) -> None:
        """Never go on with the function, and don't cancel it: as far as it can tell, its process has died. Whatever it does to
        clean up would be done to work that goes on.
        """
        if self.is_over:
            return
        self.is_over = self.is_leaving = True
        _forget(self.task)
        self._runs.ended(self)
        self.log.wake()  # who reads along has nothing more to expect here

    def stop(self) -> None:
        """Cancel the function and say nothing: the task stays as last stored."""
        self.is_over = True
        self.task.cancel()

    @property
    def is_let_go(self) -> bool:
        """It is over here, but not its task: another life goes on."""
        return self.is_over and self.log.task.status.state not in FINAL

    async def begin_nothing(self) -> None:
        """Here this life ends, if another goes on: for ever, or, where someone cancels it, with that."""
        if not (self.is_leaving or self.is_let_go):
            return  # its task has ended: it may clean up
        task = asyncio.current_task(self.loop)
        if self.is_leaving and task is not None and not task.cancelling():
            await self.loop.create_future()
        raise asyncio.CancelledError

    def interrupt(self, reason: str) -> None:
        """Stop the function and fail its task, for a reason of the server's."""
        self._end(TaskState.FAILED, reason)
        self.task.cancel()


def _forget(task: asyncio.Task[Any]) -> None:
    """Have nobody cancel or clean up a task, at the end of the loop or of the process: its function would run its `finally`."""
    import ctypes  # slow to import, and needed at the very end

    asyncio.tasks._unregister_task(task)
    if hasattr(ctypes, "pythonapi"):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


_CALL: dict[str, Callable[[Run, dict[str, Any]], Coroutine[Any, Any, Any]]] = {
    "stream": Run._iterate,
    "thread": Run._await_thread,
    "thread stream": Run._iterate_thread,
}
