"""Through PgBouncer in transaction mode: a session is not ours, and nothing may depend on one."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from accord.store.postgres import PostgresStore
from accord.store.postgres.connect import is_pooled
from tests.postgres import add, base_url
from tests.processes import free_port, start, until_listening
from tests.proxy import Proxy, proxied

from .conftest import COMPLETED, ME, opened
from .test_postgres import commit, until

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


def _write_config(folder: Path, port: int, behind: int | None) -> Path:
    folder.chmod(0o755)
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={behind} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 5\n"
        "server_reset_query =\n"
    )
    config.chmod(0o644)
    return config


@contextlib.asynccontextmanager
async def _pooler(proxy: Proxy, folder: Path) -> AsyncIterator[int]:
    """PgBouncer before a proxy before the database: its port."""
    assert PGBOUNCER is not None
    port = free_port()
    config = _write_config(folder, port, urlsplit(proxy.url).port)
    with start(PGBOUNCER, "-u", "nobody", config):
        await until_listening(port)
        yield port


@pytest.fixture
async def pooled_url(postgres_url: str, tmp_path_factory: Any) -> AsyncIterator[str]:
    folder = Path("/tmp") / tmp_path_factory.mktemp("pgbouncer").name  # where others may look
    folder.mkdir(exist_ok=True)
    try:
        async with proxied(postgres_url) as proxy, _pooler(proxy, folder) as port:
            yield urlunsplit(urlsplit(proxy.url)._replace(netloc=f"postgres@127.0.0.1:{port}"))
    finally:
        shutil.rmtree(folder)


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
        await until(lambda: store._wakes.is_heard)
        assert await box.commit(box.create()) == [True]
