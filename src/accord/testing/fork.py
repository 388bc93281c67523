"""A task of production as a regression test: the function goes on from what was recorded."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..app import App
from ..client import ClientReply, connect
from ..engine.log import FORMAT, STATE_NUMBER
from ..engine.skills import definition_of
from ..model import TaskState
from ..store import Create, Leaves, Namespace, StoredLog, open_store, sqlite

__all__ = ["fork"]

_SQLITE = "sqlite:///"


@contextlib.asynccontextmanager
async def fork(
    agent: Agent,
    store: str,
    task_id: str,
    *,
    at: int,
    answer: Any = None,
    message: Any = None,
    timeout_s: float = 60.0,
) -> AsyncIterator[ClientReply]:
    """Fork a recorded task in this process, and yield the reply of the new one.

    async with fork(agent, "sqlite:///trips.db", task_id, at=3, answer="2") as reply:
        assert reply.text == "Rome: 2"

    The database is only read, also while servers use it: the new task is in memory, and no other
    task goes on. What the function does after the event really happens, so replace what must not.
    Whoever called the task then, nobody has to log in here.

    Args:
        agent: Your agent as it is now.
        store: The database that has the task: `sqlite:///file` or `postgresql://...`, as for
          `accord serve --store`. A copy made by `accord db backup` will do.
        task_id: The task.
        at: The number of the event after which its function goes on.
        answer: The answer to the question that is open there.
        message: A message to the new task instead.
        timeout_s: How long to wait until the new task has ended, or asks something.

    Raises:
        AssertionError: The function no longer does what was recorded; says where it differs.
        LookupError: The database has no such task.
    """
    found = await _recorded(store, task_id)
    kept = _Kept(agent)
    async with connect(kept) as client:
        await client.open()
        assert kept.opened is not None  # who connects has opened it
        await _put(kept.opened, found, task_id)
        differs: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def mismatched(run: Any, reason: str) -> None:
            if not differs.done():
                differs.set_exception(AssertionError(reason))

        kept.opened.engine.runs.on_mismatch = mismatched
        going = client.fork(task_id, at, answer=answer, message=message, timeout_s=timeout_s)
        yield await _first(going, differs)
        differs.cancel()


class _Kept:
    """An agent on a store of its own, in memory, which takes any caller."""

    def __init__(self, agent: Agent) -> None:
        self._agent = copy.copy(agent)
        declared = copy.copy(definition_of(agent))
        declared.auth = None
        self._agent._definition = declared
        self.opened: App | None = None

    def app(self) -> App:
        self.opened = self._agent.app(store=open_store("memory://"))
        return self.opened


async def _recorded(url: str, task_id: str) -> StoredLog:
    if url.startswith(_SQLITE):
        found = await asyncio.to_thread(_in_file, Path(url.removeprefix(_SQLITE)), task_id)
    else:
        from ..store import postgres  # who has a file need not have its driver

        found = await postgres.logs_of(postgres.parse(url), task_id)
    if not found:
        raise LookupError(f"{url} has no task {task_id}")
    return found[0]


def _in_file(path: Path, task_id: str) -> list[StoredLog]:
    if not path.exists():
        raise LookupError(f"there is no database {path}")
    return sqlite.logs_of(path, task_id)


async def _put(app: App, log: StoredLog, task_id: str) -> None:
    """Store a task as it was recorded, as one that has ended: nobody goes on with it."""
    tasks = app.engine.tasks
    data = b"\n".join(row.data for row in log.rows)
    pos = data.count(b"\n") + 1 if log.rows else 0
    item = Create(
        tasks.writer.new_key(),
        Namespace(app.agent.name, "", ""),
        task_id,
        log.context_id,
        log.skill,
        log.about,
        STATE_NUMBER[TaskState.COMPLETED],
        tasks.store.now_ms(),
        pos,
        log.rows[-1].seq if log.rows else 0,
        FORMAT,
        data,
        Leaves.END,
    )
    await tasks.store.commit([item])


async def _first(going: Awaitable[ClientReply], differs: "asyncio.Future[None]") -> ClientReply:
    """Return what comes of a fork, or raise why its function can't go on."""
    forked: asyncio.Future[Any] = asyncio.ensure_future(going)
    either: set[asyncio.Future[Any]] = {forked, differs}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if differs.done():
            differs.result()
        found: ClientReply = await forked
        return found
    finally:
        forked.cancel()
