"""A server that says, byte for byte, what a test wants it to say, and remembers byte for byte what
it was told.
"""

import asyncio
import contextlib
import queue
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from accord.net import Network, Request, Response
from tests.client.certs import Authority

PATIENCE_S = 60.0  # far more than anything here takes: a test that hangs fails, with a name
OK = b"HTTP/1.1 200 OK\r\n"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ok(body: bytes = b"hi", *lines: bytes) -> bytes:
    """An answer of a known length."""
    return (
        OK
        + b"".join(line + b"\r\n" for line in lines)
        + b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


class Say(msgspec.Struct):
    """What is said to one request: pieces, each flushed; then the connection stays, or is closed,
    or waits to be closed.
    """

    pieces: list[bytes]
    then: str = "stay"


def say(*pieces: bytes, then: str = "stay") -> Say:
    return Say(list(pieces), then)


class Wire:
    def __init__(self, turns: list[Say]) -> None:
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()  # a request came
        self.left = asyncio.Event()  # a connection was closed by the client
        self.closed = asyncio.Event()  # a connection was closed, by whomever
        self._turns = turns

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.requests.append(await _request(reader))
                self.asked.set()
                turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
                for piece in turn.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if turn.then == "close":
                    return
                if turn.then == "wait":
                    await reader.read()
                    raise EOFError
        except (EOFError, ConnectionError):
            self.left.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
            self.closed.set()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [
        line.split(b":")[1]
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    return head + (await reader.readexactly(int(lengths[0])) if lengths else b"")


@asynccontextmanager
async def speaking(
    *turns: Say | bytes, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Wire]:
    """Serve the turns in order, one to a request; the last one to all that follow."""
    wire = Wire([turn if isinstance(turn, Say) else Say([turn]) for turn in turns])
    async with handled(wire.serve, host, tls) as wire.url:
        yield wire


@asynccontextmanager
async def handled(
    handler: Handler, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Serve connections with `handler`; its URL. Whatever it still does in the end is ended."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (EOFError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"
    finally:
        server.close()
        for _ in range(
            3
            # what had been accepted is only begun a turn later, and what is closed is so a turn
            # later too
        ):
            await asyncio.sleep(0.01)
            left = list(tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)


@contextmanager
def in_thread(handler: Handler, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve on a loop of its own, which goes on while the test's loop stands still."""
    ready: queue.Queue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        over = asyncio.Event()
        async with handled(handler, tls=tls) as url:
            ready.put((url, asyncio.get_running_loop(), over))
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, loop, over = ready.get()
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


def secured(authority: Authority) -> ssl.SSLContext:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*authority.issue("server"))
    return server


@asynccontextmanager
async def network(**options: Any) -> AsyncIterator[Network]:
    made = Network(**({"connect_s": PATIENCE_S, "lost_s": PATIENCE_S} | options))
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield made
    finally:
        await made.close()


async def get(
    net: Network,
    url: str,
    verb: str = "GET",
    body: bytes | None = None,
    *,
    limit: int = 1 << 20,
    **options: Any,
) -> Response:
    request = Request(verb, url, body=body, **({"timeout_s": PATIENCE_S} | options))
    return await net.fetch(request, limit=limit)


async def stream(
    net: Network, url: str, verb: str = "GET", *, idle_s: float = PATIENCE_S, **options: Any
) -> bytes:
    """Read an answer as it comes, to its end."""
    request = Request(verb, url, **({"timeout_s": PATIENCE_S} | options))
    body = await net.open(request, idle_s=idle_s)
    try:
        return b"".join([chunk async for chunk in body.chunks()])
    finally:
        await body.close()


Reader = Callable[[Network, str], Any]


async def whole(net: Network, url: str) -> tuple[int, bytes]:
    answer = await get(net, url)
    return answer.status, answer.body


async def piecewise(net: Network, url: str) -> tuple[int, bytes]:
    body = await net.open(Request("GET", url, PATIENCE_S), idle_s=PATIENCE_S)
    return body.status, b"".join([chunk async for chunk in body.chunks()])


READERS: dict[str, Reader] = {"whole": whole, "piecewise": piecewise}
