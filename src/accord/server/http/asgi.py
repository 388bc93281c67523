"""Requests and answers as ASGI has them: for any server that serves our app, and for hosts it is
mounted in.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import quote

from ...model import InvalidRequest, Limits, whole_number
from ..request import (
    BodyStream,
    Headers,
    HttpRequest,
    HttpResponse,
    Pairs,
    Peer,
    ServerUrl,
    SizedResponse,
    StreamingResponse,
    Target,
    check_header,
    is_upload,
    too_large,
)

__all__ = ["Receive", "Scope", "Send", "converse"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


_NOSNIFF = (b"x-content-type-options", b"nosniff")


async def converse(
    answer: Callable[[HttpRequest], Awaitable[HttpResponse | StreamingResponse]],
    scope: Scope,
    receive: Receive,
    send: Send,
    limits: Limits,
    is_refused: Callable[[HttpRequest], bool] = lambda request: False,
) -> None:
    """Have a request answered. One that `is_refused` for its headers is not read any further."""
    request = _request(scope)
    if is_upload(request.target) and not is_refused(request):
        request.stream = _AsgiBody(receive)
    elif request.target.verb not in ("GET", "HEAD") and not is_refused(request):
        await _read_body(request, receive, limits.body)
    found = await answer(request)
    if isinstance(found, HttpResponse):
        length = (
            () if found.status in (204, 304) else ((b"content-length", b"%d" % len(found.body)),)
        )
        kind = ((b"content-type", found.content_type),) if found.body else ()
        await _open(send, found.status, (*kind, *length, *found.headers))
        await send({"type": "http.response.body", "body": found.body})
        return
    out = _Out(receive, send, limits.stalled_s)
    try:
        if isinstance(found, SizedResponse):
            length = ((b"content-length", b"%d" % found.length),)
            await _open(send, found.status, (*length, *found.headers))
        else:
            await _open(send, 200, found.headers)
        await found.send(out)
    finally:
        out.close()
        found.close()


class _AsgiBody(BodyStream):
    """The body of an upload, as another server gives it."""

    __slots__ = ("_receive",)

    def __init__(self, receive: Receive) -> None:
        super().__init__(lambda: None)
        self._receive = receive

    async def pieces(self) -> AsyncIterator[bytes]:
        self.is_read = True
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ConnectionResetError("the client is gone")
            if piece := event.get("body", b""):
                yield piece
            if not event.get("more_body", False):
                return


def _request(scope: Scope) -> HttpRequest:
    root = scope.get("root_path", "")
    path = scope["path"].removeprefix(root) or "/"
    raw = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else quote(scope["path"])
    target = Target(scope["method"], path, raw.removeprefix(root), scope.get("query_string", b""))
    pairs = list(scope["headers"])

    def server_url() -> ServerUrl:
        server = scope.get("server") or ("localhost", None)
        return ServerUrl(scope.get("scheme", "http"), (str(server[0]), server[1]), root)

    def peer() -> Peer:
        client = scope.get("client")
        return Peer(str(client[0]) if client else "")

    return HttpRequest(target, dict(pairs), pairs, server_url, peer=peer)


async def _open(send: Send, status: int, headers: Pairs) -> None:
    for name, value in headers:
        check_header(name, value)  # not every server does
    await send({"type": "http.response.start", "status": status, "headers": [*headers, _NOSNIFF]})


async def _read_body(request: HttpRequest, receive: Receive, limit: int) -> None:
    """Take the body, as far as anyone may send it."""
    if _is_announced_too_large(request.headers, limit):
        request.problem = too_large(limit)
        return
    event = await receive()
    pieces = [event.get("body", b"")]
    size = len(pieces[0])
    while event.get("more_body", False) and size <= limit:
        event = await receive()
        if event["type"] == "http.disconnect":
            request.problem = InvalidRequest("the request ended before its body did")
            return
        pieces.append(event.get("body", b""))
        size += len(pieces[-1])
    if size > limit:
        request.problem = too_large(limit)
    else:
        request.body = b"".join(pieces)


def _is_announced_too_large(headers: Headers, limit: int) -> bool:
    return whole_number(headers.get(b"content-length", b"0"), limit) is None


class _Out:
    """Writes a stream to one client, and notices when it has gone or takes nothing any more.

    A client that takes no byte for `Limits.stalled_s` is cut without the closing chunk, so that a
    cut can't look like an end: a timer stops the write, and to leave without the last chunk is all
    that can be done. A task waits for the client to go.
    """

    def __init__(self, receive: Receive, send: Send, stalled_s: float) -> None:
        self._receive = receive
        self._send = send
        self._stalled_s = stalled_s
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_stalled = False
        self.is_gone = False

    async def ready(self) -> None:
        """The server waits for its client while it is given something."""

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        if not self.is_gone:
            with self:
                await self._send(
                    {"type": "http.response.body", "body": data, "more_body": not is_last}
                )

    async def flush(self) -> None:
        """The server has the head, and sends it as it likes."""

    def idle(self, on_gone: Callable[[], None]) -> None:
        if self._watcher is None:
            self._watcher = self._loop.create_task(self._wait_gone(on_gone))

    async def _wait_gone(self, on_gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        on_gone()

    def abort(self) -> None:
        raise ConnectionResetError("broken off")

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(self._stalled_s, self._stall)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._stop_timer()
        return self._is_stalled and kind is asyncio.CancelledError

    def _stall(self) -> None:
        self._is_stalled = self.is_gone = True
        if self._task is not None:
            self._task.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        self._stop_timer()
        if self._watcher is not None:
            self._watcher.cancel()
