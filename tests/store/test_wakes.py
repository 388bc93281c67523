"""Wake-ups that fail: they are sent again, and polling goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from accord.store.postgres import wake
from accord.store.postgres.options import parse
from accord.store.postgres.wake import Wakes
from tests.postgres import schema_url
from tests.processes import until


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


@pytest.mark.parametrize("statement", [1, 2])
async def test_a_connection_that_is_given_back_while_it_begins_to_listen_is_no_fault(
    statement: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer or the heartbeat needs its place, at any moment: between two halves of a statement
    too.
    """
    prepare, prepared = asyncpg.Connection._get_statement, 0

    async def give_back(db: asyncpg.Connection, *args: Any, **options: Any) -> Any:
        nonlocal prepared
        found = await prepare(db, *args, **options)
        if db is wakes._db:
            prepared += 1
            if prepared == statement:
                wakes.give_way()
        return found

    async def query(sql: str, *values: Any) -> list[Any]:
        return []

    monkeypatch.setattr(asyncpg.Connection, "_get_statement", give_back)
    with schema_url() as url:
        wakes = Wakes(parse(url), pooled=False, replica=1, query=query, wake=lambda tasks: None)
        wakes.start()
        try:
            await until(lambda: prepared >= statement and wakes._db is None)
        finally:
            await wakes.stop()
    assert not caplog.records


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often, and listen to nothing."""
    monkeypatch.setattr(wake, "FAST_POLL_S", 0.01)
    monkeypatch.setattr(wake, "POLL_S", 0.02)
    monkeypatch.setattr(Wakes, "_listen", lambda self: asyncio.sleep(0))


@pytest.mark.usefixtures("quick")
async def test_a_task_that_is_watched_while_the_database_answers_is_not_forgotten() -> None:
    """Without NOTIFY nothing else finds what its owner writes: its reader would wait for ever."""
    woken: list[Collection[int] | None] = []
    is_woken = asyncio.Event()
    stored = {10: 1, 11: 1}
    looks = 0

    async def query(sql: str, *values: Any) -> list[Any]:
        nonlocal looks
        if "posts" in sql:
            return []
        looks += 1
        found = [(key, stored[key]) for key in values[0]]
        if looks == 1:
            wakes.watched[11] = 1  # a claim is answered now
        elif looks == 3:
            stored[11] = 2  # its owner has written
        return found

    def wake_up(tasks: Collection[int] | None) -> None:
        woken.append(tasks)
        if tasks is not None and 11 in tasks:
            is_woken.set()

    async with waking(query, wake_up) as wakes:
        wakes.watched[10] = 1
        wakes.start()
        await is_woken.wait()
    assert woken == [{11}]  # and nothing was taken for lost


@pytest.mark.usefixtures("quick")
async def test_what_was_found_is_reported_though_the_look_for_posts_fails() -> None:
    """The next look would find nothing new."""
    is_woken = asyncio.Event()

    async def query(sql: str, *values: Any) -> list[Any]:
        if "posts" in sql:
            raise TimeoutError
        return [(key, 2) for key in values[0]]

    def wake_up(tasks: Collection[int] | None) -> None:
        assert tasks == {10}
        is_woken.set()

    async with waking(query, wake_up) as wakes:
        wakes.watched[10] = 1
        wakes.start()
        await is_woken.wait()


@pytest.mark.usefixtures("quick")
async def test_a_task_that_a_failover_has_lost_is_found_when_it_comes_back() -> None:
    woken: list[Collection[int] | None] = []
    is_woken = asyncio.Event()
    stored = {10: 2}

    async def query(sql: str, *values: Any) -> list[Any]:
        if "posts" in sql:
            return []
        return [(key, stored[key]) for key in values[0] if key in stored]

    def wake_up(tasks: Collection[int] | None) -> None:
        woken.append(tasks)
        if tasks is None:
            stored[10] = 1
        else:
            is_woken.set()

    async with waking(query, wake_up) as wakes:
        wakes.watched[10] = 2
        del stored[10]
        wakes.start()
        await is_woken.wait()
    assert woken == [None, {10}]
