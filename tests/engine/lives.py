"""Two lives of one skill, in one process: the first dies where the function says so."""

import asyncio
from pathlib import Path
from typing import Any

from accord import Agent
from accord.store.sqlite import SqliteStore
from tests.engine.test_lives import crashed, until
from tests.engine.test_parallel import ended, living
from tests.reliability.harness import message

__all__ = ["Lives"]


class Lives:
    """Two lives of one skill: the first dies where the function says so, the second goes on to the end."""

    def __init__(self, path: Path) -> None:
        self.agent = Agent("Twice")
        self.path = path
        self.number = 0
        self.done: list[str] = []
        self._there = asyncio.Event()

    @property
    def is_first(self) -> bool:
        return self.number == 1

    async def die(self) -> None:
        """The first life ends here."""
        if self.is_first:
            self._there.set()
            await asyncio.Event().wait()

    async def live(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The task as it stood when the process died, and at its end."""
        self.number = 1
        async with crashed(self.agent, self.path) as inside:
            task = await inside.send(message("go", returnImmediately=True))
            await until(self._there)
            before = await inside.get(task["id"])
        self.number = 2
        async with living(self.agent, SqliteStore(self.path)) as inside:
            return before, await ended(inside)
