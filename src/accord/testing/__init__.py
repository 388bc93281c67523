"""What users import to test their own code against agents.

async with connect(agent) as client:            # your own agent, in process: no network, no port
    assert (await client.send("hi")).text == "Hello"

async with FakeAgent("Sunny", Ask("Which day?")) as weather:  # somebody else's, as you need it
    weather.fail(Status(503), Disconnect(after=2))            # and its bad days
    async with connect(weather.url) as client: ...
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from ..agent import Agent
from ..app import App
from ..client import Client, connect
from ..engine.skills import Ask, Context
from ..model import Message
from ..server import request as wire
from ..server.http import Receive, Scope, Send, converse
from ..server.http1 import HttpServer
from .clock import Clock
from .fork import fork

__all__ = [
    "Ask",
    "Clock",
    "Delay",
    "Disconnect",
    "Duplicate",
    "FakeAgent",
    "Fault",
    "Status",
    "client_fixture",
    "fork",
]


def __dir__() -> list[str]:
    return __all__


# a value, a list of chunks, Ask, an exception, or a function of the message that gives one of those
HttpResponse: TypeAlias = Any

_CARD = "/.well-known/"


class Status(msgspec.Struct, frozen=True):
    """Answer with an HTTP status instead: 429, 503, ..."""

    status: int
    retry_after_s: int | None = None


class Delay(msgspec.Struct, frozen=True):
    """Answer late."""

    seconds: float


class Disconnect(msgspec.Struct, frozen=True):
    """Break the connection before the answer (0), or after this many events of a stream."""

    after: int = 0


class Duplicate(msgspec.Struct, frozen=True):
    """Send every event of a stream twice, as a broken proxy might."""


Fault: TypeAlias = Status | Delay | Disconnect | Duplicate


class Request(msgspec.Struct, frozen=True):
    """Hold a request that a fake agent got. Header names are in lower case."""

    verb: str
    path: str
    headers: dict[str, str]


class FakeAgent:
    """Play a remote agent that answers as your test says, over every version and binding.

    Each message gets the next answer of the script; the last answer is repeated. With `async with`
    it is served on its own port (`url`); `connect(fake)` works without a port.
    """

    def __init__(self, *script: HttpResponse, name: str = "Fake agent") -> None:
        self.messages: list[Message] = []
        self.requests: list[Request] = []
        self.url = ""
        self._script = deque(script or ("",))
        self._faults: deque[Fault] = deque()
        self._agent = Agent(name, description="Does as it is told.")
        self._agent.skill(id="answer", description="Give the next answer.")(self._answer)
        self._app: App | None = None
        self._server: HttpServer | None = None

    def fail(self, *faults: Fault) -> None:
        """Make the next requests fail, one fault each. The card is always served."""
        self._faults.extend(faults)

    def app(self) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the agent as an ASGI app, faults included."""
        return self._serve

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._opened()
        if scope["type"] == "http":
            await converse(self._respond, scope, receive, send, app.limits)
        else:
            await app(scope, receive, send)

    def _opened(self) -> App:
        if self._app is None:
            self._app = self._agent.app()
        return self._app

    async def __aenter__(self) -> "FakeAgent":
        self._server = HttpServer(self._respond, "127.0.0.1", 0, self._opened().limits)
        await self._server.start()
        self.url = self._server.url
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._app is not None:
            await self._app.close()
        if self._server is not None:
            await self._server.stop()

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

    async def _respond(
        self, request: wire.HttpRequest
    ) -> wire.HttpResponse | wire.StreamingResponse:
        app, target = self._opened(), request.target
        if target.path.startswith(_CARD):
            return await app.answer(request)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.pairs}
        self.requests.append(Request(target.verb, target.path, headers))
        fault = self._faults.popleft() if self._faults else None
        match fault:
            case Status():
                wait = fault.retry_after_s
                return wire.HttpResponse(
                    fault.status,
                    headers=((b"retry-after", b"%d" % wait),) if wait is not None else (),
                )
            case Delay():
                await asyncio.sleep(fault.seconds)
        answer = await app.answer(request)
        if isinstance(fault, Disconnect) and (
            fault.after == 0 or not isinstance(answer, wire.HttpResponse)
        ):
            return _Faulty(answer, cut_after=fault.after)
        if isinstance(fault, Duplicate) and not isinstance(answer, wire.HttpResponse):
            return _Faulty(answer, times=2)
        return answer


class _Faulty:
    """A stream that does not go as it should: cut after so many events, or with every event more
    than once.
    """

    def __init__(
        self,
        answer: wire.HttpResponse | wire.StreamingResponse,
        *,
        cut_after: int | None = None,
        times: int = 1,
    ) -> None:
        self.headers = answer.headers
        self._answer = answer
        self._left = cut_after
        self._times = times

    async def send(self, out: wire.ResponseWriter) -> None:
        self._out = out
        if self._left == 0 or isinstance(self._answer, wire.HttpResponse):
            out.abort()
        else:
            await self._answer.send(self)

    # Where the stream believes it goes to

    @property
    def is_gone(self) -> bool:
        return self._out.is_gone or self._left == 0

    async def ready(self) -> None:
        await self._out.ready()

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if self._left is None:
            frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
            await self._out.write(
                b"".join(frame * self._times for frame in frames), is_last=is_last
            )
            return
        frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame][: self._left]
        self._left -= len(frames)
        await self._out.write(b"".join(frames))
        if is_last or not self._left:
            self._left = 0
            self.abort()

    def close(self) -> None:
        if not isinstance(self._answer, wire.HttpResponse):
            self._answer.close()

    async def flush(self) -> None:
        await self._out.flush()

    def idle(self, on_gone: Callable[[], None]) -> None:
        self._out.idle(on_gone)

    def abort(self) -> None:
        self._out.abort()


def client_fixture(agent: Any, *, clock: Clock | None = None, **options: Any) -> Any:
    """Return a pytest fixture: a client of `agent`, in process. Needs pytest-asyncio.

    With a `clock`, time passes for the agent when the test says so.

    # conftest.py
    trip = client_fixture(trip_agent)

    # test_trip.py
    async def test_it_asks_for_the_days(trip):
        assert (await trip.send("Rome")).question == "How many days?"
    """
    import pytest_asyncio

    async def client() -> AsyncIterator[Client]:
        made = connect(agent, **options) if clock is None else clock.connect(agent, **options)
        async with made as connected:
            yield connected

    return pytest_asyncio.fixture(client)
