"""Two hubs on one PostgreSQL serve the same entries."""

import asyncio
import time

import pytest

from accord.auth import Caller
from accord.model import Unavailable
from accord.store import Sql
from accord.store.postgres import ROLE_SETTINGS
from tests import postgres
from tests.hub.hubs import hub_at, serving_card
from tests.hub.test_db import opened
from tests.processes import until

ANYONE = Caller("mia", claims={"role": "user"}, scheme="apiKey")


async def test_what_one_hub_changes_the_other_knows(tmp_path):
    with postgres.schema_url() as url:
        both = {"store": url, "key_file": str(tmp_path / "keys")}
        async with (
            hub_at(tmp_path / "one", **both) as one,
            hub_at(tmp_path / "two", **both) as two,
            serving_card() as server,
        ):
            changed: list[str] = []
            two.hub.registry.on_change(lambda entry: changed.append(entry.name))
            waits: list[float] = []

            async def seen(condition) -> None:
                began = time.monotonic()
                await until(condition)
                waits.append(time.monotonic() - began)

            await one.add(server.url)
            await seen(lambda: two.hub.registry.get("baker") is not None)
            assert "baker" in changed
            await one.call("PUT", "/agents/baker/credentials/key",
                           {"kind": "bearer", "secret": "s"})  # fmt: skip
            entry = two.hub.registry.get("baker")
            await seen(lambda: two.hub.vault.for_origin(entry, server.url, None))
            rule = {"who": "anyone", "what": "agent:baker", "may": "see", "effect": "deny"}
            made = await two.call("POST", "/policies", rule)
            await seen(lambda: not one.hub.registry.visible_to(ANYONE))
            await two.call("DELETE", f"/policies/{made.body['id']}")
            await seen(lambda: one.hub.registry.visible_to(ANYONE))
            # A key of one hub is a key of the other, at once.
            two.keys["mia"] = await one.key("mia")
            assert (await two.call("GET", "/agents/baker", by="mia")).status == 200
            # One that was revoked is refused by the other when it looks again.
            [mine] = [key for key in await one.hub.principals.keys.list() if key.name == "mia"]
            await one.call("DELETE", f"/keys/{mine.id}")
            for _ in range(150):
                status = (await two.call("GET", "/me", by="mia")).status
                if status == 401:
                    break
                await asyncio.sleep(0.2)
            assert status == 401
            # A write with the ETag of the other hub's last state is refused by the database.
            old = (await two.call("GET", "/agents/baker")).headers["ETag"]
            await one.call("PATCH", "/agents/baker", {"team": "a"})
            refused = await two.call("PATCH", "/agents/baker", {"team": "b"}, if_match=old)
            assert refused.status == 412
            await one.call("DELETE", "/agents/baker")
            await seen(lambda: two.hub.registry.get("baker") is None)
            assert await two.hub.audit.verify() == ""
            print(f"\n{len(waits)} changes seen after at most {max(waits):.2f} s")


async def test_a_hub_that_stands_still_in_a_transaction_keeps_no_lock(monkeypatch):
    """It may be frozen, or cut off: the database ends the transaction, and others go on."""
    monkeypatch.setitem(ROLE_SETTINGS, "idle_in_transaction_session_timeout", "200ms")
    with postgres.schema_url() as url:
        schema = url.partition("schema=")[2].partition("&")[0]

        async def stand_still(db: Sql) -> None:
            await db.execute("UPDATE changes SET n = n")
            # waits for the end of that transaction, and gives up after a while
            postgres.execute(f"UPDATE {schema}.changes SET n = n RETURNING 1")

        async with opened(url) as database:
            with pytest.raises(Unavailable):
                await database.write(stand_still)
            assert await database.fetch("SELECT n FROM changes")
