"""What the fake models say."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

booked: list[str] = []  # cities the tool was called with
seen: list[bytes] = []  # files that models were given, in each call of one
stopped: list[str] = []  # that the model's stream was closed before it had ended
thinking: list[int] = []  # how many calls of models there were at once, noted at each call
_calls = 0
_lock = threading.Lock()
_THINKING_S = 0.02


def answer(said: list[str]) -> list[str]:
    """The words of an answer to a user who has said this."""
    return [f"{len(said)}: ", *(f"{text}; " for text in said)]


async def think() -> None:
    """Take time, as models do: turns that come together overlap here."""
    with _call():
        await asyncio.sleep(_THINKING_S)


def think_in_thread() -> None:
    """The same for a model that is called in a thread."""
    with _call():
        threading.Event().wait(_THINKING_S)


@contextlib.contextmanager
def _call() -> Iterator[None]:
    global _calls
    with _lock:
        _calls += 1
        thinking.append(_calls)
    try:
        yield
    finally:
        with _lock:
            _calls -= 1


async def hang() -> AsyncIterator[str]:
    """A model that says a word and stops there."""
    try:
        yield "Well, "
        await asyncio.Event().wait()
    finally:
        stopped.append("stopped")


def book(city: str) -> str:
    """Book a hotel."""
    booked.append(city)
    return f"booked {city}"
