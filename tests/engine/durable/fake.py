"""A run in memory: what steps need of one, and a context with the verbs that are recorded. No
store, no client.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace

from accord.engine.durable.branches import (
    RUN_POSITION,
    Branch,
    DelegateOptions,
    RunPosition,
    position_in,
)
from accord.engine.durable.history import Mismatch, read_history
from accord.engine.durable.output import Output, Send
from accord.engine.durable.steps import Steps
from accord.engine.durable.timers import Timers
from accord.engine.log.entries import (
    ENCODE,
    Answered,
    ArtifactChanged,
    Asked,
    AskExpired,
    AskLeft,
    Created,
    Entry,
    Ids,
    MessageAdded,
    Numbered,
    RunStarted,
    StatusChanged,
    Visible,
    entries_of,
)
from accord.engine.skills.values import file_of
from accord.engine.threads import Threads
from accord.model import (
    Artifact,
    ArtifactUpdate,
    File,
    Message,
    Part,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from accord.store import SystemClock
from accord.store.contract import Row

TASK, CONTEXT = "task", "context"
NOW_MS = 1_000


class Waits(Exception):
    """The function waits for its client."""


class Context:
    """The verbs a row of the table uses, as the real context has them."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def step(self, function: Any, *args: Any, **options: Any) -> Any:
        return self._run.steps.step(function, args, **options)

    def gather(self, *members: Any) -> Any:
        return self._run.steps.gather(*members)

    def delegate(self, agent: Any, message: Any, *, name: str = "") -> Any:
        return self._run.steps.delegate(agent, message, DelegateOptions(), name=name)

    def patched(self, name: str) -> bool:
        return self._run.steps.patched(name)

    @property
    def step_key(self) -> str:
        return self._run.steps.step_key

    def ask(
        self, question: str, type: type = str, *, name: str = "", within: Any = None, **default: Any
    ) -> Any:
        return self._run.ask(question, type, name, within=within, **default)

    def sleep(self, seconds: float) -> Any:
        return Timers(self._run, self._run.history).sleep(seconds, None)

    def write(self, chunk: str, *, last: bool = False) -> None:
        self._run.act(lambda: self._run.emit(chunk, is_last=last))

    def artifact(self, text: str, *, id: str = "") -> None:
        self._run.act(lambda: self._run.emit(Artifact(artifact_id=id, parts=[Part(text=text)])))

    def status(self, text: str) -> None:
        self._run.act(lambda: self._run.progress(text))


class Clock(SystemClock):
    """It stands still, and says when somebody waits for a later time."""

    def __init__(self, waits: asyncio.Event) -> None:
        self._waits = waits

    def now_ms(self) -> int:
        return NOW_MS

    async def sleep_until(self, at_ms: int) -> None:
        if at_ms > NOW_MS:
            self._waits.set()
            await asyncio.get_running_loop().create_future()


