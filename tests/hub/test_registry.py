"""Entries: how they come in, what is kept of their cards, and what becomes of them."""

import json

from tests.hub.hubs import agent_named, hub_at, serving_card


async def test_an_agent_is_added_by_its_address_and_listed(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, agent_named("Echo Agent").app().serving() as url:
        entry = await desk.add(url)
        assert entry["name"] == "echo-agent"
        assert entry["state"] == "approved"
        assert [skill["id"] for skill in entry["skills"]] == ["echo"]
        again = await desk.add(url)
        assert again["name"] == "echo-agent"
        listed = await desk.call("GET", "/agents", by="guest")
        assert [one["name"] for one in listed.body["agents"]] == ["echo-agent"]
        read = await desk.call("GET", "/agents/echo-agent", by="guest")
        assert read.status == 200
        unchanged = await desk.call(
            "GET", "/agents/echo-agent", by="guest", if_none_match=read.headers["ETag"]
        )
        assert unchanged.status == 304
    async with hub_at(tmp_path, **store) as desk:
        assert desk.hub.registry.get("echo-agent").card.name == "Echo Agent"


async def test_a_card_that_was_pasted_is_kept_byte_for_byte(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        text = json.dumps(server.base(name="Pasted"), indent=3)
        import aiohttp

        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{desk.url}/api/v1/agents",
                data='{"card": ' + text + "}",
                headers={"X-API-Key": desk.hub.admin_key, "Content-Type": "application/json"},
            ) as answer,
        ):
            assert answer.status == 201
        raw = await desk.call("GET", "/agents/pasted/cards/1?raw=1")
        assert raw.raw == text.encode()


async def test_what_a_publisher_adds_waits_for_an_admin(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.key("pub", "publisher")
        await desk.key("mia")
        entry = await desk.add(server.url, by="pub")
        assert entry["state"] == "pending"
        assert (await desk.call("GET", "/agents/baker", by="mia")).status == 404
        assert (await desk.call("GET", "/agents/baker", by="guest")).status == 401
        assert (await desk.call("GET", "/agents/baker", by="pub")).status == 200
        (alert,) = await desk.hub.inbox.open_alerts()
        assert alert.kind == "approval"
        refused = await desk.call("POST", "/agents/baker/cards/1:approve", by="pub")
        assert refused.status == 403
        approved = await desk.call("POST", "/agents/baker/cards/1:approve")
        assert approved.body["state"] == "approved"
        assert (await desk.call("GET", "/agents/baker", by="mia")).status == 200
        assert await desk.hub.inbox.open_alerts() == []
        suspended = await desk.call("POST", "/agents/baker:suspend")
        assert suspended.body["state"] == "suspended"
        assert (await desk.call("GET", "/agents/baker", by="mia")).status == 404
        assert (await desk.call("POST", "/agents/baker:resume")).body["state"] == "approved"
        assert (await desk.call("DELETE", "/agents/baker", by="pub")).status == 204
        assert (await desk.call("GET", "/agents/baker")).status == 404
        # The name is free again.
        assert (await desk.add(server.url))["name"] == "baker"
        assert await desk.hub.audit.verify() == ""
