"""Runs: a message becomes a task, a user's function is driven to its end, and everything it says put in the task's log.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import contextvars
import copy
import logging
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from ...auth import Caller
from ...codec import v1
from ...model import (
    FINAL,
    A2AError,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
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
from ...store import Keep, Scope, Store
from ..durable.answers import parts_of
from ..durable.parked import RUN, forget, sleep
from ..durable.replay import Differs, Past
from ..durable.step import INSIDE, Step
from ..durable.steps import Steps
from ..log.entry import About
from ..log.feed import Feed
from ..log.log import Log, Turn
from ..skills.agent import Agent
from ..skills.context import Context, Fail, Reject
from ..skills.skill import Skill
from ..skills.values import Ask, Reply, to_parts
from ..threads import Threads
from .questions import Questions
from .say import said

__all__ = ["Accepted", "Delegates", "Run", "Runs"]

log_ = logging.getLogger("accord")

CANCEL_GRACE_S = 3.0
FORGOTTEN = "interrupted: the server stopped, and what it kept was in memory; send the message again, under a new key if it had one"
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
        self.has_parked = False  # some function has been let go, and must not clean up
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
        turn = Turn(message, request.configuration.accepted_output_modes if request.configuration is not None else ())
        Run(self, log, skill, turn, values, caller)
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
        if self.feed.is_draining and run.skill.is_durable and self.lasts:
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
            Run(self, log, skill, turn, values, run.caller, is_next=True)
            return
        self.feed.let_go(log)

    @property
    def lasts(self) -> bool:
        """Whether another process can go on with what this one leaves."""
        return not self.feed.store.is_volatile

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

    __slots__ = (
        "__weakref__",
        "_artifacts",
        "_aside",
        "_chunks",
        "_context",
        "_events",
        "_gate",
        "_last_word",
        "_past",
        "_questions",
        "_runs",
        "_steps",
        "_values",
        "caller",
        "differs",
        "has_begun",
        "is_canceled",
        "is_leaving",
        "is_over",
        "log",
        "loop",
        "message",
        "noted_s",
        "output_modes",
        "since_s",
        "skill",
        "task",
        "thread",
        "worked_s",
    )

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
        is_next: bool = False,
    ) -> None:
        self._runs = runs
        self.log = log
        self.skill = skill
        self.caller = caller
        self.message = turn.message if past is None else past.message
        self.output_modes = turn.output_modes
        self.since_s = time.monotonic()
        self._values = values
        self._past = past
        self._gate = gate
        self._artifacts = len(log.task.artifacts) if past is None else past.artifacts
        self.loop = runs.feed.loop
        self.thread = threading.get_ident()
        self.is_over = self.is_canceled = False
        self.is_leaving = False  # it is to be let go, and begins nothing new
        self.worked_s = 0.0  # in earlier lives, and before the last question; waiting for the client is not work
        self.noted_s = 0.0  # of it the log knows
        self.differs: Differs | None = None  # what was seen on the way through its past, whoever caught it
        self._last_word: Message | None = None
        self._chunks = ""  # the artifact the yields feed, once there is one
        self._steps: Steps | None = None
        self._questions: Questions | None = None
        self._events = 0
        self._aside = 0  # bytes of the log that are no sign of life
        log.run = self
        runs.feed.working.add(self)
        log.is_clear = False
        if past is None:
            log.begin(turn)
            if turn.output_modes:
                log.note(b"o", v1.encode([*turn.output_modes]))
            log.set_status(TaskState.WORKING)
        else:
            self.output_modes, self.worked_s, self.noted_s = past.output_modes, past.worked_s, past.worked_s
        self.task: asyncio.Task[None] | None = None
        self.has_begun = past is not None or not skill.is_durable
        if not self.has_begun:
            self._context = contextvars.copy_context()
        elif sys.version_info >= (3, 12) and not is_next:  # begun within the one before it, each of a long row would be deeper
            asyncio.Task(self._drive(), loop=self.loop, eager_start=True)
        else:
            self.task = self.loop.create_task(self._drive())

    def begin(self) -> None:
        """Start the function of a durable skill, now that its message is stored: what is to be taken up again has to be known
        before it does anything.
        """
        self.has_begun = True
        self.task = self.loop.create_task(self._drive(), context=self._context)

    # Driving

    async def _drive(self) -> None:
        if sys.version_info >= (3, 12):  # begun at once: the function may ask for it before the line that made it is over
            self.task = asyncio.current_task()
        binding, values = self.skill.binding, self._values
        del self._values  # they are the function's
        if binding.context or self.skill.is_durable:  # others are never let go
            RUN.set(weakref.ref(self))  # all it begins from now on is a part of it
        if binding.context:
            values[binding.context] = Context(self, self.caller, self.log.task.context_id)
        if binding.caller:
            values[binding.caller] = self.caller
        try:
            if self._gate is not None:
                await self._gate
                self.since_s = time.monotonic()
            if self._past is not None and self.skill.is_durable:
                await self.log.stored()  # that it is tried again, and how, has to be known before it is
            if self.skill.kind == "coroutine":
                self._finish(await self.skill.function(**values))
            else:
                self._finish(await _CALL[self.skill.kind](self, values))
        except Reject as reason:
            self._end(TaskState.REJECTED, str(reason))
        except Fail as reason:
            self._end(TaskState.FAILED, str(reason))
        except Differs as reason:
            self._differs(reason)
        except InvalidAgentResponse as error:
            log_.error("skill %s: %s", self.skill.id, error, extra={"task_id": self.log.task.id})
            self._end(TaskState.FAILED, str(error))
        except asyncio.CancelledError:
            if self.is_canceled:
                self._end(TaskState.CANCELED)
            elif not self.is_over:
                self._fail(sys.exc_info())
        except (Exception, SystemExit, BaseExceptionGroup):
            self._fail(sys.exc_info())
        finally:
            self._runs.ended(self)
            # What knows the run is let go of, else only the garbage collector finds it: a tenth of a durable skill's time.
            self._questions = None
            if self._steps is not None and (not self._steps.is_parallel or self._steps.are_over):  # else there may be more of them
                self._steps = None

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
                await self.begin_nothing()
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
                self._stay()
                asyncio.run_coroutine_threadsafe(pass_on(item), self.loop).result()

        return await self._runs.threads.run(work, self.skill.id)

    def _finish(self, value: Any) -> None:
        """The function has returned: say so."""
        if self._past is not None:
            if self.differs is not None:
                raise self.differs
            self._past.end()
        if isinstance(value, Ask):
            self.status(TaskState.INPUT_REQUIRED, parts_of(value.question, value.type))
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
        if self.differs is not None:
            self._differs(self.differs)
            return
        reference = secrets.token_hex(4)
        log_.error("skill %s failed, reference %s", self.skill.id, reference, exc_info=error, extra={"task_id": self.log.task.id})
        self._end(TaskState.FAILED, f"The agent failed. Reference: {reference}")

    def _differs(self, reason: Differs) -> None:
        log_.error("skill %s: %s", self.skill.id, reason, extra={"task_id": self.log.task.id})
        self._end(TaskState.FAILED, f"interrupted, and can't be taken up again: {reason}")

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
        self._stay()
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
        if (inside := INSIDE.get()) is not None and inside[0] is self:
            inside[1].words += 1
        if self._past is not None and self._past.told.word(text):
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
        is_whole, is_new = isinstance(value, Artifact), not artifact.artifact_id
        if is_new:
            self._artifacts += 1  # counted, not random: the same function gives the same ids again
            artifact.artifact_id = f"artifact-{self._artifacts}"
            if self._past is not None:
                artifact.artifact_id, self._artifacts = self._past.told.name(artifact, self._artifacts, is_whole=is_whole)
        if not is_whole:
            self._chunks = artifact.artifact_id
        if not artifact.parts:
            raise InvalidAgentResponse(f"artifact {artifact.artifact_id!r} has no parts")
        if (inside := INSIDE.get()) is not None and inside[0] is self:
            inside[1].says(artifact.artifact_id, is_new=is_new, is_chunk=not is_whole)
        if self._past is not None:
            new = self._past.told.say(artifact, append=append, is_whole=is_whole)
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

    def skip(self, step: Step) -> None:
        """A step of an earlier life is not done again: what it said counts as said."""
        self._artifacts += step.made
        self._chunks = step.text or self._chunks

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

    @property
    def history(self) -> list[Message]:
        """What has been said in this task; as long as earlier lives are gone through, what had been said by then."""
        return self.log.task.history[: self._past.heard if self._past is not None else None]

    @property
    def feed(self) -> Feed:
        return self._runs.feed

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

    @property
    def questions(self) -> Questions:
        if self._questions is None:
            self._questions = Questions(self, self._past)
        return self._questions

    @property
    def is_waiting(self) -> bool:
        """The function waits for the client, and would wait as well after a restart."""
        return self._questions is not None and self._questions.is_waiting

    def deliver(self, turn: Turn) -> None:
        """A message for this run, already logged: taken at once if it is waited for, else it waits for its turn."""
        if self._questions is None or not self._questions.deliver(turn):
            self.log.inbox.append(turn)

    def worked(self) -> float:
        """How many seconds the function has worked, in all its lives."""
        return self.worked_s + (0.0 if self.is_waiting else time.monotonic() - self.since_s)

    def note_work(self) -> None:
        """Have the next life know how long this one has worked."""
        self.noted_s = self.worked()
        self.note_aside(b"k", b"%.1f" % self.noted_s)

    def rest(self) -> None:
        """The function waits for the client: that is no work, and holds up no stop."""
        self.worked_s += time.monotonic() - self.since_s
        feed = self._runs.feed
        feed.working.discard(self)
        if feed.is_draining:  # nobody can answer here any more
            self.release() if self._runs.lasts else self.interrupt(FORGOTTEN)

    def go_on(self) -> None:
        self.since_s = time.monotonic()
        if self.log.run is self:
            self._runs.feed.working.add(self)

    # Ending

    @property
    def is_held(self) -> bool:
        """It is to be tried with care, and its time has not come yet."""
        return self._gate is not None and not self._gate.done() and not self.is_over

    def open_gate(self, how: bytes) -> None:
        """Have the function go on, noting how it is tried."""
        assert self._gate is not None  # it is held
        self.note_aside(b"r", how)
        self._gate.set_result(None)

    def note_aside(self, kind: bytes, data: bytes) -> None:
        """Add a private line that is no sign of life."""
        size = self.log.size
        self.log.note(kind, data)
        self.put_aside(size)

    def put_aside(self, size: int) -> None:
        """What the log got since it was of this size is no sign of life."""
        self._aside += self.log.size - size

    @property
    def got_on(self) -> int:
        """Grows with everything the function says, asks or has done."""
        return self.log.size - self._aside

    async def cancel(self) -> None:
        """Stop the function, giving it a moment to clean up; the task is terminal afterwards."""
        self.is_canceled = True
        self._halt()
        try:
            if self.task is not None:
                await asyncio.wait({self.task}, timeout=CANCEL_GRACE_S)
        finally:  # also if whoever asked for it has gone meanwhile
            self._end(TaskState.CANCELED)  # it did not stop in time: it is no longer listened to
            if self.task is None or self.task.done():
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
        self.is_over = self.is_leaving = self._runs.has_parked = True
        if self.task is not None:
            forget(self.task)
        self._runs.ended(self)
        self.log.wake()  # who reads along has nothing more to expect here

    def stop(self) -> None:
        """Cancel the function and say nothing: the task stays as last stored."""
        self.is_over = True
        self._halt()

    def lose(self) -> None:
        """What it did can't be stored. Durable work is gone on with from what is, as after a crash; other work is over."""
        if self.skill.is_durable:
            self.park()
        else:
            self.stop()

    @property
    def is_let_go(self) -> bool:
        """It is over here, but not its task: another life goes on."""
        return self.is_over and self.log.task.status.state not in FINAL

    @property
    def is_parked(self) -> bool:
        """It never goes on here, and nothing of it cleans up."""
        return self.is_leaving and self.is_let_go

    async def begin_nothing(self) -> None:
        """Here this life ends, if another goes on: for ever, or, where someone cancels it, with that."""
        if self.is_parked:
            await sleep()
        if not (self.is_leaving or self.is_let_go):
            return  # its task has ended: it may clean up
        task = asyncio.current_task(self.loop)
        if self.is_leaving and task is not None and not task.cancelling():
            await self.loop.create_future()
        raise asyncio.CancelledError

    def _stay(self) -> None:
        """In a thread: here this life ends, if another goes on. The loop may be gone already."""
        if self.is_parked:
            threading.Event().wait()

    def interrupt(self, reason: str) -> None:
        """Stop the function and fail its task, for a reason of the server's."""
        self._end(TaskState.FAILED, reason)
        self._halt()

    def _halt(self) -> None:
        """Cancel the function. One that has not begun never does."""
        if self.task is not None:
            self.task.cancel()
        elif self.is_over:
            self._runs.ended(self)


_CALL: dict[str, Callable[[Run, dict[str, Any]], Coroutine[Any, Any, Any]]] = {
    "stream": Run._iterate,
    "thread": Run._await_thread,
    "thread stream": Run._iterate_thread,
}
