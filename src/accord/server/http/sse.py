"""Server-sent events: a task's events as they are committed, what is ready in one write, up to a
limit.
"""

import abc

from ...engine import LARGE, offload
from ...engine.log import Event
from ...engine.reading import View
from ...model import A2AError, Message
from ...protocol import Codec
from ...protocol.v1 import codec as v1
from ..request import HttpResponse, Pairs, ResponseWriter, StreamingResponse
from ..transport import UnreadAnswers

__all__ = ["EVENTS", "EVENTS_HEADERS", "EventEncoder", "Events", "answer_of"]

HEAD_S = 0.01  # how long a stream's head waits for its first event
SOON_S = 1.0
WRITE_BYTES = 256 << 10  # at once, however much is ready

EVENTS = b"text/event-stream"
EVENTS_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_KEEP_ALIVE = b": keep-alive\n\n"


class EventEncoder(abc.ABC):
    """How one stream writes its events: the codec's shape, and what goes around it."""

    __slots__ = ("_codec", "_prefix", "_suffix", "is_as_stored")

    error_event = b"event: error\n"

    def __init__(self, codec: Codec, prefix: bytes = b"", suffix: bytes = b"") -> None:
        self._codec = codec
        self.is_as_stored = codec is v1.CODEC  # events are kept in this very shape
        self._prefix = prefix
        self._suffix = suffix

    @abc.abstractmethod
    def error(self, error: A2AError) -> bytes:
        """The data of an event that says what went wrong."""

    def of(self, events: list[Event], view: View) -> bytes:
        if self.is_as_stored:
            prefix, suffix = self._prefix, self._suffix
            return b"".join(
                [b"id: %d\ndata: %b%b%b\n\n" % (e.seq, prefix, e.data, suffix) for e in events]
            )
        return b"".join([self._other(event, view) for event in events])

    def message(self, message: Message) -> bytes:
        frames = self._codec.frames(message, seq=0, is_last=True, index=lambda _: 0)
        return b"".join(
            [b"data: %b%b%b\n\n" % (self._prefix, frame, self._suffix) for frame in frames]
        )

    def _other(self, event: Event, view: View) -> bytes:
        """The shape of another version: made once, shared by all readers of that version."""
        is_last = view.ends_at(event)
        key = (self._codec, is_last)
        if event.shapes is None:
            event.shapes = {}
        frames = event.shapes.get(key)
        if frames is None:
            decoded = v1.decode_event(event.data)
            frames = event.shapes[key] = self._codec.frames(
                decoded, seq=event.seq, is_last=is_last, index=view.index
            )
        datas = [b"data: %b%b%b\n\n" % (self._prefix, frame, self._suffix) for frame in frames]
        # The number goes to the last frame of an event: whoever resumes after it has seen all of
        # them.
        return b"".join([*datas[:-1], b"id: %d\n%b" % (event.seq, datas[-1])]) if datas else b""


def answer_of(
    found: View | Message, frames: EventEncoder, extra: Pairs, unread: UnreadAnswers
) -> HttpResponse | StreamingResponse:
    """The answer to who asked for a stream; a bare message is all there is to say."""
    if isinstance(found, Message):
        return HttpResponse(200, frames.message(found), EVENTS, (*EVENTS_HEADERS, *extra))
    return Events(found, frames, extra, unread)


class Events:
    """What a view reads, as a stream of events."""

    __slots__ = ("_frames", "_unread", "_view", "headers")

    def __init__(
        self, view: View, frames: EventEncoder, extra: Pairs, unread: UnreadAnswers
    ) -> None:
        self._unread = unread
        self._view = view
        self._frames = frames
        self.headers: Pairs = ((b"content-type", EVENTS), *EVENTS_HEADERS, *extra)

    async def send(self, out: ResponseWriter) -> None:
        frames = self._frames
        try:
            await self._send(out)
        except A2AError as error:
            await out.write(
                b"%bdata: %b\n\n" % (frames.error_event, frames.error(error)), is_last=True
            )

    async def _send(self, out: ResponseWriter) -> None:
        view, wait_s = self._view, HEAD_S
        while not out.is_gone:
            events = await view.next(wait_s)
            if events is None:
                wait_s = await self._wait(out, wait_s)
                continue
            if wait_s == HEAD_S:
                wait_s = SOON_S
            is_over = not events or view.is_over  # the end leaves with the last of it, in one write
            if len(events) > 1:
                events = await self._send_most(out, events)
            await self._write(out, events, is_last=is_over)
            if is_over:
                return

    async def _send_most(self, out: ResponseWriter, events: list[Event]) -> list[Event]:
        """If much is ready, send all but the last piece of it, and return that: what a slow client
        leaves lying is little.
        """
        begin = size = 0
        for end, event in enumerate(events[:-1], 1):
            size += len(event.data)
            if size > WRITE_BYTES:
                await self._write(out, events[begin:end])
                begin, size = end, 0
        return events[begin:] if begin else events

    async def _write(
        self, out: ResponseWriter, events: list[Event], *, is_last: bool = False
    ) -> None:
        size = sum([len(event.data) for event in events])
        if size <= LARGE:
            await out.write(self._frames.of(events, self._view), is_last=is_last)
            return
        await out.ready()  # what waits for its client is not made before
        with await self._unread.reserved(size):
            # Events of 1.0 are sent as they are stored: one copy, which is not worth a thread.
            data = await offload(
                0 if self._frames.is_as_stored else size, self._frames.of, events, self._view
            )
            await out.write(data, is_last=is_last)

    def close(self) -> None:
        self._view.close()

    async def _wait(self, out: ResponseWriter, wait_s: float) -> float:
        """Nothing came for so long; return how long to wait now."""
        if wait_s == HEAD_S:
            await out.flush()
            return SOON_S
        if wait_s == SOON_S:
            out.idle(self._view.nudge)  # short streams end before this is worth it
        else:
            await out.write(_KEEP_ALIVE)
        return self._view.limits.keep_alive_comment_s
