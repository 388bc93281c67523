"""Server-sent events: a task's events as they are committed, what is ready in one write."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ..model import A2AError, Message
from ..run.feed import Reader
from .asgi import Receive, Scope, Send

__all__ = ["stream"]

KEEP_ALIVE_S = 15.0
STALLED_S = 30.0
SOON_S = 1.0

_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_KEEP_ALIVE = b": keep-alive\n\n"


async def stream(
    scope: Scope,
    receive: Receive,
    send: Send,
    reader: Reader | Message,
    *,
    prefix: bytes,
    suffix: bytes,
    encode: Callable[[Any], bytes],
    encode_error: Callable[[A2AError], bytes],
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Send `reader` to its end. `prefix` and `suffix` go around every encoded event."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
    if isinstance(reader, Message):
        body = b"data: %b%b%b\n\n" % (prefix, encode(reader), suffix)
        await send({"type": "http.response.body", "body": body})
        return
    writer = _Writer(scope, receive, send, reader)
    patience_s = SOON_S
    try:
        while not writer.is_gone:
            try:
                entries = await reader.next(patience_s)
            except A2AError as error:
                await writer.write(b"event: error\ndata: %b\n\n" % encode_error(error))
                break
            if entries is None:
                if patience_s == SOON_S:
                    writer.watch()
                else:
                    await writer.write(_KEEP_ALIVE)
                patience_s = KEEP_ALIVE_S
            elif entries:
                await writer.write(b"".join([b"id: %d\ndata: %b%b%b\n\n" % (e.seq, prefix, encode(e), suffix) for e in entries]))
            else:
                break
        if not writer.is_gone:
            await send({"type": "http.response.body", "body": b""})
    finally:
        writer.close()
        reader.close()


class _Writer:
    """Writes to one client, and notices when it has gone or takes nothing any more.

    A client that takes no byte for `STALLED_S` is cut without the closing chunk, so that a cut can't look like an end.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, reader: Reader) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._busy_since = 0.0
        self._watcher: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(STALLED_S, self._look)
        self.is_gone = False

    async def write(self, data: bytes) -> None:
        self._busy_since = time.monotonic()
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        except asyncio.CancelledError:
            if not self.is_gone:
                raise
        self._busy_since = 0.0

    def watch(self) -> None:
        """The stream is idle: from now on notice if the client goes away. Short streams end before this is worth it."""
        if self._watcher is None:
            self._watcher = self._loop.create_task(self._wait_gone())

    async def _wait_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self._reader.nudge()

    def _look(self) -> None:
        if not self._busy_since or time.monotonic() - self._busy_since < STALLED_S:
            self._timer = self._loop.call_later(STALLED_S / 2, self._look)
            return
        self.is_gone = True
        abort = self._scope.get("extensions", {}).get("accord.abort")
        if abort is not None:
            abort()  # what waits to be sent is dropped, and `write` returns
        elif self._task is not None:
            self._task.cancel()  # another server than ours: leaving without the last chunk is all that can be done

    def close(self) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
