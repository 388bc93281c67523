"""A clock that stands still until a test moves it."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from ..agent import Agent
from ..app import App
from ..client import Client, connect
from ..model import now_ms
from ..store import Store, open_store

__all__ = ["Clock"]


class Clock:
    """The clock of a store, for tests: time passes when the test says so.

        clock = Clock()
        async with clock.connect(agent) as client:
            ...
            clock.advance(31 * 24 * 3600)  # a month later

    Whatever waits for a time by this clock is woken then.
    """

    def __init__(self, start_ms: int | None = None) -> None:
        """Begin at `start_ms`, in milliseconds since 1970; now, if nothing is said."""
        self._start_ms = now_ms() if start_ms is None else start_ms
        self._passed_ms = 0
        self._lock = threading.Lock()
        self._subscribed: dict[object, tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = {}

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self._start_ms + self._passed_ms

    def elapsed_s(self) -> float:
        """Return how many seconds the clock was advanced by."""
        return self._passed_ms / 1000

    def connect(self, agent: Agent, **options: Any) -> Client:
        """Return a client of an agent in process, as `connect` does, for which this is the time."""
        return connect(_Timed(agent, self.store()), **options)

    def store(self, url: str = "memory://") -> Store:
        """Return a store that goes by this clock: `memory://` or `sqlite:///file`."""
        return open_store(url, clock=self)

    def advance(self, by: float | timedelta) -> None:
        """Let so much time pass: seconds, or a `timedelta`. May be called from any thread."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if not seconds >= 0:
            raise ValueError(f"a clock can only go forward, not by {seconds} seconds")
        with self._lock:
            self._passed_ms += round(seconds * 1000)
            subscribed = list(self._subscribed.items())
        for token, (loop, wake) in subscribed:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:  # the loop is closed
                self._subscribed.pop(token, None)

    async def sleep_until(self, at_ms: int) -> None:
        """Return when the clock was advanced to this time."""
        moved = asyncio.Event()
        end = self.subscribe(moved.set)
        try:
            while self.now_ms() < at_ms:
                moved.clear()
                if self.now_ms() < at_ms:  # another thread may have advanced it just now
                    await moved.wait()
        finally:
            end()

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` in this event loop whenever the clock is advanced. Return a function that
        ends this.
        """
        token = object()
        with self._lock:
            self._subscribed[token] = (asyncio.get_running_loop(), wake)
        return lambda: (self._subscribed.pop(token, None), None)[1]


class _Timed(NamedTuple):
    """An agent on a store of its own. Who connects to it opens and closes both."""

    agent: Agent
    store: Store

    def app(self) -> App:
        return self.agent.app(store=self.store)
