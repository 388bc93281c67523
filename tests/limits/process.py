"""A server in a process of its own, with limits set for the test, and connections that say exactly
the bytes they are told to.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from accord.model import Limits
from tests.drive import BINDINGS, JsonRpc, Rest
from tests.http1.raw import Got, Wire
from tests.processes import Process, start

__all__ = ["Line", "Served", "served", "serving"]

SERVE = Path(__file__).parent / "serve.py"


class Served:
    """A running server: its address, and what the system knows of it."""

    def __init__(
        self, process: Process, url: str, written: int, database: Path, http: aiohttp.ClientSession
    ) -> None:
        self.url = url
        self.database = database
        self.pid = process.pid
        self._process = process
        self._written = written
        self._http = http
        self.grpc_port = 0  # none

    def door(self, binding: str = "jsonrpc") -> JsonRpc | Rest:
        return BINDINGS[binding](self._http, self.url)

    async def dial(self, receive_buffer: int = 0) -> "Line":
        """Open a connection; with a small receive buffer, one that soon stops the server if nothing
        is read.
        """
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(
            parts.hostname, parts.port, limit=receive_buffer or 1 << 16
        )
        return Line(reader, writer)

    @property
    def log(self) -> str:
        """What the server has logged."""
        return self._process.err.text

    @property
    def peak(self) -> int:
        """The most memory the process has ever had, in bytes."""
        return self._status("VmHWM")

    @property
    def memory(self) -> int:
        return self._status("VmRSS")

    def forget_peak(self) -> None:
        """Let `peak` count from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) * 1024

    @property
    def connections(self) -> int:
        """How many TCP connections the process holds."""
        sockets = set()
        for fd in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                sockets.add(str(fd.readlink()))
        lines = [
            line.split() for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]
        ]
        return sum(
            f"socket:[{fields[9]}]" in sockets and fields[3] == "01" for fields in lines
        )  # 01: established

    async def stop(self) -> int:
        """Have the server stop in order; return how many bytes it gave to write calls from its
        start to its end.
        """
        assert await self._process.stop() == 0
        return int(self._process.out.rest) - self._written


class Line(Wire):
    async def post(self, body: bytes, path: str = "/", headers: bytes = b"") -> Got:
        await self.say(head("POST", path, b"content-length: %d\r\n" % len(body) + headers) + body)
        return await self.answer()


def head(verb: str, path: str, headers: bytes = b"") -> bytes:
    """The head of a request, complete but for its body."""
    first = (
        f"{verb} {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\ncontent-type: "
        "application/json\r\n"
    ).encode()
    return first + headers + b"\r\n"


@contextlib.asynccontextmanager
async def served(folder: Path, **limits: Any) -> AsyncIterator[Served]:
    """Serve `serve.py` with these limits, for as long as the block lasts. Nothing of it may go
    wrong unnoticed.
    """
    words = (SERVE, folder / "accord.db", json.dumps(msgspec.to_builtins(Limits(**limits))))
    async with serving(folder, *words) as server:
        yield server


@contextlib.asynccontextmanager
async def serving(folder: Path, *words: str | Path) -> AsyncIterator[Served]:
    """Run a script that prints its address and how much it has written when it serves."""
    with start(sys.executable, *words) as process:
        url, written = (await process.line()).split()
        async with aiohttp.ClientSession(
            trust_env=False, connector=aiohttp.TCPConnector(limit=0)
        ) as http:
            yield Served(process, url, int(written), folder / "accord.db", http)
            assert process.returncode in (None, 0)
    assert "Traceback" not in process.err.text
