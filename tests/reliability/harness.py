"""A server in a process of its own, clients that write raw JSON, and what a broken stream looks like to them."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp

from tests.reliability.cradle import Process

__all__ = [
    "BROKEN",
    "FINAL",
    "RESUME",
    "Client",
    "Died",
    "Frame",
    "Refused",
    "Server",
    "message",
    "quick_folder",
    "report",
    "running",
    "size",
    "state_of",
    "text_of",
    "told",
]

AGENTS = Path(__file__).parent / "agents"
JSON = {"content-type": "application/json", "a2a-version": "1.0"}
RESUME = {"a2a-extensions": "urn:accord:resume:1"}
FINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
BROKEN = (aiohttp.ClientError, ConnectionError, asyncio.TimeoutError)  # how a killed server looks from outside

_IS_SOAK = bool(os.environ.get("ACCORD_SOAK"))
_PATHS = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
}


def size(normal: int, soak: int) -> int:
    """How much to do: `make test` has minutes, `make soak` has hours."""
    return soak if _IS_SOAK else normal


def quick_folder() -> Path:
    """A new folder, in memory if it can be: a process that dies leaves the same there as on a disk, and a flush takes no time."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.exists() else None))


def report(promise: str, **figures: object) -> None:
    """Print what was really done; pytest shows it with -s or -rP."""
    print(f"\n{promise}: " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items()))


def message(text: str, skill: str = "", *, task_id: str = "", **configuration: object) -> dict[str, Any]:
    """The params of a send, with a message id of its own."""
    said: dict[str, Any] = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    if skill:
        said["metadata"] = {"skill": skill}
    if task_id:
        said["taskId"] = task_id
    return {"message": said, **({"configuration": configuration} if configuration else {})}


def state_of(task: dict[str, Any]) -> str:
    return task["status"]["state"]


