"""Logins of browsers, in every store."""

import asyncio

import msgspec

from accord.store import StoredLogin
from accord.store.sqlite.logins import SqliteLogins
from accord.store.sqlite.store import SqliteStore
from tests.store.conftest import Box

ADA = StoredLogin("s1", b"d" * 32, 2_000, 2_000, browser="Firefox \U0001f98a")
LINK = StoredLogin("s0", b"e" * 32, 1_000, 1_000, is_link=True)


async def test_a_login_is_found_by_its_id(box: Box) -> None:
    logins = box.store.logins
    assert await logins.find("s1") is None
    await logins.add(ADA)
    await logins.add(LINK)
    assert await logins.find("s1") == ADA
    assert await logins.list() == [LINK, ADA]


async def test_a_link_is_used_up_once_whoever_asks(box: Box) -> None:
    await box.store.logins.add(LINK)
    asked = (box.store.logins.remove("s0") for _ in range(5))
    assert sorted(await asyncio.gather(*asked)) == [False, False, False, False, True]
    assert await box.store.logins.list() == []


async def test_the_last_use_is_kept(box: Box) -> None:
    logins = box.store.logins
    await logins.add(ADA)
    await logins.use("s1", 7_000)
    await logins.use("other", 7_000)
    assert await logins.list() == [msgspec.structs.replace(ADA, seen_ms=7_000)]


async def test_logins_are_there_for_the_next_process(box: Box) -> None:
    await box.store.logins.add(ADA)
    await box.restart()
    assert await box.store.logins.find("s1") == ADA


async def test_another_process_knows_the_same_logins(box: Box) -> None:
    """Replicas share them; of a file, a command that makes a link while a server uses it."""
    await box.store.logins.add(ADA)
    if isinstance(box.store, SqliteStore):
        beside = SqliteLogins(box.store.path)
        await beside.prepare()
        await beside.add(LINK)
        assert await beside.remove("s1")
        beside.close()
    else:
        other = await box.another()
        await other.logins.add(LINK)
        assert await other.logins.remove("s1")
    assert await box.store.logins.list() == [LINK]
