"""How many statements an operation costs on PostgreSQL. They are what limits many replicas on one
database.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from accord import Agent, Context
from accord.store.postgres import PostgresStore, wake
from tests.engine.processes import Process, message, text_of, until
from tests.postgres import schema_url

SECONDS = 30
# What goes on by itself: connections being made, heartbeats, polls, totals, old posts, and what is
# looked for every second: orphans, what is due, and what is ours.
BACKGROUND = re.compile(
    r"^\s*(LISTEN|UNLISTEN|SET|BEGIN|COMMIT|UPDATE \S+replicas|SELECT id, beats|WITH patient"
    r"|DELETE FROM \S+posts|SELECT DISTINCT t\.key|SELECT key, pos|SELECT key, agent)"
    r"|pg_stat_activity|set_config|typeinfo|pg_notify\('|FROM \S+deltas RETURNING|advisory"
    r"|SKIP LOCKED|WHERE died IS NOT NULL",
)


class Statements:
    """All statements of all connections of this process."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._seen: list[str] = []

    def note(self, record: Any) -> None:
        self.all.append(record.query)
        if not BACKGROUND.search(record.query):
            self._seen.append(" ".join(record.query.split()))

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[list[str]]:
        """What is sent while the block lasts."""
        self._seen = found = []
        yield found
        for _ in range(5):
            await asyncio.sleep(0)  # asyncpg reports a statement in a later turn of the loop
        self._seen = []


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    made, connect = Statements(), asyncpg.connection.Connection.__init__

    def init(self: Any, *values: Any, **more: Any) -> None:
        connect(self, *values, **more)
        self.add_query_logger(made.note)

    monkeypatch.setattr(asyncpg.connection.Connection, "__init__", init)
    return made


def talks() -> Agent:
    agent = Agent("Talks")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        while text != "stop":
            text = await ctx.ask(f"heard {text}")
        return "stopped"

    @agent.skill
    async def count(text: str) -> AsyncIterator[str]:
        await asyncio.sleep(0.3)
        for n in range(20):
            yield f"{n} "
            await asyncio.sleep(0.01)

    return agent


@asynccontextmanager
async def two(agent: Agent) -> AsyncIterator[tuple[Process, Process]]:
    with schema_url(lease_s=30, beat_s=10) as url:
        stores = [PostgresStore(url) for _ in range(2)]
        apps = [agent.app(store=store, push=False) for store in stores]
        async with asyncio.timeout(SECONDS):
            for app in apps:
                await app.open()
            # What came before a listener heard is read once: not while statements are counted.
            await until(lambda: all(store._wakes.is_notified for store in stores))
            try:
                yield Process(apps[0]), Process(apps[1])
            finally:
                for app in apps:
                    await app.close(0)


def has_sent(process: Process) -> bool:
    """Whether no wake-up is on its way, which would be counted with what comes next."""
    return bool(process.app._engine.tasks.store._wakes._sender.is_idle)


def to(skill: str, text: str, **more: Any) -> dict[str, Any]:
    params = message(text, **more)
    params["message"]["metadata"] = {"skill": skill}
    return params


async def test_what_a_message_costs(
    statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the owner of its task: its share of a commit, and nothing else. Elsewhere: claim, post,
    the owner's read and commits, a read for each of them, the task as it was answered, wake-ups.
    """
    monkeypatch.setattr(wake, "POLL_S", 60.0)  # what a poll finds is read once more
    async with two(talks()) as (owner, other):
        await other.send(to("echo", "first"))  # its namespace is stored
        for _ in range(2):  # first what is done once: prepared statements, types
            async with statements.counted() as new:
                await owner.send(to("echo", "x"))
            async with statements.counted() as asked:
                task = await owner.send(to("talk", "one"))
            async with statements.counted() as here:
                await owner.send(message("two", task_id=task["id"]))
            posted: list[list[str]] = []
            for text in ("three", "four", "five", "six"):
                async with statements.counted() as found:
                    answered = await other.send(message(text, task_id=task["id"]))
                await until(lambda: all(has_sent(process) for process in (owner, other)))
                posted.append(found)
        assert answered["status"]["message"]["parts"][0]["text"] == "heard six"
    # On a busy machine one of them may take two commits, or have a wake-up of the one before.
    elsewhere = min(posted, key=len)
    for one in (new, asked, here):
        assert len(one) == 1, one
        assert ".batches" in one[0]
    loads = [sql for sql in elsewhere if "LEFT JOIN LATERAL" in sql and "old AS" not in sql]
    assert len(elsewhere) <= 8, elsewhere
    assert len(loads) == 1, "the task as it was answered"


async def test_a_stream_that_is_read_elsewhere_costs_a_read_for_each_commit(
    statements: Statements,
) -> None:
    async with two(talks()) as (owner, other):
        task = await owner.send(to("count", "x", returnImmediately=True))
        async with statements.counted() as found:
            frames = await (await other.subscribed(task["id"]))
        assert frames[-1].is_final
        assert text_of(await other.get(task["id"])) == "".join(f"{n} " for n in range(20))
    commits = sum(".batches" in sql for sql in found)
    reads = sum("unnest($1::bigint[], $2::int[]) WITH ORDINALITY" in sql for sql in found)
    assert commits > 2
    assert reads <= commits, (reads, commits)


async def test_replicas_that_hear_each_other_do_not_poll_for_posts(
    statements: Statements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "POLL_S", 0.01)
    async with two(talks()):
        # The first look of each is after the first pause.
        statements.all.clear()
        await until(lambda: sum("SELECT id, beats" in sql for sql in statements.all) >= 4)
        looks = [sql for sql in statements.all if "SELECT DISTINCT t.key" in sql]
    assert len(looks) <= 2, looks
