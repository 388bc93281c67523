"""The client without `await`, for scripts and notebooks.

Not a second client: the same objects, driven by an event loop in a thread of its own. What is
awaited there is waited for here, what is an async iterator there is an iterator here, and
everything else is itself.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from ..model import File
from .client import Client
from .connect import connect
from .conversation import Conversation
from .finder import AgentLike
from .reply import ClientReply
from .streams import Stream

__all__ = ["Waiting", "connect_sync"]


def connect_sync(agent: AgentLike, **options: Any) -> "Waiting":
    """Return a client that waits: the names and options of `connect`, without `await`.

    with connect_sync("http://localhost:8000") as trip:
        print(trip.send("A weekend in Rome").text)
        for event in trip.stream("A weekend in Rome"):
            print(event)
    """
    if options.get("session") is not None:
        raise ValueError(
            "a session belongs to its own event loop, and connect_sync uses another one: leave "
            "session= out"
        )
    client = connect(agent, **options)
    loop = _Loop()
    try:
        loop.run(client.open())
    except BaseException:
        loop.run(client.close())
        loop.stop()
        raise
    return Waiting(client, loop)


class Waiting:
    """A client, reply, stream or conversation whose calls wait for their result. Has every name the
    thing itself has.
    """

    def __init__(self, thing: Any, loop: "_Loop") -> None:
        self._thing = thing
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._loop.waiting(getattr(self._thing, name))

    def __iter__(self) -> Iterator[Any]:
        if not hasattr(self._thing, "__anext__"):
            raise TypeError(f"a {type(self._thing).__name__} can't be iterated")
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.waiting(self._loop.run(_next(self._thing)))
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> "Waiting":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what this is; with the client, everything."""
        end = getattr(self._thing, "aclose", None) or getattr(self._thing, "close", None)
        if end is not None:
            self._loop.run(end())
        if isinstance(self._thing, Client):
            self._loop.stop()

    def __repr__(self) -> str:
        return f"Waiting({self._thing!r})"


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="accord-client", daemon=True
        )
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C included: what nobody waits for any more is not gone on with
            future.cancel()
            raise

    def waiting(self, value: Any) -> Any:
        """Return `value` as someone without a loop can use it."""
        if isinstance(value, (Client, ClientReply, Stream, Conversation)) or inspect.isasyncgen(
            value
        ):
            return Waiting(value, self)
        if isinstance(value, list) and any(isinstance(item, File) for item in value):
            return [Waiting(item, self) for item in value]
        if inspect.iscoroutine(value):
            return self.waiting(self.run(value))
        if inspect.ismethod(value):
            return self._calling(value)
        return value

    def _calling(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            given = [arg._thing if isinstance(arg, Waiting) else arg for arg in args]
            return self.waiting(method(*given, **options))

        call.__doc__, call.__name__ = method.__doc__, method.__name__
        return call

    def stop(self) -> None:
        if self._thread.is_alive():
            self.run(self._loop.shutdown_asyncgens())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _next(thing: Any) -> Any:
    return await anext(thing)