class Run:
    """One attempt: the log before it, and what it adds."""

    def __init__(self, log: list[Entry], calls: list[str], answers: Iterable[str] = ()) -> None:
        self.log = list(log)
        self.recorded: list[Entry] = []
        self.sent: list[tuple[str, str, bool]] = []  # id, text, append
        self.statuses: list[str] = []
        self.calls = calls
        self.answers = list(answers)
        self.history = read_history(stored(log))
        assert self.history is not None  # the log of a row has a run
        if len(log) == 2:
            self.history = None  # it has just been started
        self.task_id, self.turn = TASK, 1
        self.threads = Threads()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.is_stopping = False
        self.size_left = 1_000_000
        self.delegates = Delegates(self)
        self.under_way = 0
        self.busy = 1
        self.due: list[int] = []
        self.waits = asyncio.Event()
        self.clock = Clock(self.waits)
        self.steps = Steps(self, self.history)

    # What a Recorder has

    def stored_file(self, file: File) -> Part:
        return file.part()

    def opened_file(self, part: Part) -> File:
        return file_of(part)

    @property
    def is_stopped(self) -> bool:
        return self.is_stopping

    def record(self, entry: Entry) -> "asyncio.Future[None]":
        self.note(entry)
        stored = self.loop.create_future()
        self.loop.call_soon(_settle, stored)
        return stored

    def note(self, entry: Entry) -> None:
        assert not self.is_stopping
        self.log.append(entry)
        self.recorded.append(entry)

    @property
    def activity(self) -> "Run":
        return self

    async def may_begin(self) -> None:
        if self.is_stopping:
            raise asyncio.CancelledError

    def begin_step(self) -> None:
        self.under_way += 1

    def end_step(self) -> None:
        self.under_way -= 1

    def pause(self) -> None:
        self.busy -= 1

    def resume(self) -> None:
        self.busy += 1

    def add_due(self, due_ms: int) -> None:
        self.due.append(due_ms)

    def remove_due(self, due_ms: int) -> None:
        self.due.remove(due_ms)

    def was_left(self, what: str) -> None:
        pass

    def act(self, action: Callable[[], None]) -> None:
        if threading.get_ident() == self.thread:
            action()
        else:
            self.loop.call_soon_threadsafe(action)

    @property
    def output(self) -> "Run":
        return self

    def emit(self, value: Any, *, is_last: bool = False) -> None:
        place = position_in(self)
        assert place is not None
        output, is_in_step = place.branch.output, bool(place.step)
        if isinstance(value, Artifact):
            send = output.artifact(value, is_in_step=is_in_step)
        else:
            send = output.chunk([Part(text=value)], is_last=is_last, is_in_step=is_in_step)
        if send is not None:
            self._send(send, place.branch.path, place.step)

    def _send(self, send: Send, branch: str, step: str) -> None:
        update = ArtifactUpdate(
            task_id=TASK,
            context_id=CONTEXT,
            artifact=send.artifact,
            append=send.append,
            last_chunk=send.last_chunk,
        )
        self.log.append(ArtifactChanged(update, branch, step))
        self.sent.append((send.artifact.artifact_id, send.artifact.text, send.append))

    async def drain(self) -> None:
        await asyncio.sleep(0)

    # What else a run does

    def progress(self, text: str) -> None:
        place = position_in(self)
        assert place is not None
        if place.branch.output.status(is_in_step=bool(place.step)):
            self.log.append(status_entry(text, place.branch.path, place.step))
            self.statuses.append(text)

    async def ask(
        self,
        question: str,
        type_: type,
        name: str,
        branch: Branch | None = None,
        *,
        within: float | None = None,
        default: Any = None,
    ) -> Any:
        place = position_in(self)
        assert place is not None
        branch = branch or place.branch
        n = branch.next_question()
        while True:
            text = await self._answer(
                branch, n, name or question, type_.__name__, bool(name), within
            )
            if text is None:
                return default
            try:
                return type_(text)
            except ValueError:
                continue  # the same question again

    async def _answer(
        self,
        branch: Branch,
        n: int,
        text: str,
        type_: str,
        is_named: bool,
        within: float | None,
    ) -> str | None:
        if self.history is not None:
            found = self.history.answer(branch.path, n, text, type_, is_named)
            if isinstance(found, Answered):
                message = self.log[found.turn - 1]
                assert isinstance(message, MessageAdded)
                return message.message.text
            if isinstance(found, AskExpired):
                return None
            if found is not None:
                await self.loop.create_future()
        expires_ms = 0 if within is None else NOW_MS + int(within * 1000)
        asked_ms = self.history.expires_ms(branch.path, n) if self.history is not None else 0
        expires_ms = asked_ms or expires_ms
        if not 0 < asked_ms <= NOW_MS:
            self.note(Asked(branch.path, n, text, type_, is_named=is_named, expires_ms=expires_ms))
        if 0 < expires_ms <= NOW_MS:
            self.note(AskExpired(branch.path, n))
            return None
        if not self.answers:
            try:
                self.waits.set()
                await self.loop.create_future()
            except asyncio.CancelledError:
                if not self.is_stopping:
                    self.note(AskLeft(branch.path, n))
                raise
        answer = self.answers.pop(0)
        self.log.append(message_entry(answer))
        self.note(Answered(branch.path, n, len(self.log)))
        return answer

    async def drive(self, function: Callable[[Context], Awaitable[Any]]) -> Any:
        """Call the function. Raises what it raises, Mismatch, or Waits."""
        output = Output(self.history, self.history.artifacts if self.history is not None else 0)
        task = asyncio.create_task(self._call(function, output))
        waits = asyncio.create_task(self.waits.wait())
        await asyncio.wait({task, waits}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait({task}, timeout=0.05)  # it may stop waiting by itself
        waits.cancel()
        try:
            if not task.done():
                self.is_stopping = True
                task.cancel()
                await asyncio.wait({task})
                raise Waits
            return task.result()
        finally:
            self.threads.close()
            assert (self.under_way, self.busy) == (0, 1)

    async def _call(self, function: Callable[[Context], Awaitable[Any]], output: Output) -> Any:
        RUN_POSITION.set(RunPosition(self, Branch("", output, asyncio.current_task())))
        try:
            value = await function(Context(self))
        except Exception:
            if self.history is not None:
                self.history.end_all()
            raise
        if self.history is not None:
            self.history.end_all()
        for branch, send in output.finish():
            self._send(send, branch, "")
        return value

    def artifacts(self) -> dict[str, str]:
        """The task's artifacts, as whoever reads the whole log has them."""
        task = Task(id=TASK, status=TaskStatus(state=TaskState.WORKING))
        for entry in self.log:
            if isinstance(entry, ArtifactChanged):
                task.apply(entry.update)
        return {artifact.artifact_id: artifact.text for artifact in task.artifacts}


class Delegates:
    """Another agent that asks what it is told to ask, and answers `done: ...`."""

    def __init__(self, run: Run) -> None:
        self.run = run

    async def converse(
        self,
        run: Any,
        agent: Any,
        message: Any,
        key: str,
        *,
        task_id: str,
        branch: Branch,
        on_task: Any,
        options: DelegateOptions,
    ) -> Any:
        if task_id:
            run.calls.append(f"subscribe {task_id}")
        else:
            run.calls.append(f"send {message} as {key}")
        await on_task(task_id or "other-1")
        run.progress(f"{agent} works")
        if message == "ask":
            message = await run.ask("Which?", str, "", branch)
        if message == "raise":
            raise ValueError("no")
        return {"text": f"done: {message}"}

    def reply(self, agent: Any, value: Any) -> Any:
        return value["text"]


def _settle(stored: "asyncio.Future[None]") -> None:
    if not stored.done():
        stored.set_result(None)


# Entries


def message_entry(text: str) -> MessageAdded:
    return MessageAdded(
        Message(
            message_id=f"m-{text}",
            role=Role.USER,
            parts=[Part(text=text)],
            task_id=TASK,
            context_id=CONTEXT,
        )
    )


def status_entry(text: str, branch: str = "", step: str = "") -> StatusChanged:
    message = Message(message_id=f"s-{text}", role=Role.AGENT, parts=[Part(text=text)])
    status = TaskStatus(state=TaskState.WORKING, message=message)
    return StatusChanged(
        StatusUpdate(task_id=TASK, context_id=CONTEXT, status=status), branch=branch, step=step
    )


def artifact_entry(
    id_: str,
    text: str,
    *,
    append: bool = False,
    last: bool = False,
    branch: str = "",
    step: str = "",
) -> ArtifactChanged:
    artifact = Artifact(artifact_id=id_, parts=[Part(text=text)])
    update = ArtifactUpdate(
        task_id=TASK, context_id=CONTEXT, artifact=artifact, append=append, last_chunk=last
    )
    return ArtifactChanged(update, branch, step)


def stored(log: list[Entry]) -> list[Numbered]:
    """A log as it is read after it was written."""
    visible = sum(isinstance(entry, Visible) for entry in log)
    row = Row(0, 1, visible, 0, b"\n".join(ENCODE[type(entry)](entry)[0] for entry in log))
    return list(entries_of([row], Ids(TASK, CONTEXT)))


def log_of(recorded: Iterable[Entry]) -> list[Entry]:
    """The log of a task with one run. An answer with turn 0 takes the message before it."""
    first = Message(
        message_id="m-1", role=Role.USER, parts=[Part(text="go")], task_id=TASK, context_id=CONTEXT
    )
    task = Task(
        id=TASK, context_id=CONTEXT, status=TaskStatus(state=TaskState.SUBMITTED), history=[first]
    )
    log: list[Entry] = [Created(task), RunStarted(1)]
    for entry in recorded:
        if isinstance(entry, Answered) and entry.turn == 0:
            entry = replace(entry, turn=len(log))
        log.append(entry)
    return log


__all__ = [
    "Context",
    "Mismatch",
    "Run",
    "Waits",
    "artifact_entry",
    "log_of",
    "message_entry",
    "status_entry",
    "stored",
]
