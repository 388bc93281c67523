"""A server in a process of its own, to be killed as often as wanted, and the clients that talk to
it.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.processes import PATIENCE_S, Forked, Process, fork, free_port, start
from tests.reliability.clients import (
    BROKEN,
    FINAL,
    RESUME,
    Client,
    Frame,
    GrpcClient,
    HttpClient,
    state_of,
)
from tests.reliability.line import Line
from tests.reliability.ways import WAYS, Refused

__all__ = [
    "BROKEN",
    "FINAL",
    "RESUME",
    "WAYS",
    "Client",
    "Died",
    "Frame",
    "Refused",
    "Server",
    "message",
    "quick_folder",
    "report",
    "running",
    "seed",
    "size",
    "state_of",
    "tally",
    "text_of",
    "told",
]

AGENTS = Path(__file__).parent / "agents"
JSON = {"content-type": "application/json", "a2a-version": "1.0"}

AGENT = os.environ.get("ACCORD_TEST_AGENT", "busy")  # a module beside it
_IS_SOAK = bool(os.environ.get("ACCORD_SOAK"))


def size(normal: int, soak: int) -> int:
    """How much to do: `make test` has minutes, `make soak` has hours."""
    return soak if _IS_SOAK else normal


def seed() -> int:
    """What a test draws its chances from, printed: the same one in each `make test`, another in
    each `make soak`. ACCORD_SEED sets it.
    """
    drawn = random.randrange(1 << 31) if _IS_SOAK else 1
    number = int(os.environ.get("ACCORD_SEED", drawn))
    print(f"seed {number}")
    return number


def quick_folder() -> Path:
    """A new folder, in memory if it can be: a process that dies leaves the same there as on a disk,
    and a flush takes no time.
    """
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.exists() else None))


def report(promise: str, **figures: object) -> None:
    """Print what was really done; pytest shows it with -s or -rP."""
    print(
        f"\n{promise}: "
        + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
    )


def tally(counts: Counter[str]) -> str:
    """How many of something came over which way."""
    return (
        f"{counts.total()} ({', '.join(f'{name} {counts[name]}' for name in WAYS if counts[name])})"
    )


def message(
    text: str, skill: str = "", *, task_id: str = "", **configuration: object
) -> dict[str, Any]:
    """The params of a send, with a message id of its own."""
    said: dict[str, Any] = {
        "messageId": uuid.uuid4().hex,
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    if skill:
        said["metadata"] = {"skill": skill}
    if task_id:
        said["taskId"] = task_id
    return {"message": said, **({"configuration": configuration} if configuration else {})}


def text_of(task: dict[str, Any]) -> str:
    """Everything in a task's artifacts."""
    return "".join(
        part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]
    )


def told(task: dict[str, Any]) -> str:
    """What the agent says with a task's status."""
    said = task["status"].get("message")
    return said["parts"][0]["text"] if said else ""


class Died(AssertionError):
    """A server ended before it answered."""


class Server:
    """One server with its ports and one database file, started and killed as often as wanted.

    `start` returns only when the process it started is the one that answers: a leftover server on
    the port would make every later result worthless.
    """

    def __init__(
        self, folder: Path, *, agent: str = AGENT, keep_alive_s: float = 15.0, grace_s: float = 0.2
    ) -> None:
        self.database = folder / "accord.db"
        self.log = folder / "server.log"
        self.up = asyncio.Event()
        self.starts = 0
        self._port, self._grpc_port = free_port(), free_port()
        self.command = [
            sys.executable,
            str(AGENTS / "serve.py"),
            agent,
            str(self._port),
            str(self._grpc_port),
        ]
        self.command += [str(self.database), str(keep_alive_s), str(grace_s)]
        self.environment: dict[str, str] = {}
        self.ways = list(WAYS)
        self.is_forked = (
            True  # otherwise an interpreter of its own: to measure its memory, to trace it
        )
        self._process: Forked | Process | None = None
        self._session: aiohttp.ClientSession | None = None
        self._line = Line(self._grpc_port)

    def client(self, way: str = "jsonrpc") -> Client:
        if WAYS[way].is_grpc:
            return GrpcClient(self._line, WAYS[way])
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            patience = aiohttp.ClientTimeout(total=None, sock_read=60)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=patience, read_bufsize=1 << 20
            )
        return HttpClient(self._session, f"http://127.0.0.1:{self._port}", WAYS[way])

    def clients(self) -> list[Client]:
        """One client for each way to talk to it."""
        return [self.client(way) for way in self.ways]

    async def start(self) -> None:
        if self.is_forked:
            self._process = fork(*self.command[1:], env=self.environment, log=self.log)
        else:
            self._process = start(*self.command, env=self.environment, log=self.log)
        self.starts += 1
        await asyncio.wait_for(self._answers(), PATIENCE_S)
        self.up.set()

    async def _answers(self) -> None:
        client = self.client()
        while True:
            assert self._process is not None
            if self._process.returncode is not None:
                raise Died(
                    f"the server ended with {self._process.returncode}:\n{self.log.read_text()}"
                )
            try:
                said = await client.call("SendMessage", message("?", "who"))
            except BROKEN:
                await asyncio.sleep(0.02)  # between two tries of a client
                continue
            assert said["message"]["parts"][0]["text"] == str(self._process.pid), (
                "another process answers on our port"
            )
            return

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> int:
        """Wait for the process to end by itself and return its exit code."""
        assert self._process is not None
        code = await self._process.wait()
        self.up.clear()
        return code

    async def kill(self) -> None:
        """End the process as a power switch would, for what concerns it."""
        await self._signal(signal.SIGKILL)

    async def stop(self) -> int:
        """Ask the process to stop and return its exit code."""
        return await self._signal(signal.SIGTERM)

    async def _signal(self, number: int) -> int:
        assert self._process is not None
        self.up.clear()
        self._process.send_signal(number)
        return await self.ended()

    async def close(self) -> None:
        """Let nothing run on, and see that the server never had a fault of its own."""
        if self._process is not None:
            self._process.close()
        self._line.close()
        if self._session is not None:
            await self._session.close()
        log = self.log.read_text() if self.log.exists() else ""
        assert "Traceback" not in log, log[-4000:]


@contextlib.asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Server]:
    """A server on an empty database, for as long as the block lasts."""
    server = Server(folder, **options)
    try:
        await server.start()
        yield server
    finally:
        await server.close()
