"""The hub's tables in the store's database: a transaction is a function that runs whole, or
leaves nothing behind.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.model import Unavailable
from accord.store import HUB, TASKS, Database, Sql, open_store

ADD = "INSERT INTO teams (name, description) VALUES (?, ?)"


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    store: Any = open_store(url, parts=(TASKS, HUB))
    await store.open(lambda tasks: None)
    try:
        yield store.database
    finally:
        await store.close()


async def test_a_transaction_is_stored_as_a_whole_or_not_at_all(store):
    async def add_and_fail(db: Sql) -> None:
        await db.execute(ADD, "a", "")
        raise ValueError("stop")

    async with opened(store["store"]) as db:
        with pytest.raises(ValueError, match="stop"):
            await db.write(add_and_fail)
        assert await db.fetch("SELECT name FROM teams") == []
        with pytest.raises(Unavailable):
            await db.execute("INSERT INTO nothing (name) VALUES ('a')")
        await db.execute(ADD, "b", "?")
        assert await db.fetch("SELECT * FROM teams") == [{"name": "b", "description": "?"}]
    with pytest.raises(Unavailable, match="closed"):
        await db.execute(ADD, "c", "")
    with pytest.raises(Unavailable, match="closed"):
        await db.fetch("SELECT * FROM teams")


async def test_a_transaction_waits_for_nothing_but_the_database(tmp_path):
    """Else the thread that writes would wait with it, and every task's commit behind that."""

    async def add_and_wait(db: Sql) -> None:
        await db.execute(ADD, "a", "")
        await asyncio.sleep(0)

    async with opened(f"sqlite:///{tmp_path}/hub.db") as db:
        with pytest.raises(RuntimeError, match="may wait for nothing else"):
            await db.write(add_and_wait)
        assert await db.fetch("SELECT name FROM teams") == []


async def test_a_caller_who_goes_away_leaves_no_transaction_open(tmp_path):
    """The thread that writes is held up until the caller, who waits for it, was cancelled."""
    held, is_held = threading.Event(), threading.Event()

    async def hold(db: Sql) -> None:
        await db.execute(ADD, "a", "")
        is_held.set()
        held.wait(10)

    async with opened(f"sqlite:///{tmp_path}/hub.db") as db:
        holding = asyncio.ensure_future(db.write(hold))
        await asyncio.to_thread(is_held.wait, 10)
        waiting = asyncio.ensure_future(db.execute(ADD, "b", ""))
        await asyncio.sleep(0)  # it waits for its turn
        assert await db.fetch("SELECT name FROM teams") == [], "reads don't wait for a write"
        for one in (waiting, holding):
            one.cancel()
        held.set()
        for one in (waiting, holding):
            with pytest.raises(asyncio.CancelledError):
                await one
        await db.execute(ADD, "c", "")
        names = [row["name"] for row in await db.fetch("SELECT name FROM teams ORDER BY name")]
        assert names == ["a", "c"], "what was begun ends, what was not is not done"


def test_a_store_without_a_database_keeps_no_hub():
    from accord.hub import Hub, HubSettings

    with pytest.raises(ValueError, match="no hub can be kept in 'memory://'"):
        Hub(HubSettings(store="memory://"))
