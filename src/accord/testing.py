"""What users import to test their own code against agents.

async with connect(agent) as client:            # your own agent, in process: no network, no port
    assert (await client.send("hi")).text == "Hello"

async with FakeAgent("Sunny", Ask("Which day?")) as weather:     # somebody else's agent, as you need it
    weather.fail(Status(503), Cut(after=2))                      # and its bad days
    async with connect(weather.url) as client: ...
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, TypeAlias

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .agent import Agent
from .app import App
from .client import Client, connect
from .model import Message
from .run.context import Context
from .run.parts import Ask

__all__ = ["Ask", "Cut", "Delay", "Duplicate", "FakeAgent", "Fault", "Status", "client_fixture"]

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer: TypeAlias = Any  # a value, a list of chunks, Ask, an exception, or a function of the message that gives one of those

_CARD = "/.well-known/"
_ABORT = "accord.testing.abort"


class _Wire(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with a way to break the connection off."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_ABORT: self.transport.abort}  # type: ignore[dict-item]  # a callable, for the faults below


class Status(msgspec.Struct, frozen=True):
    """Answer with an HTTP status instead: 429, 503, ..."""

    status: int
    retry_after_s: int | None = None


class Delay(msgspec.Struct, frozen=True):
    """Answer, but late."""

    seconds: float


class Cut(msgspec.Struct, frozen=True):
    """Break the connection off: before the answer (0), or after this many events of a stream."""

    after: int = 0


class Duplicate(msgspec.Struct, frozen=True):
    """Send every event of a stream twice, as a broken proxy might."""


Fault: TypeAlias = Status | Delay | Cut | Duplicate


class Request(msgspec.Struct, frozen=True):
    """What somebody sent to a fake agent. Header names are in lower case."""

    verb: str
    path: str
    headers: dict[str, str]


class FakeAgent:
    """A remote agent that does as it is told, over every version and binding.

    Each message gets the next answer of the script; the last one is given again and again. Used with `async with` it is served on a
    port of its own (`url`); `connect(fake)` reaches it without.
    """

    def __init__(self, *script: Answer, name: str = "Fake agent") -> None:
        self.messages: list[Message] = []
        self.requests: list[Request] = []
        self.url = ""
        self._script = deque(script or ("",))
        self._faults: deque[Fault] = deque()
        self._agent = Agent(name, description="Does as it is told.")
        self._agent.skill(id="answer", description="Give the next answer.")(self._answer)
        self._app: App | None = None
        self._server: asyncio.Server | None = None
        self._connections = uvicorn.server.ServerState()

    def fail(self, *faults: Fault) -> None:
        """Let the next requests go wrong, one fault each; the card is always served."""
        self._faults.extend(faults)

    def app(self) -> Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]:
        """Return the agent as an ASGI app, faults included."""
        if self._app is None:
            self._app = self._agent.app()
        return self._serve

    async def __aenter__(self) -> "FakeAgent":
        config = uvicorn.Config(
            self.app(),
            http=_Wire,
            interface="asgi3",
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            proxy_headers=False,
        )
        config.load()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Wire(config=config, server_state=self._connections, app_state={}), "127.0.0.1", 0
        )
        self.url = "http://127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.close()
        if self._app is not None:
            await self._app.close()
        for connection in list(self._connections.connections):
            connection.shutdown()
        if self._connections.tasks:
            await asyncio.wait(self._connections.tasks, timeout=5)

    async def _answer(self, message: Message, ctx: Context) -> Any:
        self.messages.append(message)
        answer = self._script.popleft() if len(self._script) > 1 else self._script[0]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(message)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, list):
            for chunk in answer:
                await ctx.write(chunk)
            return None
        return answer

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        app = self._app
        assert app is not None  # made by `app()`, which is how this came to be called
        if scope["type"] != "http" or scope["path"].startswith(_CARD):
            await app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.requests.append(Request(scope["method"], scope["path"], headers))
        fault = self._faults.popleft() if self._faults else None
        match fault:
            case Status():
                await _refuse(send, fault)
                return
            case Delay():
                await asyncio.sleep(fault.seconds)
            case Cut():
                send = _cutting(scope, send, fault.after)
            case Duplicate():
                send = _doubling(send)
        await app(scope, receive, send)
        if isinstance(fault, Cut):
            while (await receive())["type"] != "http.disconnect":  # the server must not take the cut for a mistake of the app
                pass


async def _refuse(send: Send, fault: Status) -> None:
    headers = [(b"content-length", b"0")]
    if fault.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after_s))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _cutting(scope: MutableMapping[str, Any], send: Send, after: int) -> Send:
    """A connection that breaks when `after` events have gone over it."""
    left, is_cut, is_stream = after, False, False

    def break_off() -> None:
        nonlocal is_cut
        is_cut = True
        abort = scope.get("extensions", {}).get(_ABORT)
        if abort is None:
            raise ConnectionResetError("cut, as asked for")
        abort()

    async def cut(event: MutableMapping[str, Any]) -> None:
        nonlocal left, is_stream
        if is_cut:
            return
        if event["type"] == "http.response.start":
            is_stream = (b"content-type", b"text/event-stream") in event.get("headers", ())
            if after == 0:
                break_off()
            else:
                await send(event)
            return
        if not is_stream:
            await send(event)
            return
        frames = _frames(event)
        await send({**event, "body": b"".join(frames[:left]), "more_body": True})
        left -= len(frames)
        if left <= 0 or not event.get("more_body", False):
            break_off()

    return cut


def _doubling(send: Send) -> Send:
    async def double(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.body":
            event = {**event, "body": b"".join(frame + frame for frame in _frames(event))}
        await send(event)

    return double


def _frames(event: MutableMapping[str, Any]) -> list[bytes]:
    body: bytes = event.get("body", b"")
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame]


def client_fixture(agent: Any, **options: Any) -> Any:
    """Return a pytest fixture: a client of `agent`, in process. Needs pytest-asyncio.

    # conftest.py
    trip = client_fixture(trip_agent)

    # test_trip.py
    async def test_it_asks_for_the_days(trip):
        assert (await trip.send("Rome")).question == "How many days?"
    """
    import pytest_asyncio

    async def client() -> AsyncIterator[Client]:
        async with connect(agent, **options) as connected:
            yield connected

    return pytest_asyncio.fixture(client)
