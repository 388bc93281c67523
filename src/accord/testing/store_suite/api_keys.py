"""What every store promises of API keys."""

import msgspec

from ...store import StoredApiKey
from .box import Box, check

MIA = StoredApiKey(
    *("k1", "mia", b"d" * 32, 1_000, "acme", ("a", "b"), 9_000),
    role="user",
    teams=("hr", "it"),
    folder="here",
)


@check
async def a_key_is_found_by_its_id(box: Box) -> None:
    keys = box.store.keys
    assert await keys.find("k1") is None
    await keys.add(MIA)
    assert await keys.find("k1") == MIA
    bob = StoredApiKey("k0", "bob", b"e" * 32, 2_000)
    await keys.add(bob)
    assert await keys.list() == [MIA, bob]


@check
async def the_scopes_of_a_key_are_those_it_was_made_with(box: Box) -> None:
    keys = box.store.keys
    for scopes in (("role:user", "team:hr role:admin"), ("a\tb",), ("",)):
        refused = False
        try:
            await keys.add(StoredApiKey("k2", "mallory", b"m" * 32, 1_000, "", scopes))
        except ValueError:
            refused = True
        assert refused, f"scopes {scopes} were taken; a scope is one word"
    assert await keys.find("k2") is None


@check
async def a_key_is_what_its_row_says(box: Box) -> None:
    """Whatever its texts are, none becomes two and none becomes a role."""
    keys = box.store.keys
    odd = ("hr role:admin", "role:admin", "", '"],["', "\u00fc,\u4eba\n")
    for n, text in enumerate(odd):
        key = StoredApiKey(f"k{n}", text, b"m" * 32, n, text, role=text, teams=(text, "hr"))
        await keys.add(key)
        assert await keys.find(f"k{n}") == key
    assert [key.name for key in await keys.list()] == list(odd)


@check
async def a_key_is_revoked_once(box: Box) -> None:
    keys = box.store.keys
    await keys.add(MIA)
    assert await keys.revoke("k1", 5_000)
    assert not await keys.revoke("k1", 6_000)
    assert not await keys.revoke("other", 6_000)
    assert await keys.find("k1") == msgspec.structs.replace(MIA, revoked_ms=5_000)


@check
async def the_last_use_is_kept(box: Box) -> None:
    keys = box.store.keys
    await keys.add(MIA)
    await keys.use("k1", 7_000)
    await keys.use("other", 7_000)
    assert await keys.find("k1") == msgspec.structs.replace(MIA, used_ms=7_000)


@check
async def keys_are_there_for_the_next_process(box: Box) -> None:
    await box.store.keys.add(MIA)
    await box.restart()
    assert await box.store.keys.find("k1") == MIA


@check
async def keys_are_judged_by_the_stores_clock(box: Box) -> None:
    assert box.is_now(box.store.keys.now_ms())
