"""Other people's agents: raw HTTP servers that say exactly what a test wants them to say."""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import msgspec

from accord.client.retry import Pause

PATIENCE_S = 60.0  # far more than anything here takes: a test that hangs fails, with a name

Json = dict[str, Any]


class Request(msgspec.Struct):
    """What came, as it came."""

    verb: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


Handler = Callable[[Request], bytes | Awaitable[bytes]]


def answer(value: Any, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """An HTTP response with a body of JSON, text or bytes."""
    body = (
        value
        if isinstance(value, bytes)
        else value.encode()
        if isinstance(value, str)
        else json.dumps(value).encode()
    )
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {text}" for name, text in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def sse(*events: Any, end: bool = True, raw: bytes = b"") -> bytes:
    """A stream of events; without `end` it breaks off."""
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + raw
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return head + chunk + (b"0\r\n\r\n" if end else b"")


@asynccontextmanager
async def scripted(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator["Peer"]:
    """Serve `handler` on a free loopback port: the bytes it returns are the response, the
    connection closes after a broken one.
    """
    peer = Peer(handler)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=tls)
    peer.url = ("https" if tls else "http") + "://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in list(peer.tasks):
            task.cancel()
        await asyncio.gather(*peer.tasks, return_exceptions=True)


class Peer:
    def __init__(self, handler: Handler) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self._handler = handler

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                found = self._handler(request)
                response = await found if not isinstance(found, bytes) else found
                writer.write(response)
                await writer.drain()
                if not _is_complete(response):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    verb, target, _ = first.split(" ")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    return Request(
        verb, target, headers, await reader.readexactly(int(headers.get("content-length", "0")))
    )


def _is_complete(response: bytes) -> bool:
    head, _, body = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(length) and len(body) == int(length[0].split(b":")[1])


def card(url: str, **changes: Any) -> Json:
    """A plain 1.0 card of an agent at `url`; a change to None takes the member away."""
    plain = {
        "name": "Dock clerk",
        "description": "Counts crates.",
        "version": "1.2.3",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "count", "name": "Count", "description": "Counts.", "tags": ["crates"]}],
    } | changes
    return {name: value for name, value in plain.items() if value is not None}


def task(state: str = "COMPLETED", text: str = "17 crates", **changes: Any) -> Json:
    """A task as 1.0 writes it."""
    made = {"artifacts": [{"artifactId": "a", "parts": [{"text": text}]}]} if text else {}
    return {
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": f"TASK_STATE_{state}"},
        **made,
        **changes,
    }


class Proxy:
    """A TCP proxy that cuts connections at random, in the middle of whatever they carry."""

    def __init__(self, port: int, chance: float, seed: int) -> None:
        self.cuts = 0
        self.url = ""
        self._port = port
        self._chance = chance
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = "http://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        both: list[asyncio.Task[None]] = []
        writers = [writer]
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self._port)
            writers.append(outer)
            both += [
                asyncio.create_task(_pump(reader, outer)),
                asyncio.create_task(self._pump_with_cuts(inner, writer)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for pump in both:
                pump.cancel()
            for one in writers:
                one.close()
        await asyncio.gather(*both, return_exceptions=True)

    async def _pump_with_cuts(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            if self._random.random() < self._chance:
                self.cuts += 1
                writer.write(data[: self._random.randrange(len(data))])
                return
            writer.write(data)
            await writer.drain()


class Gate(Proxy):
    """The way to a server that can go away and come back: whoever is inside is thrown out, and
    nobody is let in.
    """

    def __init__(self, url: str) -> None:
        super().__init__(int(url.rpartition(":")[2].rstrip("/")), 0.0, seed=0)

    async def shut(self) -> None:
        await self.__aexit__()

    async def open(self) -> None:
        """Let in again, at the same address."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", int(self.url.rpartition(":")[2])
        )


class Later:
    """What is to happen when a client has paused so many times: no clock decides when an agent
    comes back.
    """

    def __init__(self, after: int, then: Callable[[], Awaitable[None]]) -> None:
        self.pauses: list[Pause] = []
        self._after = after
        self._then = then
        self._doing: asyncio.Future[None] | None = None

    def __call__(self, pause: Pause) -> None:
        self.pauses.append(pause)
        if len(self.pauses) == self._after:
            self._doing = asyncio.ensure_future(self._then())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
