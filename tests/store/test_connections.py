"""The connections to PostgreSQL: what is set on them, also after they were used and behind a
pooler, and what becomes of a replica that gets none.
"""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from accord import Agent
from accord.model import Unavailable
from accord.store.contract import Ages, CommitFailed
from accord.store.postgres import PostgresStore, connect, readers
from accord.store.postgres import replica as replica_module
from accord.store.postgres import upkeep as upkeep_module
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


@pytest.mark.parametrize("ends", ["cancelled", "given up"])
async def test_a_query_that_nobody_waits_for_any_more_ends_in_silence(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """A server that stops cancels its beat, and closes the connection under it. What that raises is
    no fault, and the log says nothing of it.
    """
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    async with opened(postgres_url) as box:
        store = store_of(box)
        if ends == "given up":
            monkeypatch.setattr(replica_module, "READ_S", 0.2)
        db = await connect.connect(parse(base_url()))
        try:
            async with db.transaction():
                await db.execute(f"SELECT 1 FROM {store.options.schema}.replicas FOR UPDATE")
                beating = asyncio.ensure_future(store.beat())
                waits = (
                    "SELECT 1 FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND query LIKE '%{s}.replicas%'"
                )
                await until(lambda: rows(box, waits))
                if ends == "cancelled":
                    beating.cancel()
                (outcome,) = await asyncio.gather(beating, return_exceptions=True)
                assert isinstance(outcome, asyncio.CancelledError | CommitFailed)
        finally:
            await db.close()
        del beating, outcome
        gc.collect()
    assert said == []


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
            async with store.connection() as db, connect.transaction(db):
                await db.execute(f"UPDATE {store.options.schema}.tasks SET format = format")
                rows(box, "UPDATE {s}.tasks SET format = format RETURNING 1")  # waits for its end
                await db.execute("SELECT 1")

        with pytest.raises(connect.BROKEN):
            await stand_still()
        assert await store.load(ME, "t1") is not None


@pytest.mark.parametrize("what", ["load", "merge totals", "purge", "write"])
async def test_a_session_that_does_not_answer_is_given_up_after_one_try(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Its process may be stuck on a disk, or a proxy before it. Nobody waits for it for ever, least
    of all for the end of a transaction, and nobody else gets it.
    """
    async with opened(postgres_url) as box:
        store = store_of(box)
        tries: dict[str, Callable[[], Awaitable[object]]] = {
            "load": lambda: store.load(ME, "t1"),
            "merge totals": store.upkeep.merge_totals,
            "purge": lambda: store.purge(Ages(), 10),
            "write": lambda: store.write("SELECT 1"),
        }
        async with store.connection() as db:
            pid = db.get_server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as impatient:
                for place, name in (
                    (replica_module, "READ_S"),
                    (upkeep_module, "READ_S"),
                    (upkeep_module, "PURGE_S"),
                ):
                    impatient.setattr(place, name, 0.3)
                async with asyncio.timeout(30):
                    with pytest.raises((Unavailable, CommitFailed)):
                        await tries[what]()
            await tries[what]()  # with the usual patience: on that session it would be used up
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_connections_keep_their_settings_however_often_they_were_used(
    postgres_url: str,
) -> None:
    """Whatever is usual for the role: a claim in a serializable transaction would fail."""
    with role_with("serializable") as role:
        async with opened(postgres_url.replace("//postgres", f"//{role}", 1)) as box:
            store = store_of(box)
            for _ in range(3):
                for using in (store.connection(), store._writer.borrowed()):
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
        async with store.connection() as db:
            await db.execute("SET application_name = 'used before'")
        async with store.connection() as db:
            assert await db.fetchval("SHOW application_name") == "used before"


async def test_a_lost_connection_is_noticed_by_the_system(postgres_url: str) -> None:
    """A machine without power sends no FIN: TCP has to ask."""
    async with proxied(postgres_url) as proxy, opened(proxy.url) as box:
        store = store_of(box)
        async with store.connection() as db, store._writer.borrowed() as writing:
            for one in (db, writing):
                sock = one._transport.get_extra_info("socket")
                assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                lost_ms = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert lost_ms == connect.LOST_S * 1000


# Too few connections


@contextlib.contextmanager
def role_with_connections(url: str, count: int) -> Iterator[tuple[str, Callable[[int], object]]]:
    """The URL for a role that may have so many connections, and how to change their number."""
    role = "has_few"
    execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {count}")
    execute(f"GRANT CREATE ON DATABASE postgres TO {role}")
    try:
        yield (
            url.replace("//postgres", f"//{role}", 1),
            lambda count: execute(f"ALTER ROLE {role} CONNECTION LIMIT {count}"),
        )
    finally:
        execute(f"DROP OWNED BY {role} CASCADE")
        execute(f"DROP ROLE {role}")


async def test_two_connections_are_enough_for_a_replica(postgres_url: str) -> None:
    """One that writes, and the heartbeat's. Reads go through the first, between two commits."""
    with role_with_connections(postgres_url, 2) as (url, _):
        async with asyncio.timeout(30), opened(url) as box:
            for n in range(10):
                item = box.create(f"t{n}")
                await asyncio.gather(
                    box.commit(item), *(box.store.load(ME, f"t{n - 1}") for _ in range(20))
                )
                assert (await box.store.load(ME, f"t{n}")).pos == 1
            assert len(await box.ids()) == 10


async def test_a_replica_without_its_two_connections_does_not_start(postgres_url: str) -> None:
    """It says why, and leaves nothing behind that others would watch."""
    with role_with_connections(postgres_url, 2) as (url, limit):
        async with opened(url) as box:
            assert isinstance(box.store, PostgresStore)
            limit(3)
            with pytest.raises(RuntimeError, match="does not start without them"):
                await PostgresStore(url).open(lambda tasks: None)
            alive = rows(box, "SELECT id FROM {s}.replicas WHERE died IS NULL")
            assert alive == [(box.store.replica,)]


async def test_readers_that_nobody_uses_are_given_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For another replica, which needs two."""
    monkeypatch.setattr(readers, "IDLE_S", 0.2)
    with role_with_connections(postgres_url, 6) as (url, _):
        async with opened(url) as box:
            store = store_of(box)
            async with store.connection(), store.connection(), store.connection():
                with pytest.raises(RuntimeError, match="too many connections"):
                    await box.another()
            async with asyncio.timeout(20):
                while True:
                    with contextlib.suppress(RuntimeError):
                        await box.another()
                        break


async def test_readyz_says_that_there_are_no_connections(postgres_url: str) -> None:
    """A server that has lost its own, and gets no others. When there are some again it goes on."""
    agent = Agent("Few")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    with role_with_connections(postgres_url, 5) as (url, limit):
        app = agent.app(store=PostgresStore(url))
        await app.open()
        try:
            await until(lambda: not app.trouble)
            limit(0)
            execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename='has_few'"
            )
            await until(lambda: "the database has no connection left" in app.trouble, 30)
            limit(5)
            await until(lambda: not app.trouble, 30)
        finally:
            await app.close(0)
