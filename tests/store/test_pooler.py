"""Through PgBouncer in transaction mode: a session is not ours, and nothing may depend on one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from accord.store.postgres import PostgresStore
from accord.store.postgres.connect import is_pooled
from tests.pooler import needs_pgbouncer, pooled
from tests.postgres import add, base_url

from .conftest import COMPLETED, ME, opened
from .test_postgres import commit, until

pytestmark = [pytest.mark.outside, needs_pgbouncer]


@pytest.fixture
async def pooled_url(postgres_url: str) -> AsyncIterator[str]:
    async with pooled(postgres_url) as url:
        yield url


async def test_everything_works_through_a_pooler(pooled_url: str) -> None:
    """It is found out by itself that there is one; what changes elsewhere is found by polling."""
    store = PostgresStore(pooled_url)
    assert await is_pooled(store.options)
    async with opened(pooled_url) as box:
        woken: list[Any] = []
        other = await box.another(woken.append)
        first, mine = box.create(), box.create("mine")
        await box.commit(first)
        await other.commit([mine])
        await other.load(ME, "t1", watch=True)
        for n in range(20):
            item = box.create(f"x{n}", state=COMPLETED)
            outcomes = await asyncio.gather(
                commit(box.store, [item]), commit(other, [box.create(f"x{n}")])
            )
            assert sorted(outcomes) == [[False], [True]]
        await box.commit(box.append(first), box.post(mine.key))
        await until(lambda: {k for keys in woken for k in keys or ()} >= {first.key, mine.key})
        assert (await box.store.stats()).tasks[COMPLETED] >= 0
        assert len(await box.ids()) == 22


async def test_a_direct_address_for_wake_ups_is_used(pooled_url: str) -> None:
    async with opened(add(pooled_url, listen=quote(base_url(), safe=""))) as box:
        store = box.store
        assert isinstance(store, PostgresStore)
        await until(lambda: store._wakes.is_notified)
        assert await box.commit(box.create()) == [True]
