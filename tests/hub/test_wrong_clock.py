"""A hub on a machine whose clock is wrong harms nothing that other hubs can see: the database's
clock counts.
"""

import time

import pytest

from accord import connect
from tests import postgres
from tests.hub.hubs import agent_named, hub_at

DAYS_S = 40 * 24 * 3600


@pytest.mark.parametrize("off_s", [DAYS_S, -DAYS_S], ids=["ahead", "behind"])
async def test_agents_keys_and_traces_live_as_long_as_they_should(tmp_path, monkeypatch, off_s):
    """By its own clock agents would have fallen silent long ago, and keys end at once or never."""
    real_ns = time.time_ns
    with postgres.schema_url() as url:
        settings = {"store": url, "key_file": str(tmp_path / "keys")}
        async with agent_named().app().serving() as agent, hub_at(tmp_path, **settings) as desk:
            await desk.add(agent, settings={"heartbeats": True})
            assert (await desk.call("POST", "/agents/echo/heartbeat", {})).status == 200
            async with connect(f"{desk.url}/agents/echo") as client:
                await client.send("hi")
            await desk.hub.traces.flush()
            with monkeypatch.context() as wrong:
                wrong.setattr(time, "time_ns", lambda: real_ns() + off_s * 10**9)
                await desk.hub.health.miss_heartbeats()
                await desk.hub.traces.purge()
                made = await desk.call(
                    "POST", "/keys", {"name": "mia", "role": "user", "expires_days": 1}
                )
                await desk.hub.local_admin.renew()
            assert desk.hub.registry.get("echo").health.state == "up"
            assert len(await desk.hub.traces.newest(None)) == 1
            desk.keys["mia"] = made.body["key"]
            assert (await desk.call("GET", "/me", by="mia")).status == 200
            assert desk.hub.admin_key == desk.keys["admin"], "it is good for a while"
            ends = [
                key.expires_ms for key in await desk.hub.principals.keys.list() if key.name == "mia"
            ]
            assert 0 < ends[0] - desk.hub.db.now_ms() <= 24 * 3600 * 1000
            [row] = await desk.hub.audit.rows(limit=1)
            assert abs(row.at_ms - desk.hub.db.now_ms()) < 600_000
