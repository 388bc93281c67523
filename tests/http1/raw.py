"""An agent on a port of its own, and connections that say exactly the bytes they are told to."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

from accord import Agent, Context, Limits, Reply
from accord.app import App
from accord.server.http1.listener import HttpServer
from tests.drive import say

__all__ = ["Got", "Served", "Wire", "agent", "chunked", "post", "rpc", "send", "served"]

PATIENCE_S = 60.0  # far more than anything here takes


def agent() -> Agent:
    """One that repeats, waits, counts, and answers without a task."""
    agent = Agent("Raw")

    @agent.skill(default=True)
    async def echo(request: str) -> str:
        return request

    @agent.skill
    async def wait(request: str, ctx: Context) -> str:
        return await ctx.ask("and then?")

    @agent.skill
    async def fill(request: str) -> AsyncIterator[str]:
        """As many chunks of as many letters as the text says: `100 1000`."""
        count, length = (int(word) for word in request.split())
        for _ in range(count):
            yield "x" * length

    @agent.skill
    async def reply(request: str) -> Reply:
        async with asyncio.timeout(PATIENCE_S):  # needs a task to run in
            await asyncio.sleep(0)
        return Reply(request)

    @agent.skill
    async def sleep(request: str) -> Reply:
        await asyncio.Event().wait()
        return Reply("never")

    return agent


class Got(NamedTuple):
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection, driven by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def pause_reading(self) -> None:
        self._read_transport.pause_reading()

    def resume_reading(self) -> None:
        self._read_transport.resume_reading()

    @property
    def _read_transport(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self.writer.transport)

    async def drip(self, data: bytes) -> None:
        """Say it byte by byte, each in a packet of its own."""
        for byte in data:
            self.writer.write(bytes([byte]))
            await asyncio.sleep(0)

    async def head(self) -> tuple[int, dict[str, str]]:
        async with asyncio.timeout(PATIENCE_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in lines[1:])
            if name
        }
        return int(lines[0].split()[1]), headers

    async def answer(self, *, is_bare: bool = False) -> Got:
        """Read one answer; a bare one has no body, whatever its headers say."""
        status, headers = await self.head()
        async with asyncio.timeout(PATIENCE_S):
            if is_bare or status in (100, 204, 304):
                return Got(status, headers, b"")
            if headers.get("transfer-encoding") == "chunked":
                return Got(status, headers, await self.chunks())
            if "content-length" not in headers:
                return Got(status, headers, await self.reader.read(-1))
            return Got(
                status, headers, await self.reader.readexactly(int(headers["content-length"]))
            )

    async def chunks(self) -> bytes:
        pieces = []
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            pieces.append(await self.reader.readexactly(size))
            assert await self.reader.readexactly(2) == b"\r\n"
        assert await self.reader.readexactly(2) == b"\r\n"
        return b"".join(pieces)

    async def rest(self) -> bytes:
        """Read until the server closes."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read(-1)
        return b""

    async def hang_up(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Served(NamedTuple):
    """A served agent."""

    app: App
    server: HttpServer

    async def dial(self) -> Wire:
        return Wire(*await asyncio.open_connection("127.0.0.1", self.server.port))

    async def ask(self, data: bytes) -> Got:
        """Say something on a connection of its own; return the answer."""
        wire = await self.dial()
        await wire.say(data)
        got = await wire.answer()
        await wire.hang_up()
        return got

    async def tasks(self) -> int:
        """How many there are."""
        return (await self.ask(post(rpc("ListTasks", {})))).json["result"]["totalSize"]


@contextlib.asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[Served]:
    app = agent().app(limits=Limits(**limits))
    await app.open()
    server = HttpServer(app.answer, "127.0.0.1", 0, app.limits, unread=app.unread)
    await server.start()
    try:
        yield Served(app, server)
    finally:
        await app.close()
        await server.stop()


def rpc(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def send(text: str = "hi", skill: str = "echo", method: str = "SendMessage") -> bytes:
    """The body of a send."""
    return rpc(method, say(text, metadata={"skill": skill}))


def post(body: bytes, path: str = "/", headers: bytes = b"") -> bytes:
    """A whole request."""
    return b"".join((
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Type: "
b"application/json\r\n" % path.encode(),
        b"Content-Length: %d\r\n%b\r\n" % (len(body), headers),
        body,
    ))  # fmt: skip


def chunked(body: bytes, *sizes: int, path: str = "/", headers: bytes = b"") -> bytes:
    """The same in chunks: of these sizes, and one of what is left."""
    pieces, at = [], 0
    for size in (*sizes, len(body)):
        piece = body[at : at + size]
        at += len(piece)
        if piece:
            pieces.append(b"%x\r\n%b\r\n" % (len(piece), piece))
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\nContent-Type: "
        b"application/json\r\n" % path.encode()
    )
    return (
        head
        + b"Transfer-Encoding: chunked\r\n"
        + headers
        + b"\r\n"
        + b"".join(pieces)
        + b"0\r\n\r\n"
    )