def text_of(task: dict[str, Any]) -> str:
    """Everything in a task's artifacts."""
    return "".join(part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"])


def told(task: dict[str, Any]) -> str:
    """What the agent says with a task's status."""
    said = task["status"].get("message")
    return said["parts"][0]["text"] if said else ""


class Refused(Exception):
    """An A2A error came back."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.reason = (error.get("data") or error.get("details"))[0]["reason"]


class Died(AssertionError):
    """A server ended before it answered."""


class Frame(NamedTuple):
    """One server-sent event: its number, and the stream response in it."""

    id: int
    event: dict[str, Any]

    @property
    def state(self) -> str:
        """The state it shows; empty for an artifact."""
        shown = self.event.get("task") or self.event.get("statusUpdate")
        return state_of(shown) if shown else ""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def task_id(self) -> str:
        (inside,) = self.event.values()
        return inside.get("taskId") or inside["id"]


class Client:
    """Says one thing to a server over one of the two HTTP bindings."""

    def __init__(self, session: aiohttp.ClientSession, url: str, binding: str) -> None:
        self.binding = binding
        self._session = session
        self._url = url
        self._ids = itertools.count(1)

    async def call(self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the result. Raises Refused for an A2A error, one of BROKEN if there is no answer."""
        async with self._request(method, params, headers) as answer:
            body = await answer.json(content_type=None)
        if "error" in body:
            raise Refused(body["error"])
        return body["result"] if self.binding == "jsonrpc" else body

    async def send(self, params: dict[str, Any], headers: dict[str, str] | None = None) -> dict[str, Any]:
        return (await self.call("SendMessage", params, headers))["task"]

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.call("GetTask", {"id": task_id})

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.call("CancelTask", {"id": task_id})

    async def total(self, status: str = "") -> int:
        """How many tasks there are, all or in one state."""
        return (await self.call("ListTasks", {"pageSize": 1, **({"status": status} if status else {})}))["totalSize"]

    async def every_task(self) -> AsyncIterator[dict[str, Any]]:
        token = ""
        while True:
            page = await self.call("ListTasks", {"pageSize": 100, "includeArtifacts": True, "pageToken": token})
            for task in page["tasks"]:
                yield task
            token = page["nextPageToken"]
            if not token:
                return

    async def stream(
        self, method: str, params: dict[str, Any], headers: dict[str, str] | None = None, comments: list[str] | None = None
    ) -> AsyncIterator[Frame]:
        """Yield the frames of a stream to its proper end; comments are added to `comments`.

        Raises Refused for an error in place of the stream or as its last event, one of BROKEN if it was cut.
        """
        async with self._request(method, params, headers) as answer:
            if not answer.headers["content-type"].startswith("text/event-stream"):
                raise Refused((await answer.json(content_type=None))["error"])
            number = 0
            async for raw in answer.content:
                line = raw.decode().rstrip("\n")
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("data: "):
                    found = json.loads(line[6:])
                    if "error" in found:
                        raise Refused(found["error"])
                    yield Frame(number, found["result"] if self.binding == "jsonrpc" else found)
                elif line.startswith(":") and comments is not None:
                    comments.append(line)

    def subscribe(self, task_id: str, after: int | None = None, comments: list[str] | None = None) -> AsyncIterator[Frame]:
        """Subscribe; with `after`, resume behind that event."""
        headers = {} if after is None else RESUME | {"last-event-id": str(after)}
        return self.stream("SubscribeToTask", {"id": task_id}, headers, comments)

    def _request(self, method: str, params: dict[str, Any], headers: dict[str, str] | None) -> Any:
        headers = JSON | (headers or {})
        if self.binding == "jsonrpc":
            body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
            return self._session.post(self._url + "/", json=body, headers=headers)
        verb, path = _PATHS[method]
        rest = {name: value for name, value in params.items() if "{%s}" % name not in path}
        url = self._url + path.replace("{id}", quote(str(params.get("id", "")), safe=""))
        if verb == "GET":
            query = {k: str(v).lower() if isinstance(v, bool) else v for k, v in rest.items()}
            return self._session.get(url, params=query, headers=headers)
        return self._session.post(url, json=rest, headers=headers)


class Server:
    """One server on one port and one database file, started and killed as often as wanted.

    `start` returns only when the process it started is the one that answers: a leftover server on the port would make
    every later result worthless.
    """

    def __init__(self, folder: Path, *, agent: str = "busy", keep_alive_s: float = 15.0, grace_s: float = 0.2) -> None:
        self.database = folder / "accord.db"
        self.log = folder / "server.log"
        self.up = asyncio.Event()
        self.starts = 0
        self._port = _free_port()
        self.command = [sys.executable, str(AGENTS / "serve.py")]
        self.command += [agent, str(self._port), str(self.database), str(keep_alive_s), str(grace_s)]
        self.environment: dict[str, str] = {}
        self.is_forked = True  # otherwise an interpreter of its own: to measure its memory, to trace it
        self._process: Process | asyncio.subprocess.Process | None = None
        self._session: aiohttp.ClientSession | None = None

    def client(self, binding: str = "jsonrpc") -> Client:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            patience = aiohttp.ClientTimeout(total=None, sock_read=60)
            self._session = aiohttp.ClientSession(connector=connector, timeout=patience, read_bufsize=1 << 20)
        return Client(self._session, f"http://127.0.0.1:{self._port}", binding)

    def clients(self) -> tuple[Client, Client]:
        """One client for each binding."""
        return self.client("jsonrpc"), self.client("rest")

    async def start(self) -> None:
        environment = os.environ | self.environment
        if self.is_forked:
            self._process = Process(self.command[1:], environment, self.log)
        else:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(*self.command, stdout=log, stderr=log, env=environment)
        self.starts += 1
        await asyncio.wait_for(self._answers(), timeout=60)
        self.up.set()

    async def _answers(self) -> None:
        client = self.client()
        while True:
            assert self._process is not None
            if self._process.returncode is not None:
                raise Died(f"the server ended with {self._process.returncode}:\n{self.log.read_text()}")
            try:
                said = await client.call("SendMessage", message("?", "who"))
            except BROKEN:
                await asyncio.sleep(0.02)  # another process: there is no event to wait on before it listens
                continue
            assert said["message"]["parts"][0]["text"] == str(self._process.pid), "another process answers on our port"
            return

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def ended(self) -> int:
        """Wait for the process to end by itself and return its exit code."""
        assert self._process is not None
        code = await asyncio.wait_for(self._process.wait(), timeout=30)
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
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self.ended()

    async def close(self) -> None:
        """Let nothing run on, and see that the server never had a fault of its own."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()
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


def _free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
