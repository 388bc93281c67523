"""A server with slow durable work, to be stopped and started again under its clients."""

import re
import signal
import sys
from pathlib import Path

from tests.cli.shell import COMMAND
from tests.processes import Done, Process, free_port, run_forked, start, until_sync

AGENT = """
import asyncio
from pathlib import Path
from accord import Agent, Context

agent = Agent("Baker")

async def rise() -> str:
    while not Path("risen").exists():
        await asyncio.sleep(0.01)
    return "bread"

@agent.skill(durable=True)
async def bake(text: str, ctx: Context):
    '''Bake.'''
    Path(f"begun-{ctx.task_id}").touch()
    yield "flour, "
    yield await ctx.step(rise)

@agent.skill
async def order(text: str, ctx: Context) -> str:
    '''Take an order.'''
    return f"{text} on {await ctx.ask('Which day?')}"
"""


class Bakery:
    """A server that can be stopped and started again, at the same address and with the same
    tasks.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        (folder / "baker.py").write_text(AGENT)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes: list[Process] = []

    def __enter__(self) -> "Bakery":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.close()

    def start(self) -> None:
        self.process = self.typed(
            "serve", "baker.py", "--port", str(self.port), "--grace", "0.5", *self._options
        )
        assert "Baker" in self.process.line_sync()

    def stop(self, how: signal.Signals) -> None:
        self.process.stop_sync(how)

    def typed(self, *words: str) -> Process:
        process = start(sys.executable, "-m", "accord", *words, cwd=self.folder)
        self._processes.append(process)
        return process

    def done(self, *words: str) -> Done:
        return run_forked(COMMAND, *words, cwd=self.folder)

    def sent(self, *words: str) -> Process:
        """A message on its way, the work on it begun."""
        sending = self.typed("send", self.url, "a loaf", *words)
        self.until_begun(1)
        if "--stream" in words:
            until_sync(lambda: sending.out.text == "flour, ", "the first chunk")
        return sending

    def until_begun(self, count: int) -> None:
        """Wait until so many loaves are waited for."""
        until_sync(lambda: len(list(self.folder.glob("begun-*"))) >= count, f"{count} loaves")

    def rise(self) -> None:
        (self.folder / "risen").touch()

    def tasks(self) -> int:
        self.stop(signal.SIGTERM)
        found = re.search(r"(\d+) tasks?\b", self.done("db", "stats").out)
        assert found is not None
        return int(found[1])
