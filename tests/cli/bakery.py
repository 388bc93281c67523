"""A server with slow durable work, to be stopped and started again under its clients."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PATIENCE_S = 60

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
"""


class Bakery:
    """A server that can be stopped and started again, at the same address and with the same
    tasks.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        (folder / "baker.py").write_text(AGENT)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "Bakery":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            if not process.stdout.closed:
                process.communicate()

    def start(self) -> None:
        self.process = self.typed(
            "serve", "baker.py", "--port", str(self.port), "--grace", "0.5", *self._options
        )
        assert "Baker" in self.process.stdout.readline()

    def stop(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE_S)

    def typed(self, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "accord", *words]
        process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        return process

    def done(self, *words: str) -> subprocess.CompletedProcess:
        process = self.typed(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def sent(self, *words: str) -> subprocess.Popen:
        """A message on its way, the work on it begun."""
        sending = self.typed("send", self.url, "a loaf", *words)
        self.until_begun(1)
        if "--stream" in words:
            assert sending.stdout.read(len("flour, ")) == "flour, "
        return sending

    def until_begun(self, count: int) -> None:
        """Wait until so many loaves are waited for."""
        until = time.monotonic() + PATIENCE_S
        while len(list(self.folder.glob("begun-*"))) < count:
            assert time.monotonic() < until
            time.sleep(0.01)

    def rise(self) -> None:
        (self.folder / "risen").touch()

    def tasks(self) -> int:
        self.stop(signal.SIGTERM)
        return int(re.search(r"(\d+) tasks?\b", self.done("db", "stats").stdout)[1])
