"""Wake-ups that fail: they are sent again, and polling goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord.store.postgres import wake
from accord.store.postgres.options import parse
from accord.store.postgres.wake import Wakes


@asynccontextmanager
async def waking(
    query: Callable[..., Any], wake: Callable[[Collection[int] | None], None] = lambda tasks: None
) -> AsyncIterator[Wakes]:
    """Wake-ups of replica 1, which hears none, on a database that answers as `query` does."""
    options = parse("postgresql://localhost/x?schema=s")
    wakes = Wakes(options, pooled=False, replica=1, query=query, wake=wake)
    try:
        async with asyncio.timeout(10):
            yield wakes
    finally:
        await wakes.stop()


async def test_a_wake_up_that_could_not_be_sent_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all that came meanwhile: who is not woken finds a message 10 s later."""
    monkeypatch.setattr(wake, "RESEND_S", 0.01)
    sent: list[Any] = []
    is_sent = asyncio.Event()

    async def query(sql: str, channels: list[str], payloads: list[str]) -> list[Any]:
        sent.append(dict(zip(channels, payloads, strict=True)))
        if len(sent) < 3:
            wakes.send([(11, 3)])
            raise TimeoutError
        is_sent.set()
        return []

    async with waking(query) as wakes:
        wakes.send([(10, 2)])
        await is_sent.wait()
    assert sent == [{"s_2": "a"}, {"s_2": "a", "s_3": "b"}, {"s_2": "a", "s_3": "b"}]


@pytest.mark.parametrize(
    "fails", [None, TimeoutError(), KeyError("x")], ids=["slow", "away", "broken"]
)
async def test_polling_goes_on_soon_after_a_database_that_was_slow(
    monkeypatch: pytest.MonkeyPatch, fails: Exception | None
) -> None:
    """The pause after a look that took long is bounded: without NOTIFY all messages wait for it."""
    slow_s = 0.5
    monkeypatch.setattr(wake, "FAST_POLL_S", 0.01)
    monkeypatch.setattr(wake, "POLL_S", 0.02)
    monkeypatch.setattr(Wakes, "_listen", lambda self: asyncio.sleep(0))
    loop, looks, is_again = asyncio.get_running_loop(), list[float](), asyncio.Event()

    async def query(sql: str, *values: Any) -> list[Any]:
        looks.append(loop.time())
        if len(looks) > 1:
            is_again.set()
            return []
        await asyncio.sleep(slow_s)
        if fails is not None:
            raise fails
        return []

    async with waking(query) as wakes:
        wakes.start()
        await is_again.wait()
    assert looks[1] - looks[0] < 4 * slow_s
