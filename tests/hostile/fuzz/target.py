"""What is attacked: a parser, and what must never be seen of it."""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from typing import Any

from accord import Agent, Context, Message
from accord.model import Limits
from accord.operations import tasks

__all__ = ["PATIENCE_S", "AppTarget", "Faults", "Target"]

PATIENCE_S = 20.0  # for what should take a thousandth of a second


class Target:
    """Takes inputs made from tapes. Whatever is wrong with one is an AssertionError that
    shows it.
    """

    name = ""

    def __init__(self, folder: Path) -> None:
        self.outcomes: Counter[str] = Counter()
        self._folder = folder

    async def open(self) -> None:
        """Be ready. A target is opened and closed again and again, so that what it leaves behind is
        seen.
        """

    async def attack(self, data: bytes) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class Faults(logging.Handler):
    """What our own code says went wrong: nothing a stranger sends may bring that about."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))

    def of_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.seen.append(f"{context.get('message')}: {context.get('exception')!r}")


class AppTarget(Target):
    """An app on a database, with a task that waits for its answer for ever, one that is done, and a
    page token.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.app: Any = None
        self._faults = Faults()
        self._lives = 0

    async def open(self) -> None:
        tasks.LONG_POLL_S = 0.01
        logging.getLogger("accord").addHandler(self._faults)
        asyncio.get_running_loop().set_exception_handler(self._faults.of_loop)
        agent = Agent("Target")

        @agent.skill
        async def take(request: Message, ctx: Context) -> Any:
            """Answer some and ask others."""
            if len(request.parts) == 2:
                return await ctx.ask("well?", int)
            return request.parts

        self._lives += 1
        self._database = self._folder / f"{self.name}-{self._lives}.db"
        self.app = agent.app(
            store=f"sqlite:///{self._database}",
            limits=Limits(keep_alive_comment_s=0.01, tasks=100_000),
            previews=["1.1"],
            allow_hosts=["127.0.0.1"],  # webhooks are sent to nobody else
        )
        self.listen()
        await self.app.open()

    def listen(self) -> None:
        """Open more doors than HTTP's."""

    async def close(self) -> None:
        await self.app.close()
        logging.getLogger("accord").removeHandler(self._faults)
        for file in self._folder.glob(self._database.name + "*"):
            file.unlink()

    def check(self, shown: object) -> None:
        assert not self._faults.seen, f"{shown}\n{self._faults.seen[0]}"
