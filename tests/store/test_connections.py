"""The connections to PostgreSQL: what is set on them, also after they were used and behind a
pooler, and what becomes of a replica that gets none.
"""

import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accord.store.contract import CommitFailed
from accord.store.postgres import PostgresStore, connect
from accord.store.postgres.options import parse
from tests.pooler import needs_pgbouncer, pooled
from tests.postgres import add, base_url, execute
from tests.processes import start
from tests.proxy import proxied

from .conftest import ME, Box, opened
from .test_postgres import rows, until

BEATING = Path(__file__).with_name("beating.py")
FREEZES = 12


@pytest.fixture(params=["direct", pytest.param("pooled", marks=needs_pgbouncer)])
async def any_url(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[str]:
    """A database, and the same through a pooler."""
    if request.param == "direct":
        yield postgres_url
    else:
        async with pooled(postgres_url) as url:
            yield url


@contextlib.contextmanager
def role_with(isolation: str) -> Iterator[str]:
    """A role of the database with another isolation than the usual one."""
    role = f"wants_{isolation.replace(' ', '_')}"
    execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    try:
        execute(f"ALTER ROLE {role} SET default_transaction_isolation = '{isolation}'")
        yield role
    finally:
        execute(f"DROP OWNED BY {role} CASCADE")
        execute(f"DROP ROLE {role}")


def store_of(box: Box) -> PostgresStore:
    assert isinstance(box.store, PostgresStore)
    return box.store


async def test_a_process_frozen_anywhere_in_its_beats_can_be_declared_dead(any_url: str) -> None:
    """A beat is one statement, and a transaction of its own. In a transaction of several it could
    be frozen with its row locked: nobody could write its death certificate then, and its tasks
    would be nobody's for ever.
    """
    url = add(any_url, lease_s=2)
    async with proxied(url) as proxy, opened(url) as box:
        with start(sys.executable, BEATING, proxy.url) as process:
            replica = int(await process.line())
            for n in range(1, FREEZES):  # requests that reach the database before it is frozen
                await proxy.stalled_after(n)
                process.send_signal(signal.SIGSTOP)
                proxy.resume()  # the answer waits for it
                rows(box, f"SELECT 1 FROM {{s}}.replicas WHERE id = {replica} FOR UPDATE")
                process.send_signal(signal.SIGCONT if n < FREEZES - 1 else signal.SIGSTOP)
            dead = "SELECT id FROM {s}.replicas WHERE died IS NOT NULL"
            await until(lambda: rows(box, dead) == [(replica,)])


async def test_a_beat_does_not_wait_for_ever_for_its_row(any_url: str) -> None:
    """Somebody has locked it. The heartbeat is tried again, and nobody has to be connected anew."""
    async with opened(any_url) as box:
        store = store_of(box)
        direct = parse(base_url())
        db = await connect.connect(direct)
        try:
            async with db.transaction():
                await db.execute(f"SELECT 1 FROM {store.options.schema}.replicas FOR UPDATE")
                with pytest.raises(CommitFailed, match="lock timeout"):
                    await store.beat()
                await until(lambda: not store.is_sure)
        finally:
            await db.close()
        await until(lambda: store.is_sure)
        await store.beat()


async def test_a_transaction_that_stands_still_is_ended_by_the_database(
    any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may be frozen, cut off, or without power: what it locked is needed by others. A
    connection that was used before has no other settings than a new one.
    """
    monkeypatch.setitem(connect.ROLE_SETTINGS, "idle_in_transaction_session_timeout", "200ms")
    async with opened(any_url) as box:
        store = store_of(box)
        await box.commit(box.create())
        for _ in range(3):
            await store.load(ME, "t1")

        async def stand_still() -> None:
            async with store._connection() as db, connect.transaction(db):
                await db.execute(f"UPDATE {store.options.schema}.tasks SET format = format")
                rows(box, "UPDATE {s}.tasks SET format = format RETURNING 1")  # waits for its end
                await db.execute("SELECT 1")

        with pytest.raises(connect.BROKEN):
            await stand_still()
        assert await store.load(ME, "t1") is not None


async def test_connections_keep_their_settings_however_often_they_were_used(
    postgres_url: str,
) -> None:
    """Whatever is usual for the role: a claim in a serializable transaction would fail."""
    with role_with("serializable") as role:
        async with opened(postgres_url.replace("//postgres", f"//{role}", 1)) as box:
            store = store_of(box)
            for _ in range(3):
                for using in (store._connection(), store._writer.borrowed()):
                    async with using as db:
                        assert await db.fetchval("SELECT current_user") == role
                        assert await db.fetchval("SHOW transaction_isolation") == "read committed"
                        idle = await db.fetchval("SHOW idle_in_transaction_session_timeout")
                        assert (idle, await db.fetchval("SHOW lock_timeout")) == ("10s", "3s")


@needs_pgbouncer
async def test_behind_a_pooler_the_isolation_is_that_of_a_new_session(postgres_url: str) -> None:
    """Another client may have changed that of the session the pooler gives us first."""
    with role_with("repeatable read") as role:
        async with pooled(postgres_url, role) as url:
            options = parse(url)
            other = await connect.connect(options, pooled=True)
            await other.execute("SET default_transaction_isolation = 'read committed'")
            await other.close()
            with pytest.raises(RuntimeError, match="ALTER ROLE"):
                await PostgresStore(url).open(lambda tasks: None)


async def test_nothing_is_reset_between_two_uses(postgres_url: str) -> None:
    """A read is one message to the database and one back."""
    async with opened(postgres_url) as box:
        store = store_of(box)
        async with store._connection() as db:
            await db.execute("SET application_name = 'used before'")
        async with store._connection() as db:
            assert await db.fetchval("SHOW application_name") == "used before"


async def test_a_lost_connection_is_noticed_by_the_system(postgres_url: str) -> None:
    """A machine without power sends no FIN: TCP has to ask."""
    async with proxied(postgres_url) as proxy, opened(proxy.url) as box:
        store = store_of(box)
        async with store._connection() as db, store._writer.borrowed() as writing:
            for one in (db, writing):
                sock = one._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                lost_ms = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert lost_ms == connect.LOST_S * 1000
