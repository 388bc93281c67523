"""V4: a database file that is deleted, replaced or truncated under a running server.

SQLite itself would go on: it writes to a file that has no name any more, and all it acknowledges is
gone with the process.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.reliability.harness import BROKEN, JSON, Refused, message, report, state_of, text_of
from tests.survive.host import Host, hosting
from tests.survive.test_store_faults import is_ready

PATIENCE_S = 60.0
BEAT: dict[str, Any] = {"look_s": 0.05, "beat_s": 0.1}  # instead of one and five seconds

Undo = Callable[[], object]


def deleted(database: Path) -> Undo:
    """Moved away: as good as deleted for the name, and the one way to have the very same file
    again.
    """
    away = database.with_name("away")
    database.rename(away)
    return lambda: away.rename(database)


def log_deleted(database: Path) -> Undo:
    """SQLite's own log beside it is a part of the database."""
    return deleted(database.with_name(database.name + "-wal"))


def replaced(database: Path) -> Undo:
    """By a copy, as a restored backup is: its content is right, and still nobody writes to it."""
    original, copy = database.with_name("original"), database.with_name("copy")
    shutil.copy(database, copy)
    os.link(database, original)
    copy.rename(database)
    return lambda: original.rename(database)


def truncated(database: Path) -> Undo:
    content = database.read_bytes()
    os.truncate(database, len(content) // 2)
    return lambda: overwrite(database, content)


def emptied(database: Path) -> Undo:
    content = database.read_bytes()
    os.truncate(database, 0)
    return lambda: overwrite(database, content)


def overwritten(database: Path) -> Undo:
    """By something that is no database."""
    content = database.read_bytes()
    overwrite(database, b"x" * len(content))
    return lambda: overwrite(database, content)


def overwrite(database: Path, content: bytes) -> None:
    """Into the same file, not a new one."""
    with database.open("r+b") as file:
        file.write(content)
        file.truncate()


class Sender:
    """Sends without a pause, and remembers what was acknowledged."""

    def __init__(self, host: Host) -> None:
        self.kept: dict[str, str] = {}
        self.refused = 0
        self._host = host

    async def send(self) -> bool:
        text = f"message {len(self.kept) + self.refused}"
        try:
            task = await self._host.client().send(message(text, "echo"))
        except Refused as refused:
            if refused.reason != "UNAVAILABLE":
                raise
            self.refused += 1
            return False
        self.kept[task["id"]] = text
        return True

    async def check(self) -> None:
        """Everything that was acknowledged is there, in the next process."""
        await self._host.kill()
        await self._host.start()
        for task_id, text in self.kept.items():
            task = await self._host.client().get(task_id)
            assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", text)


@contextlib.asynccontextmanager
async def meanwhile(work: Callable[[], Any]) -> AsyncIterator[None]:
    """Do something again and again while the block lasts."""

    async def again() -> None:
        while True:
            await work()

    doing = asyncio.create_task(again())
    try:
        yield
    finally:
        doing.cancel()
        with contextlib.suppress(asyncio.CancelledError, *BROKEN):
            await doing


async def until(host: Host, session: aiohttp.ClientSession, *, ready: bool) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await is_ready(session, host.url) != ready:
            pass


@pytest.mark.parametrize("fault", [deleted, log_deleted, replaced, truncated, emptied, overwritten])
async def test_a_file_that_is_gone_is_noticed_and_nothing_is_acknowledged_that_would_go_with_it(
    tmp_path: Path, fault: Callable[[Path], Undo]
) -> None:
    """Within a heartbeat, with or without work, the server is not ready, refuses new work with 503
    and says why in its log; put back, the file is used again. Whatever was acknowledged at any time
    is there afterwards.
    """
    async with (
        hosting(tmp_path, patience_s=0.3, **BEAT) as host,
        aiohttp.ClientSession() as session,
    ):
        sender = Sender(host)
        async with meanwhile(sender.send):
            async with asyncio.timeout(PATIENCE_S):
                while len(sender.kept) < 20:
                    await is_ready(session, host.url)
            put_back = fault(host.database)
            await until(host, session, ready=False)
            async with session.post(
                host.url + "/message:send", json=message("x", "echo"), headers=JSON
            ) as refused:
                assert refused.status == 503
                assert int(refused.headers["retry-after"]) >= 1
            put_back()
            await until(host, session, ready=True)
            count = len(sender.kept)
            async with asyncio.timeout(PATIENCE_S):
                while len(sender.kept) < count + 20:
                    await is_ready(session, host.url)
        (begin, end) = [line for line in host.log.read_text().splitlines() if "the store" in line]
        assert f"{host.database}" in begin
        assert "while it was in use; put it back or restart" in begin
        assert "the store works again" in end
        await sender.check()
        await host.kill()
        host.check_file()
        report(
            "V4 file gone",
            how=fault.__name__,
            kept=len(sender.kept),
            refused=sender.refused,
            lost=0,
        )


@pytest.mark.parametrize("fault", [deleted, replaced, truncated])
async def test_a_file_that_is_gone_is_noticed_by_an_idle_server(
    tmp_path: Path, fault: Callable[[Path], Undo]
) -> None:
    """No work has to come to find out: whoever sends the first message hears at once that it can't
    be stored.
    """
    async with hosting(tmp_path, **BEAT) as host, aiohttp.ClientSession() as session:
        done = await host.client().send(message("before", "echo"))
        put_back = fault(host.database)
        await until(host, session, ready=False)
        with pytest.raises(Refused, match="can't store anything"):
            await host.client().send(message("x", "echo"))
        put_back()
        await until(host, session, ready=True)
        assert await host.client().get(done["id"]) == done
        assert (
            state_of(await host.client().send(message("after", "echo"))) == "TASK_STATE_COMPLETED"
        )
        assert await host.client().total() == 2
