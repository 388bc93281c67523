"""The servers under test: started, pinned to a core, watched through /proc, stopped."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .credentials import protect
from .load import Connection, Failure, connect

__all__ = ["COLUMNS", "SERVERS", "Server", "free_port", "pin_load"]

SERVERS = Path(__file__).parent / "servers"

# Column id: what the table calls it. The first is the base of all ratios.
COLUMNS = {
    "sdk": "a2a-sdk memory",
    "memory": "accord memory",
    "sqlite": "accord sqlite",
    "raw": "raw uvicorn",
}

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = _CORES[0]
_START_S = 60.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def pin_load() -> None:
    """Keep this process off the servers' core, if there is another."""
    os.sched_setaffinity(0, set(_CORES[1:]) or {SERVER_CORE})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Server:
    """One server process. `tasks` and `notes` are what rows keep about it between rounds."""

    def __init__(
        self,
        column: str,
        *,
        has_grpc: bool = False,
        auth: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.column = column
        self.variables = variables or {}  # of its environment
        self.auth = auth  # how its callers authenticate: "", "key" or "jwt"
        self.credentials = ""  # the line of a request that does
        self.path = "/"  # of the agent
        self.port = free_port()
        self.grpc_port = free_port() if has_grpc else None
        self.is_raw = column == "raw"
        self.tasks = 0
        self.notes: dict[str, list[str]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connections: list[Connection] = []  # shared, kept open between rounds
        self._others: list[Connection] = []
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  written by the process until it ends
        self._folder = tempfile.TemporaryDirectory(prefix="accord-bench-")

    @property
    def store(self) -> str:
        """The address of its store on disk, if it has one."""
        return f"sqlite:///{self._folder.name}/tasks.db"

    def _command(self) -> list[str]:
        script = {"sdk": "sdk_server.py", "raw": "raw_server.py"}.get(
            self.column, "accord_server.py"
        )
        store = {
            "memory": ["memory://"],
            "sqlite": [self.store],
        }.get(self.column, [])
        grpc = [str(self.grpc_port)] if self.grpc_port is not None else []
        return [sys.executable, str(SERVERS / script), str(self.port), *store, *grpc]

    def _spawn(self) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **self.variables}
        if self.auth:
            folder = Path(self._folder.name)
            environment["BENCH_AUTH"], self.credentials = protect(self.column, self.auth, folder)
        return subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=environment,
        )

    async def start(self) -> None:
        """Start the process and wait until it serves its card."""
        begin = time.perf_counter()
        self._process = self._spawn()
        os.sched_setaffinity(self.pid, {SERVER_CORE})
        while not await self._serves_card():
            if self._process.poll() is not None:
                self._said.seek(0)
                raise Failure(
                    f"the {self.column} server did not start: "
                    f"{self._said.read()[-400:].decode(errors='replace')}"
                )
            if time.perf_counter() - begin > _START_S:
                raise Failure(f"the {self.column} server served no card within {_START_S:.0f} s")
            await asyncio.sleep(0.002)

    async def _serves_card(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(
                b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: "
                b"127.0.0.1\r\nConnection: close\r\n\r\n"
            )
            return (await reader.readline()).startswith(b"HTTP/1.1 200")
        finally:
            writer.close()

    async def connections(self, n: int) -> list[Connection]:
        """Return `n` connections, kept open between rounds. Those the server has closed meanwhile
        are replaced.
        """
        self._connections = [connection for connection in self._connections if connection.is_open]
        if len(self._connections) < n:
            self._connections += await connect(self.port, n - len(self._connections))
        return self._connections[:n]

    async def connect(self, n: int) -> list[Connection]:
        """Return `n` connections of the caller's own."""
        fresh = await connect(self.port, n)
        self._others += fresh
        return fresh

    def close_connections(self) -> None:
        for connection in [*self._connections, *self._others]:
            connection.close()
        self._connections, self._others = [], []

    @property
    def pid(self) -> int:
        assert self._process is not None  # asked of a started server only
        return self._process.pid

    def cpu_s(self) -> float:
        """User and system time of the process so far, all threads, those that ended included."""
        return time.clock_gettime(
            ~self.pid << 3 | 2
        )  # the kernel's name for another process's CPU clock

    def rss(self) -> int:
        """Bytes of memory in use."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    async def stop(self) -> None:
        self.close_connections()
        if self._process is not None:
            self._process.kill()  # what it has stored goes with it
            await asyncio.to_thread(self._process.wait)
        self._said.close()
        self._folder.cleanup()
