"""Rows of the table on the real engine: what is recorded is the log of a dead process, and recovery
takes it up.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from msgspec.structs import replace

from accord import Agent, Context, Limits
from accord.engine.durable.history import Mismatch
from accord.engine.log.entries import (
    ENCODE,
    FORMAT,
    STATE_NUMBER,
    About,
    Answered,
    ArtifactChanged,
    Asked,
    AskExpired,
    AskLeft,
    Created,
    Delegated,
    Entry,
    Mismatched,
    Patched,
    RunStarted,
    SleepLeft,
    Slept,
    StatusChanged,
    StepEnded,
    StepLeft,
    Visible,
    Woke,
    encode_about,
)
from accord.model import (
    FORK,
    Message,
    Part,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    now_ms,
)
from accord.store.contract import Create, Leaves, Namespace
from accord.store.memory import MemoryStore
from tests.engine.durable.fake import CONTEXT, TASK, Waits
from tests.engine.durable.table import CALLS, Row
from tests.engine.processes import Process, log_of, message, reaches, state_of, until

NAME = "Table"
ENDS = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
ASKS = "TASK_STATE_INPUT_REQUIRED"
DOES = (
    StepEnded,
    StepLeft,
    Delegated,
    Asked,
    Answered,
    AskLeft,
    AskExpired,
    Slept,
    Woke,
    SleepLeft,
    Patched,
)  # what a function has recorded


class Outcome:
    """What came of a row."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.task: dict[str, Any] = {}  # as the client sees it
        self.new: list[Entry] = []  # in the log

    @property
    def records(self) -> list[bytes]:
        return [plain(entry) for entry in self.new if isinstance(entry, DOES)]

    @property
    def sent(self) -> list[tuple[str, str, bool]]:
        updates = [entry.update for entry in self.new if isinstance(entry, ArtifactChanged)]
        return [
            (update.artifact.artifact_id, update.artifact.text, update.append) for update in updates
        ]

    @property
    def statuses(self) -> list[str]:
        found = [entry.update.status for entry in self.new if isinstance(entry, StatusChanged)]
        return [
            s.message.text for s in found if s.state is TaskState.WORKING and s.message is not None
        ]

    @property
    def artifacts(self) -> dict[str, str]:
        made = self.task.get("artifacts", [])
        return {
            artifact["artifactId"]: "".join(part["text"] for part in artifact["parts"])
            for artifact in made
        }


def plain(entry: Entry) -> bytes:
    """An entry as it is written, without what is a matter of time and place: how long it took, the
    position of a message.
    """
    if isinstance(entry, Asked):
        entry = replace(entry, worked_s=0.0, expires_ms=0)
    elif isinstance(entry, Slept):
        entry = replace(entry, due_ms=0)
    elif isinstance(entry, Answered):
        entry = replace(entry, turn=0)
    return ENCODE[type(entry)](entry)[0]


async def run(row: Row, *, is_fork: bool = False) -> Outcome:
    """Have the engine go on with what a row has recorded; without anything, have it begin. As a
    fork: in another task, which begins with that.
    """
    CALLS.clear()
    outcome, agent = Outcome(), Agent(NAME)

    @agent.skill(durable=True, id="row")
    async def skill(text: str, ctx: Context) -> None:
        try:
            outcome.result = await row.function(ctx)
        except BaseException as error:
            outcome.error = error
            raise

    store = MemoryStore()
    before = await leave(store, row.recorded, has_ended=is_fork) if row.recorded else []
    async with _served(agent, store) as process:
        task_id = TASK
        if not row.recorded:
            task_id = (await process.send(message("go", returnImmediately=True)))["id"]
        elif is_fork:
            task_id = (await process.send(_forking(before), {"a2a-extensions": FORK}))["id"]
        await _finish(row, process, task_id, outcome)
        log = await log_of(store, Namespace(NAME), task_id)
        outcome.new = log[len(before) :]
        for entry in outcome.new:
            if isinstance(entry, Mismatched):
                outcome.error = Mismatch(entry.reason)
        outcome.task = await process.get(task_id)
    if task_id != TASK and isinstance(outcome.result, list):
        outcome.result = [
            each.replace(task_id, TASK) if isinstance(each, str) else each
            for each in outcome.result
        ]
    if state_of(outcome.task) == ASKS:
        outcome.error = Waits()
    return outcome


def _forking(log: list[Entry]) -> dict[str, Any]:
    """What asks for a fork behind the last event of a log."""
    at = sum(isinstance(entry, Visible) for entry in log)
    asked = message("", returnImmediately=True)
    asked["message"] |= {"parts": [], "metadata": {FORK: {"taskId": TASK, "at": at}}}
    return asked


async def leave(
    store: MemoryStore, recorded: Iterable[Entry], *, has_ended: bool = False
) -> list[Entry]:
    """Store the log of a task with one run, whose process is dead. An answer with turn 0 takes the
    message before it. One that `has_ended` nobody takes up.
    """
    first = Message(
        message_id="m-1", role=Role.USER, parts=[Part(text="go")], task_id=TASK, context_id=CONTEXT
    )
    task = Task(
        id=TASK, context_id=CONTEXT, status=TaskStatus(state=TaskState.SUBMITTED), history=[first]
    )
    working = StatusUpdate(
        task_id=TASK, context_id=CONTEXT, status=TaskStatus(state=TaskState.WORKING)
    )
    log: list[Entry] = [Created(task), RunStarted(1), StatusChanged(working)]
    for entry in recorded:
        log.append(
            replace(entry, turn=len(log))
            if isinstance(entry, Answered) and entry.turn == 0
            else entry
        )
    dead = store.another()
    await dead.open(lambda tasks: None)
    made = Create(
        key=dead.replica << 32 | 1,
        namespace=Namespace(NAME),
        id=TASK,
        context_id=CONTEXT,
        skill="row",
        about=encode_about(About()),
        state=STATE_NUMBER[TaskState.COMPLETED if has_ended else TaskState.WORKING],
        at_ms=now_ms(),
        pos=len(log),
        seq=sum(isinstance(entry, Visible) for entry in log),
        format=FORMAT,
        data=b"\n".join(ENCODE[type(entry)](entry)[0] for entry in log),
        leaves=Leaves.END if has_ended else Leaves.STAY,
    )
    assert await dead.commit([made]) == [True]
    dead.kill()
    return log


@contextlib.asynccontextmanager
async def _served(agent: Agent, store: MemoryStore) -> AsyncIterator[Process]:
    app = agent.app(store=store.another(), limits=Limits(task_size=1_000_000))
    await app.open()
    try:
        yield Process(app)
    finally:
        await app.close()


async def _finish(row: Row, process: Process, task_id: str, outcome: Outcome) -> None:
    """Answer what is asked, until the function has ended, waits, or is found to be another than the
    recorded one.
    """
    expected = row.expected.raises
    for answer in row.answers:
        await reaches(process, task_id, ASKS)
        await process.send(message(answer, task_id=task_id, returnImmediately=True))
    if expected is Waits:
        await reaches(process, task_id, ASKS)
    elif expected is Mismatch:
        engine = process.app._engine
        await until(lambda: engine._recovery._retries)
        await engine.tasks.flush()
    else:
        await reaches(process, task_id, *ENDS)
