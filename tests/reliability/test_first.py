"""D8: the first requests on an empty database are like any others."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.reliability.agents.busy import agent
from tests.reliability.harness import message, report, running, size, state_of
from tests.reliability.inside import Inside

AT_ONCE = 50


async def in_process(path: Path) -> list[str]:
    """The first requests of an app nobody has started: they open the store."""
    app = agent.app(store=f"sqlite:///{path / 'accord.db'}")
    inside = Inside(app)
    try:
        tasks = await asyncio.gather(
            *(inside.send(message("hello", "echo")) for _ in range(AT_ONCE))
        )
        assert (await inside.call("ListTasks", {}))["totalSize"] == AT_ONCE
    finally:
        await app.close()
    return [state_of(task) for task in tasks]


async def in_a_process_of_its_own(path: Path) -> list[str]:
    async with running(path) as server:
        clients = server.clients()
        tasks = await asyncio.gather(
            *(clients[i % len(clients)].send(message("hello", "echo")) for i in range(AT_ONCE))
        )
        assert await clients[0].total() == AT_ONCE
    return [state_of(task) for task in tasks]


async def fresh_starts(folder: Path, count: int) -> AsyncIterator[list[str]]:
    """Every fourth start is a real process."""
    for n in range(count):
        path = folder / str(n)
        path.mkdir()
        yield await (in_a_process_of_its_own(path) if n % 4 == 0 else in_process(path))


async def test_first_requests_on_an_empty_database_all_succeed(tmp_path: Path) -> None:
    """D8: fifty at once, and none meets a table that is not there yet."""
    starts = size(12, 200)
    async for states in fresh_starts(tmp_path, starts):
        assert states == ["TASK_STATE_COMPLETED"] * AT_ONCE
    report("D8", starts=starts, processes=(starts + 3) // 4, requests=starts * AT_ONCE, errors=0)
