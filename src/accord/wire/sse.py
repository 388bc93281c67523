"""Server-sent events: a task's events as they are committed, what is ready in one write."""

import asyncio
from collections.abc import Callable
from types import TracebackType

from ..codec import v1
from ..codec.contract import Codec
from ..model import A2AError, Message
from ..run.entry import Entry
from ..run.reader import Reader
from .asgi import Pairs, Receive, Scope, Send

__all__ = ["Frames", "fail", "stream"]

SOON_S = 1.0

_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_KEEP_ALIVE = b": keep-alive\n\n"


class Frames:
    """How one stream writes its events: the codec's shape, and what goes around it."""

    def __init__(self, codec: Codec, prefix: bytes, suffix: bytes, error: Callable[[A2AError], bytes]) -> None:
        self._codec = codec
        self._prefix = prefix
        self._suffix = suffix
        self.error = error
        self.error_event = b"event: error\n"

    def of(self, entries: list[Entry], reader: Reader) -> bytes:
        if self._codec is v1.CODEC:  # stored in this very shape
            prefix, suffix = self._prefix, self._suffix
            return b"".join([b"id: %d\ndata: %b%b%b\n\n" % (e.seq, prefix, e.data, suffix) for e in entries])
        return b"".join([self._other(entry, reader) for entry in entries])

    def message(self, message: Message) -> bytes:
        frames = self._codec.frames(message, is_last=True, index=lambda _: 0)
        return b"".join([b"data: %b%b%b\n\n" % (self._prefix, frame, self._suffix) for frame in frames])

    def _other(self, entry: Entry, reader: Reader) -> bytes:
        """The shape of another version: made once, shared by all readers of that version."""
        is_last = reader.ends_at(entry)
        key = (self._codec, is_last)
        if entry.shapes is None:
            entry.shapes = {}
        frames = entry.shapes.get(key)
        if frames is None:
            event = v1.decode_event(entry.data)
            frames = entry.shapes[key] = self._codec.frames(event, is_last=is_last, index=reader.index)
        datas = [b"data: %b%b%b\n\n" % (self._prefix, frame, self._suffix) for frame in frames]
        # The number goes to the last frame of an entry: whoever resumes after it has seen all of them.
        return b"".join([*datas[:-1], b"id: %d\n%b" % (entry.seq, datas[-1])]) if datas else b""


async def stream(
    scope: Scope, receive: Receive, send: Send, reader: Reader | Message, frames: Frames, *, headers: Pairs = ()
) -> None:
    """Send a stream to its end."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
    if isinstance(reader, Message):
        await send({"type": "http.response.body", "body": frames.message(reader)})
        return
    writer = _Writer(scope, receive, send, reader)
    patience_s = SOON_S
    try:
        while not writer.is_gone:
            try:
                entries = await reader.next(patience_s)
            except A2AError as error:
                await writer.write(b"%bdata: %b\n\n" % (frames.error_event, frames.error(error)))
                break
            if entries is None:
                if patience_s == SOON_S:
                    writer.idle()
                else:
                    await writer.write(_KEEP_ALIVE)
                patience_s = reader.limits.keep_alive_comment_s
            elif not entries:
                break
            elif reader.is_over:  # the end leaves with the last of it, in one write
                await writer.write(frames.of(entries, reader), is_more=False)
                return
            else:
                await writer.write(frames.of(entries, reader))
        if not writer.is_gone:
            await send({"type": "http.response.body", "body": b""})
    finally:
        writer.close()
        reader.close()


async def fail(send: Send, error: bytes, headers: Pairs = ()) -> None:
    """Send a stream that is one error and over."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
    await send({"type": "http.response.body", "body": b"data: %b\n\n" % error})


class _Writer:
    """Writes to one client, and notices when it has gone or takes nothing any more.

    A client that takes no byte for `Limits.stalled_s` is cut without the closing chunk, so that a cut can't look like an end.
    Our own server looks after that for all its connections at once; in another one a timer and a task per stream do.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, reader: Reader) -> None:
        self._send = send
        self._reader = reader
        self._connection = scope.get("extensions", {}).get("accord.connection")
        self._watch = _Watch(receive, reader.limits.stalled_s, self._left) if self._connection is None else None
        self.is_gone = False
        if self._connection is not None:
            self._connection.on_gone = self._left

    async def write(self, data: bytes, *, is_more: bool = True) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": is_more}
        if self._watch is None:
            await self._send(message)
            return
        with self._watch:
            await self._send(message)

    def idle(self) -> None:
        """The stream has nothing to say: from now on notice if the client goes away. Short streams end before this is worth it."""
        if self._watch is not None:
            self._watch.start()

    def _left(self) -> None:
        self.is_gone = True
        self._reader.nudge()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.on_gone = None
        if self._watch is not None:
            self._watch.close()


class _Watch:
    """For servers that are not ours: a task that waits for the client to go, a timer that stops a write nobody takes."""

    def __init__(self, receive: Receive, stalled_s: float, on_gone: Callable[[], None]) -> None:
        self._receive = receive
        self._stalled_s = stalled_s
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_stalled = False

    def start(self) -> None:
        if self._watcher is None:
            self._watcher = self._loop.create_task(self._wait_gone())

    async def _wait_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._on_gone()

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(self._stalled_s, self._stall)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self.close_timer()
        return self._is_stalled and kind is asyncio.CancelledError  # leaving without the last chunk is all that can be done

    def _stall(self) -> None:
        self._is_stalled = True
        self._on_gone()
        if self._task is not None:
            self._task.cancel()

    def close_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        self.close_timer()
        if self._watcher is not None:
            self._watcher.cancel()
