"""Two hubs on one PostgreSQL serve the same entries."""

import time

from accord.auth import Caller
from tests import postgres
from tests.hub.hubs import hub_at, serving_card
from tests.processes import until

ANYONE = Caller("mia", scopes=frozenset(["role:user"]), scheme="apiKey")


async def test_what_one_hub_changes_the_other_knows(tmp_path):
    with postgres.schema_url() as url:
        schema = url.partition("schema=")[2].partition("&")[0]
        both = {"store": url, "key_file": str(tmp_path / "keys")}
        try:
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
                # A write with the ETag of the other hub's last state is refused by the database.
                old = (await two.call("GET", "/agents/baker")).headers["ETag"]
                await one.call("PATCH", "/agents/baker", {"team": "a"})
                refused = await two.call("PATCH", "/agents/baker", {"team": "b"}, if_match=old)
                assert refused.status == 412
                await one.call("DELETE", "/agents/baker")
                await seen(lambda: two.hub.registry.get("baker") is None)
                assert await two.hub.audit.verify() == ""
                print(f"\n{len(waits)} changes seen after at most {max(waits):.2f} s")
        finally:
            postgres.execute(f"DROP SCHEMA IF EXISTS {schema}_hub CASCADE")
