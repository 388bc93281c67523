"""HTTP without a network: requests go straight into an ASGI app. For tests, and for agents in the
same process.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from ...net import Request, Response, ResponseBody, ResponseHeaders, parse_url, safe_url
from ..errors import BadAnswer, ConnectionLost, TooSlow

__all__ = ["BASE_URL", "InProcess"]

App: TypeAlias = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

BASE_URL = "http://localhost"

_AHEAD = 64  # chunks an app may be ahead of its reader, as a socket buffer would let it


class InProcess:
    """Keeps the `Http` contract by calling an app.

    An app that raises, or returns before its answer is complete, is a broken connection, as it
    would be behind a server.
    """

    def __init__(self, app: App, *, owns_app: bool) -> None:
        self._app = app
        self._lifespan = _Lifespan(app) if owns_app else None

    async def fetch(self, request: Request, *, limit: int) -> Response:
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await self._start(request)
                pieces, size = [], 0
                try:
                    async for piece in answer.chunks():
                        size += len(piece)
                        if size > limit:
                            raise BadAnswer(
                                safe_url(request.url), f"the answer is larger than {limit} bytes"
                            )
                        pieces.append(piece)
                finally:
                    await answer.close()
        except TimeoutError:
            raise _too_slow(request.url, request.timeout_s) from None
        return Response(answer.status, answer.headers, b"".join(pieces))

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        try:
            async with asyncio.timeout(request.timeout_s):
                answer = await self._start(request)
        except TimeoutError:
            raise _too_slow(request.url, request.timeout_s) from None
        answer.idle_s = idle_s
        return answer

    async def _start(self, request: Request) -> "_Exchange":
        if self._lifespan is not None:
            await self._lifespan.start()
        exchange = _Exchange(request.url, request.body or b"")
        exchange.run(self._app, _scope(request))
        try:
            await exchange.started
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def close(self) -> None:
        if self._lifespan is not None:
            await self._lifespan.stop()


class _Exchange:
    """One request and its answer."""

    def __init__(self, url: str, body: bytes) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.idle_s: float | None = None
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._url = url
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_AHEAD)
        self._is_complete = False
        self._task: asyncio.Task[None] | None = None

    def run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(app, scope))

    async def _run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        why = "the app ended before its answer was complete"
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            why = f"the app raised {type(error).__name__}: {error}"
        if self._is_complete:
            return
        lost = ConnectionLost(safe_url(self._url), why)
        if not self.started.done():
            self.started.set_exception(lost)
            self.started.exception()
        if not self._gone.is_set():
            await self._queue.put(lost)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if self._gone.is_set():
            return
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = ResponseHeaders.of(event.get("headers", ()))
            self.started.set_result(None)
        elif event["type"] == "http.response.body":
            if event.get("body"):
                await self._queue.put(event["body"])
            if not event.get("more_body", False):
                self._is_complete = True
                await self._queue.put(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self.idle_s):
                    item = await self._queue.get()
            except TimeoutError:
                raise _too_slow(self._url, self.idle_s or 0) from None
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item

    async def close(self) -> None:
        self._gone.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=0.05)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])


class _Lifespan:
    """Starts and stops an app the way a server does."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._inbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._outbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_up: asyncio.Future[None] | None = None

    async def start(self) -> None:
        if self._is_up is None:
            loop = asyncio.get_running_loop()
            self._is_up = loop.create_future()
            self._task = loop.create_task(self._run())
            await self._inbox.put({"type": "lifespan.startup"})
            event = await self._outbox.get()
            if event["type"] == "lifespan.startup.failed":
                self._is_up.set_exception(
                    RuntimeError(f"the app did not start: {event.get('message', '')}")
                )
            else:
                self._is_up.set_result(None)
        await self._is_up

    async def _run(self) -> None:
        with contextlib.suppress(Exception):  # an app without a lifespan says so by raising
            await self._app(
                {"type": "lifespan", "asgi": {"version": "3.0"}}, self._inbox.get, self._outbox.put
            )
        await self._outbox.put({"type": "lifespan.ended"})

    async def stop(self) -> None:
        if self._task is not None:
            await self._inbox.put({"type": "lifespan.shutdown"})
            await asyncio.wait([self._task])
            self._task = None
            self._is_up = None


def _too_slow(url: str, timeout_s: float) -> TooSlow:
    return TooSlow(safe_url(url), f"no answer within {timeout_s:g} s")


def _scope(request: Request) -> MutableMapping[str, Any]:
    where = parse_url(request.url)
    raw = where.path or "/"
    lines = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in request.headers.items()
    ]
    lines.append((b"host", where.authority.encode("ascii")))
    if request.body is not None:
        lines.append((b"content-length", b"%d" % len(request.body)))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.verb,
        "scheme": where.scheme,
        "path": unquote(raw),
        "raw_path": raw.encode("ascii"),
        "query_string": where.query.encode("ascii"),
        "root_path": "",
        "headers": lines,
        "client": ("127.0.0.1", 0),
        "server": (where.host, where.port),
    }
