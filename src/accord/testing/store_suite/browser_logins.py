"""What every store promises of the logins of browsers."""

import asyncio

import msgspec

from ...store import StoredLogin
from .box import Box, check

ADA = StoredLogin("s1", b"d" * 32, 2_000, 2_000, browser="Firefox \U0001f98a")
LINK = StoredLogin("s0", b"e" * 32, 1_000, 1_000, is_link=True)


@check
async def a_login_is_found_by_its_id(box: Box) -> None:
    logins = box.store.logins
    assert await logins.find("s1") is None
    await logins.add(ADA)
    await logins.add(LINK)
    assert await logins.find("s1") == ADA
    assert await logins.list() == [LINK, ADA]


@check
async def a_link_is_used_up_once_whoever_asks(box: Box) -> None:
    """Two browsers that open it at the same moment are not both let in."""
    await box.store.logins.add(LINK)
    asked = (box.store.logins.remove("s0") for _ in range(5))
    assert sorted(await asyncio.gather(*asked)) == [False, False, False, False, True]
    assert await box.store.logins.list() == []


@check
async def when_a_login_was_last_used_is_kept(box: Box) -> None:
    logins = box.store.logins
    await logins.add(ADA)
    await logins.use("s1", 7_000)
    await logins.use("other", 7_000)
    assert await logins.list() == [msgspec.structs.replace(ADA, seen_ms=7_000)]


@check
async def logins_are_there_for_the_next_process(box: Box) -> None:
    await box.store.logins.add(ADA)
    await box.restart()
    assert await box.store.logins.find("s1") == ADA


@check
async def another_process_knows_the_same_logins(box: Box) -> None:
    if not box.is_shared:
        return
    await box.store.logins.add(ADA)
    other = await box.another()
    await other.logins.add(LINK)
    assert await other.logins.remove("s1")
    assert await box.store.logins.list() == [LINK]


@check
async def logins_are_judged_by_the_stores_clock(box: Box) -> None:
    assert box.is_now(box.store.logins.now_ms())
