"""Runs: a user's function driven to its end, everything it says put in the task's log.

One asyncio task per run, no queue. Nothing else writes the log of a task while its run lives.
"""

import asyncio
import logging
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ..auth import Caller
from ..codec import v1
from ..model import (
    FINAL,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
    InvalidParams,
    Message,
    Metadata,
    Part,
    Task,
    TaskState,
)
from ..store.failpoints import point
from .context import Context, Fail, Reject
from .log import Log, Turn
from .parts import Ask, Reply, to_parts
from .replay import Differs, Past
from .say import read_answer, said, set_status
from .shape import Shape
from .skill import Skill
from .step import Step, do_step, value_of
from .threads import Threads

__all__ = ["Run"]

log_ = logging.getLogger("accord")

CANCEL_GRACE_S = 3.0
_BREATH = 64  # events between two turns given to the rest of the loop


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
    _events = 0

    def __init__(
        self,
        log: Log,
        skill: Skill,
        turn: Turn,
        values: dict[str, Any],
        *,
        caller: Caller,
        threads: Threads,
        on_end: Callable[["Run"], None],
        past: Past | None = None,
        message: Message | None = None,
        output_modes: Sequence[str] = (),
        delegate: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self.log = log
        self.skill = skill
        self.caller = caller
        self.message = message if message is not None else turn.message
        self.output_modes = output_modes
        self.since_s = time.monotonic()
        self._values = values
        self._threads = threads
        self._on_end = on_end
        self._delegate = delegate
        self._past = past
        self._artifacts = len(log.task.artifacts) if past is None else past.artifacts
        self._steps: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        log.run = self
        log.is_clear = False
        if past is None:
            log.begin(turn)
            set_status(log, TaskState.WORKING)
        self.task = _start(self._loop, self._drive())

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
            self._leave()

    def _leave(self) -> None:
        self.is_over = True
        if self.log.run is self:
            self.log.run = None
            self._on_end(self)

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
        return await self._threads.run(lambda: self.skill.function(**values))

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

        return await self._threads.run(work)

    def _finish(self, value: Any) -> None:
        """The function has returned: say so."""
        if self._past is not None:
            self._past.end()
        if value is None:
            self._end(TaskState.COMPLETED)
        elif isinstance(value, Ask):
            self._question(value.question, value.type)
            self.log.is_clear = True
        elif isinstance(value, (Reply, Message)):
            self._end(TaskState.COMPLETED, value)
        else:
            self.emit(value, is_last=True)
            self._end(TaskState.COMPLETED, self._last_word)

    def _fail(self, error: Any) -> None:
        """The function has raised: the client gets a number to quote, the log the rest."""
        reference = secrets.token_hex(4)
        log_.error("skill %s failed, reference %s", self.skill.id, reference, exc_info=error, extra={"task_id": self.log.task.id})
        self._end(TaskState.FAILED, f"The agent failed. Reference: {reference}")

    def _end(self, state: TaskState, word: Any = None) -> None:
        if not self.is_over:
            self.status(state, word)
            self.is_over = True

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
        if self._is_mute():
            return
        set_status(self.log, state, word, metadata)

    def progress(self, text: str, metadata: Metadata | None) -> None:
        if self._past is not None and self._past.word(text):
            return
        self.status(TaskState.WORKING, text, metadata)

    def emit(self, value: Any, *, is_last: bool = False) -> None:
        """Add what was yielded or returned: an Artifact is its own, anything else is a chunk of the run's one."""
        if isinstance(value, Artifact):
            self._append(value, append=False, is_last=True)
        elif isinstance(value, (Reply, Message)):
            self._last_word = self._message(value)
        else:
            is_more = bool(self._chunks)
            if not is_more:
                self._chunks = self._next_id()
            self._append(Artifact(artifact_id=self._chunks, parts=to_parts(value)), append=is_more, is_last=is_last)

    def add_artifact(
        self, content: tuple[Any, ...], *, name: str, description: str, artifact_id: str, metadata: Metadata | None
    ) -> None:
        parts = [part for value in content for part in to_parts(value)]
        artifact = Artifact(
            artifact_id=artifact_id or self._next_id(), parts=parts, name=name, description=description, metadata=metadata
        )
        self._append(artifact, append=False, is_last=True)

    def _append(self, artifact: Artifact, *, append: bool, is_last: bool) -> None:
        if self._is_mute():
            return
        if not artifact.parts:
            raise InvalidAgentResponse(f"artifact {artifact.artifact_id!r} has no parts")
        if self._past is not None:
            new = self._past.chunk(artifact, append=append, is_last=is_last)
            if new is None:
                return
            artifact, append = new
        task = self.log.task
        self.log.append(
            ArtifactUpdate(task_id=task.id, context_id=task.context_id, artifact=artifact, append=append, last_chunk=is_last)
        )

    def _is_mute(self) -> bool:
        """After the end nothing is heard: a cancelled thread may go on talking for a while."""
        if self.is_over or self.log.task.status.state in FINAL:
            log_.warning("skill %s: output after the end was dropped", self.skill.id, extra={"task_id": self.log.task.id})
            return True
        return False

    def _next_id(self) -> str:
        self._artifacts += 1  # counted, not random: the same function gives the same ids again
        return f"artifact-{self._artifacts}"

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
        found = await self.log.feed.context(self.log.scope, task.context_id, limit + 1)
        return [other for other in reversed(found) if other.id != task.id][-limit:]

    async def delegate(self, ctx: Context, agent: Any, message: Any) -> Any:
        if self._delegate is None:
            raise TypeError("ctx.delegate needs an agent that is served: use accord.Agent, and its app() or run()")
        self._delegated += 1
        return await self._delegate(ctx, agent, message, number=self._delegated)

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
                answer = self._past.answer(self._asked, self.log.task.history)
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

    async def step(self, function: Callable[..., Any], args: tuple[Any, ...], name: str, retries: int) -> Any:
        self._must_be_async("step")
        name = name or getattr(function, "__name__", type(function).__name__)
        n = self._steps[name] = self._steps.get(name, 0) + 1
        done = self._past.step(name, n) if self._past is not None else None
        if done is None:
            self.log.note(b"s", v1.encode(Step(name, n)))
            point("step.begun")
            self._under_way += 1
            done = await do_step(Step(name, n), function, args, retries, self._threads)
            point("step.done")
            self.log.note(b"s", v1.encode(done))
            await self.log.stored()  # in the log before anything is built on it
            self._under_way -= 1
            point("step.stored")
            if self._is_leaving and not self._under_way:
                self.stop()
                await asyncio.sleep(0)  # it ends here; the next life goes on from here
        return value_of(done, function)

    async def require_auth(self, text: str, until: Awaitable[Any] | None) -> Any:
        self._must_be_async("require_auth")
        self._asked += 1
        if self._past is not None and (said := self._past.answer(self._asked, self.log.task.history)) is not None:
            return said
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
                self._leave()  # cancelled before its first step, it has not left by itself

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


def _start(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    return loop.create_task(coroutine)
