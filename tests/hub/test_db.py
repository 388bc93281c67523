"""The hub's database: what is cancelled or fails leaves nothing behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from accord.hub.storage.db import Database, open_database
from accord.model import Unavailable

ADD = "INSERT INTO teams (name, description) VALUES (?, ?)"


async def add_and_fail(db: Database) -> None:
    async with db.transaction() as change:
        await change.execute(ADD, "a", "")
        raise ValueError("stop")


async def test_a_transaction_is_stored_as_a_whole_or_not_at_all(tmp_path, store):
    db = open_database(store["store"])
    await db.open()
    try:
        with pytest.raises(ValueError, match="stop"):
            await add_and_fail(db)
        assert await db.fetch("SELECT name FROM teams") == []
        with pytest.raises(Unavailable):
            await db.execute("INSERT INTO nothing (name) VALUES ('a')")
        await db.execute(ADD, "b", "?")
        assert await db.fetch("SELECT * FROM teams") == [{"name": "b", "description": "?"}]
    finally:
        await db.close()


def thread_of(db: Any) -> ThreadPoolExecutor:
    found: ThreadPoolExecutor = db._thread
    return found


async def test_a_caller_who_goes_away_leaves_no_transaction_open(tmp_path):
    """The thread of the database is held up until the caller, who waits for it, was cancelled."""
    db = open_database(f"sqlite:///{tmp_path}/hub.db")
    await db.open()
    try:
        held = threading.Event()
        holding = asyncio.get_running_loop().run_in_executor(thread_of(db), held.wait)
        adding = asyncio.ensure_future(db.execute(ADD, "a", ""))
        await asyncio.sleep(0)  # it waits for BEGIN
        adding.cancel()
        held.set()
        await holding
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert await db.fetch("SELECT name FROM teams") == []
        await db.execute(ADD, "b", "")
        assert await db.fetch("SELECT name FROM teams") == [{"name": "b"}]
    finally:
        await db.close()
