"""Runs: a message becomes a task, a user's function is driven to its end, and everything it says put in the task's log.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import copy
import logging
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from ..auth import Caller
from ..codec import v1
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
from ..store.failpoints import is_armed, point
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
from .step import Step, do_step, value_of
from .threads import Threads

__all__ = ["Accepted", "Run", "Runs"]

log_ = logging.getLogger("accord")

CANCEL_GRACE_S = 3.0
_BREATH = 64  # events between two turns given to the rest of the loop
_LOOKS, _LOOK_S = 50, 0.02  # how often and at what distance a replay looks for what is not in its place

T = TypeVar("T")


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
        self.delegate: Callable[..., Awaitable[Any]] | None = None  # put in by the app, which knows the client

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
    _is_leaving = False
    _answer: asyncio.Future[Message] | None = None
    _last_word: Message | None = None
    _chunks = ""  # the artifact the yields feed, once there is one
    _asked = 0
    _delegated = 0
    _under_way = 0  # steps
    _stepper: asyncio.Task[Any] | None = None  # who called the first step
    _is_parallel = False  # someone else called one too: in the next life steps may come in another order
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
        message: Message | None = None,
        output_modes: Sequence[str] = (),
    ) -> None:
        self._runs = runs
        self.log = log
        self.skill = skill
        self.caller = caller
        self.message = message if message is not None else turn.message
        self.output_modes = output_modes
        self.since_s = time.monotonic()
        self._values = values
        self._past = past
        self._artifacts = len(log.task.artifacts) if past is None else past.artifacts
        self._steps: dict[str, int] = {}
        self._unnoted: dict[tuple[str, int], None] = {}  # steps under way that the log does not know of
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        log.run = self
        log.is_clear = False
        if past is None:
            log.begin(turn)
            log.set_status(TaskState.WORKING)
        if sys.version_info >= (3, 12):
            self.task: asyncio.Task[None] = asyncio.Task(self._drive(), loop=self._loop, eager_start=True)
        else:
            self.task = self._loop.create_task(self._drive())

    # Driving

    async def _drive(self) -> None:
        binding, values = self.skill.binding, self._values
        if binding.context:
            values[binding.context] = Context(self, self.caller, self.log.task.context_id)
        if binding.caller:
            values[binding.caller] = self.caller
        try:
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
        return await self._runs.threads.run(lambda: self.skill.function(**values))

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
                asyncio.run_coroutine_threadsafe(pass_on(item), self._loop).result()

        return await self._runs.threads.run(work)

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

    def act(self, action: Callable[[], None]) -> None:
        """Do something to the log at once, or from another thread as soon as the loop gets to it."""
        if threading.get_ident() == self._thread:
            action()
            return
        self._loop.call_soon_threadsafe(self._act_late, action)
        if self.log.is_far_ahead:
            asyncio.run_coroutine_threadsafe(self.log.room(), self._loop).result()

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
        log_.warning("skill %s: output after the end was dropped", self.skill.id, extra={"task_id": self.log.task.id})

    def _message(self, word: Any) -> Message:
        return said(word, self.log.task.id, self.log.task.context_id)

    async def _breathe(self) -> None:
        self._events += 1
        if self._events % _BREATH == 0:
            await asyncio.sleep(0)
        if self.log.is_far_ahead:
            await self.log.room()

    async def room(self) -> None:
        await self._breathe()

    async def conversation(self, limit: int) -> list[Task]:
        task = self.log.task
        found = await self._runs.feed.context(self.log.scope, task.context_id, limit + 1)
        return [other for other in reversed(found) if other.id != task.id][-limit:]

    async def delegate(self, ctx: Context, agent: Any, message: Any) -> Any:
        if self._runs.delegate is None:
            raise TypeError("ctx.delegate needs an agent that is served: use accord.Agent, and its app() or run()")
        self._delegated += 1
        return await self._runs.delegate(ctx, agent, message, number=self._delegated)

    # Questions

    async def ask(self, question: str | Message, type_: Any) -> Any:
        self._must_be_async("ask")
        if self._answer is not None:
            raise RuntimeError("one question at a time: a message can't say which of two it answers")
        self._asked += 1
        wrong = ""
        while True:
            answer = None
            if self._past is not None:
                answer = await self._answered(self._past)
            if answer is None:
                self._question(f"{wrong}\n{question}" if wrong else question, type_)
                self.log.note(b"q", b"%d" % self._asked)
                answer = await self._next_message()
            self.message = answer
            if type_ is Message:
                return answer
            try:
                return read_answer(answer, type_)
            except InvalidParams as error:
                wrong = f"That does not fit: {error}"

    async def _answered(self, past: Past) -> Message | None:
        """What an earlier life was told at this question."""
        n = self._asked
        return await self._recall(lambda: past.answer(n, self.log.task.history))

    async def step(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Any:
        self._must_be_async("step")
        name = name or getattr(function, "__name__", type(function).__name__)
        n = self._steps[name] = self._steps.get(name, 0) + 1
        task = asyncio.current_task()
        self._stepper = self._stepper or task
        self._is_parallel = self._is_parallel or task is not self._stepper
        past = self._past
        done = await self._recall(lambda: past.step(name, n)) if past is not None else None
        if done is None:
            self._under_way += 1
            try:
                if is_armed:
                    point("step.begun")
                self._unnoted[name, n] = None
                if self._is_parallel:
                    self._note_begun()
                done = await do_step(Step(name, n), function, args, retries, self._runs.threads)
                if is_armed:
                    point("step.done")
                self._unnoted.pop((name, n), None)
                if self._unnoted:
                    self._note_begun()
                self.log.note(b"s", v1.encode(done))
                await self.log.stored()  # in the log before anything is built on it
            finally:
                self._under_way -= 1
                if self._is_leaving and not self._under_way:
                    self.stop()
            if is_armed:
                point("step.stored")
            if self.is_over:
                await asyncio.sleep(0)  # it ends here; the next life goes on from here
        return value_of(done, function)

    def _note_begun(self) -> None:
        """Log the steps under way, at the latest before one of them is logged as done: called first in the next life, they
        are not new. One after the other they always come in their order, and need no line of their own.
        """
        for step in self._unnoted:
            self.log.note(b"s", v1.encode(Step(*step)))
        self._unnoted.clear()

    async def _recall(self, look: Callable[[], T]) -> T:
        """Look something up in the record. If it is new, what runs beside it may only be on its way to what was done before:
        it gets a while, for as long as it gets on.
        """
        assert self._past is not None  # there is a record
        left, looks = self._past.left, 0
        while True:
            try:
                return look()
            except Differs:
                if self._past.left < left:
                    left, looks = self._past.left, 0
                if looks == _LOOKS:
                    raise
                looks += 1
                await asyncio.sleep(_LOOK_S)

    async def require_auth(self, text: str, until: Awaitable[Any] | None) -> Any:
        self._must_be_async("require_auth")
        self._asked += 1
        if self._past is not None and (answer := await self._answered(self._past)) is not None:
            return answer
        self.status(TaskState.AUTH_REQUIRED, text)
        self.log.note(b"q", b"%d" % self._asked)
        message = asyncio.ensure_future(self._next_message())
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

    def _must_be_async(self, verb: str) -> None:
        if threading.get_ident() != self._thread:
            raise TypeError(f"ctx.{verb} waits for the client, which a plain function can't; write async def {self.skill.id}")

    def _question(self, question: str | Message, type_: Any) -> None:
        parts = list(question.parts) if isinstance(question, Message) else [Part(text=question)]
        if type_ is not None and type_ not in (str, Message):
            parts.append(Part(data=Shape(type_).schema(), media_type="application/schema+json"))
        self.status(TaskState.INPUT_REQUIRED, parts)

    async def _next_message(self) -> Message:
        """The oldest message that waits for a turn, or the next to come."""
        if self.log.inbox:
            self._take(self.log.inbox.popleft())
            return self.message
        self._answer = self._loop.create_future()
        self.worked_s += time.monotonic() - self.since_s
        try:
            return await self._answer
        finally:
            self._answer = None
            self.since_s = time.monotonic()

    def deliver(self, turn: Turn) -> None:
        """A message for this run, already logged: taken at once if it is waited for, else it waits for its turn."""
        if self._answer is None or self._answer.done():
            self.log.inbox.append(turn)
            return
        self._take(turn)
        self._answer.set_result(turn.message)

    def _take(self, turn: Turn) -> None:
        self.message = turn.message
        self.log.begin(turn, self._asked)
        self.status(TaskState.WORKING)  # in the commit that stores the message: nobody is shown the old question

    @property
    def is_waiting(self) -> bool:
        """The function waits for the client, and would wait as well after a restart."""
        return self._answer is not None

    # Ending

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
        """Stop the function where its next life can go on: at once, or when the step it is in has been done."""
        self._is_leaving = True
        if not self._under_way:
            self.stop()

    def stop(self) -> None:
        """Stop the function and say nothing: the task stays as last stored."""
        self.is_over = True
        self.task.cancel()

    def interrupt(self, reason: str) -> None:
        """Stop the function and fail its task, for a reason of the server's."""
        self._end(TaskState.FAILED, reason)
        self.task.cancel()


_CALL: dict[str, Callable[[Run, dict[str, Any]], Coroutine[Any, Any, Any]]] = {
    "stream": Run._iterate,
    "thread": Run._await_thread,
    "thread stream": Run._iterate_thread,
}
