"""Entries: how they come in, what is kept of their cards, and what becomes of them."""

import json
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context, connect
from accord.auth import Caller
from accord.hub import Hub, HubSettings
from accord.hub.access import SYSTEM
from accord.hub.errors import EntryNotFound, Outdated
from accord.model import Unavailable
from accord.relay import RequestContext
from tests.hub.hubs import agent_named, hub_at, serving_card
from tests.relay.relays import served


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


@pytest.mark.parametrize(
    ("by", "change", "status"),
    [
        ("pub", {"settings": {"changes": "follow"}}, 403),
        ("pub", {"settings": {"tags": ["payroll"]}}, 403),
        ("pub", {"settings": {"tasks_days": -1}}, 400),
        ("pub", {"settings": {"nosuch": 1}}, 400),
        ("pub", {"team": "not-mine"}, 403),
        ("admin", {"visibility": "team"}, 400),
        ("admin", {"team": "hr role:admin"}, 400),
        ("pub", {"settings": {"probe": "off"}}, 200),
    ],
)
async def test_a_change_is_made_as_a_whole_or_not_at_all(tmp_path, by, change, status):
    """A card that comes with a setting that is refused is not taken either, and the reverse."""
    async with serving_card() as server, hub_at(tmp_path) as desk:
        await desk.key("pub", "publisher")
        added = await desk.call("POST", "/agents", {"card": server.base()}, by="pub")
        name = (await desk.approve(added.body))["name"]

        async def stored() -> Any:
            entry = (await desk.call("GET", f"/agents/{name}")).body
            cards = (await desk.call("GET", f"/agents/{name}/cards")).body
            return entry["revision"], entry["settings"], cards

        before = await stored()
        new = {"card": server.base(description="Bakes more."), **change}
        answer = await desk.call("PATCH", f"/agents/{name}", new, by=by)
        assert answer.status == status, answer.body
        assert (await stored() == before) == (status != 200)
        wrong = {"card": {"name": "no card"}, "settings": {"probe": "free"}}
        before = await stored()
        assert (await desk.call("PATCH", f"/agents/{name}", wrong, by="pub")).status == 422
        assert await stored() == before


async def test_a_card_that_was_pasted_is_kept_byte_for_byte(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        text = json.dumps(server.base(name="Pasted"), indent=3)
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
        place = f"/agents/{entry['name']}"
        assert entry["state"] == "pending"
        assert (await desk.call("GET", place, by="mia")).status == 404
        assert (await desk.call("GET", place, by="guest")).status == 401
        assert (await desk.call("GET", place, by="pub")).status == 200
        (alert,) = await desk.hub.inbox.open_alerts()
        assert alert.kind == "approval"
        refused = await desk.call("POST", f"{place}/cards/1:approve", by="pub")
        assert refused.status == 403
        approved = await desk.approve(entry)
        assert (approved["name"], approved["state"]) == ("baker", "approved")
        assert (await desk.call("GET", place, by="pub")).status == 404
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


async def test_another_address_under_a_name_of_ones_own_is_a_member(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as one, serving_card() as two:
        await desk.add(one.url, name="baker")
        entry = await desk.add(two.url, name="baker")
        assert entry["members"] == [f"{two.url}/.well-known/agent-card.json"]
        two.card = two.base(skills=two.base()["skills"][:1])
        refused = await desk.call("POST", "/agents", {"url": two.url, "name": "baker"})
        assert refused.status == 409
        gone = await desk.call("DELETE", f"/agents/baker/members?url={entry['members'][0]}")
        assert "members" not in gone.body


async def test_a_member_that_was_not_approved_is_added_by_an_admin_only(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as one, serving_card() as two:
        await desk.key("pub", "publisher")
        entry = await desk.add(one.url, by="pub", name="baker")
        beside = {"url": f"{one.url}/beside", "name": "baker"}
        early = await desk.call("POST", "/agents", beside, by="pub")
        assert early.status == 409  # nothing is approved yet
        await desk.approve(entry)
        other = {"url": two.url, "name": "baker"}
        refused = await desk.call("POST", "/agents", other, by="pub")
        assert refused.status == 409
        assert "needs an admin's approval" in refused.body["error"]["message"]
        await desk.call("PATCH", "/agents/baker", {"settings": {"changes": "pin"}})
        assert (await desk.call("POST", "/agents", beside, by="pub")).status == 409
        await desk.call("PATCH", "/agents/baker", {"settings": {"changes": "hold"}})
        joined = await desk.call("POST", "/agents", beside, by="pub")
        assert joined.status == 201  # where the approved one is
        assert len((await desk.add(two.url, name="baker"))["members"]) == 2


async def test_a_member_is_called_where_its_card_led_when_it_was_added(tmp_path):
    good, bad = agent_named("Echo"), Agent("Echo", description="Says something else.")

    @bad.skill
    async def echo(text: str) -> str:
        return "somewhere else"

    async with (
        hub_at(tmp_path) as desk,
        serving_card() as member,
        good.app().serving() as url,
        bad.app().serving() as elsewhere,
    ):
        place = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        skills = [{"id": "echo", "name": "Echo", "description": "Echo.", "tags": ["echo"]}]
        member.card = member.base(skills=skills, supportedInterfaces=[place | {"url": url}])
        await desk.add(url, name="echo")
        await desk.add(member.url, name="echo")
        member.card = member.base(skills=skills, supportedInterfaces=[place | {"url": elsewhere}])
        entry = desk.hub.registry.get("echo")
        context = RequestContext(caller=Caller("mia"), member=entry.members[0].card_url)
        client = await desk.hub.gate.upstreams.connect(f"echo.{entry.id}", context)
        assert (await client.send("hi")).text == "hi"
        await desk.call("DELETE", f"/agents/echo/members?url={context.member}")
        with pytest.raises(Unavailable):
            await desk.hub.gate.upstreams.connect(f"echo.{entry.id}", context)


async def test_pages_of_agents(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        for n in range(5):
            await desk.call("POST", "/agents", {"card": server.base(), "name": f"baker-{n}"})
        names, cursor = [], ""
        while True:
            page = (await desk.call("GET", f"/agents?limit=2&cursor={cursor}")).body
            names += [one["name"] for one in page["agents"]]
            assert page["total"] == 5
            cursor = page["next"]
            if not cursor:
                break
        assert names == [f"baker-{n}" for n in range(5)]


async def test_a_newer_database_is_left_alone(tmp_path):
    async with hub_at(tmp_path) as desk:
        await desk.hub.db.execute("INSERT INTO migrations VALUES ('hub', 999, 999, 0)")
    with pytest.raises(RuntimeError, match="newer release"):
        async with hub_at(tmp_path):
            pass


@pytest.mark.parametrize("end", ["suspend", "retire"])
async def test_a_heartbeat_does_not_undo_what_an_admin_does_meanwhile(tmp_path, monkeypatch, end):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        registry = desk.hub.registry
        await desk.add(server.url)
        await desk.hub.health.heartbeat("baker")  # it is up: the next beat changes nothing else
        execute = desk.hub.db.execute

        async def execute_and_wait(*args):
            done = await execute(*args)
            await getattr(registry, end)(SYSTEM, "baker")
            return done

        monkeypatch.setattr(desk.hub.db, "execute", execute_and_wait)
        if end == "retire":
            with pytest.raises(EntryNotFound):
                await desk.hub.health.heartbeat("baker")
            assert registry.get("baker") is None
        else:
            await desk.hub.health.heartbeat("baker")
            assert registry.get("baker").state == "suspended"


async def test_an_approval_does_not_undo_a_suspension(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        registry = desk.hub.registry
        await desk.add(server.url)
        entry = registry.get("baker")
        await registry.suspend(SYSTEM, "baker")
        with pytest.raises(Outdated):  # it was decided for an entry that was approved
            await desk.hub.changes.write(
                lambda db: registry.write(db, entry, state=entry.state, approved=1)
            )
        assert registry.get("baker").state == "suspended"


async def test_an_approved_origin_approves_what_was_fetched_from_it(tmp_path):
    """A card that somebody hands over may name any origin."""
    async with serving_card() as server, hub_at(tmp_path, approve=(f"{server.url}/",)) as desk:
        await desk.key("pub", "publisher")
        pasted = await desk.call("POST", "/agents", {"card": server.base(name="X")}, by="pub")
        assert pasted.body["state"] == "pending"
        fetched = await desk.add(server.url, by="pub")
        assert (fetched["state"], fetched["name"]) == ("approved", "baker")


def test_an_origin_that_is_none_is_refused_at_start(tmp_path):
    settings = HubSettings(store=f"sqlite:///{tmp_path}/hub.db", approve=("corp.example",))
    with pytest.raises(ValueError, match=r"corp\.example"):
        Hub(settings)


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("PATCH", "/agents/baker", {"settings": {"tasks_days": -1}}),
        ("PATCH", "/agents/baker", {"settings": {"tasks_days": 0}}),
        ("PATCH", "/agents/baker", {"settings": {"limits": {"open_tasks": -5}}}),
        ("POST", "/policies", {"who": "anyone", "what": "*", "effect": "allow", "limit": -5}),
        ("GET", "/agents?limit=-5", None),
        *(("GET", f"{path}?limit=0", None) for path in ("/agents", "/search", "/audit", "/traces")),
        ("GET", "/agents?state=aproved", None),
        ("GET", "/agents?visibility=all", None),
        ("GET", "/agents?team=hrr", None),
        ("GET", "/agents?teams=hr", None),
        ("GET", "/search?text=bread&team=hrr", None),
        ("GET", "/search?text=bread&health=up", None),
        ("GET", "/search?text=bread&state=upp", None),
        ("GET", "/search?text=bread&language=de", None),
    ],
)
async def test_a_value_out_of_its_range_is_refused(tmp_path, verb, path, body):
    """To a wrong filter the answer was that there is nothing; -1 days deleted all tasks."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url, visibility="team", team="hr")
        for right in ("/agents?team=hr&state=approved", "/search?text=bread&team=hr&state=up,new"):
            assert (await desk.call("GET", right)).status == 200
        answer = await desk.call(verb, path, body)
        assert answer.status == 400, answer.body


async def test_a_filter_tells_nobody_which_teams_there_are(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url, visibility="team", team="hr")
        await desk.call("POST", "/teams", {"name": "it"})
        await desk.key("ada")
        said = {
            (await desk.call("GET", f"/agents?team={team}", by="ada")).raw.replace(
                team.encode(), b"TEAM"
            )
            for team in ("hr", "it", "xx")
        }
        assert len(said) == 1


async def test_what_is_open_about_a_retired_agent_is_closed(tmp_path, store):
    """Nobody can decide on it any more. What was closed long ago is deleted."""
    async with serving_card() as server, hub_at(tmp_path, **store) as desk:
        server.card = server.base()
        await desk.key("mia", "publisher")
        entry = await desk.add(server.url, by="mia")
        inbox = desk.hub.inbox
        await inbox.add("health", "another", "another is down")
        assert sum((await inbox.count_by_kind()).values()) == 2
        assert (await desk.call("DELETE", f"/agents/{entry['name']}", by="mia")).status == 204
        (left,) = await inbox.open_alerts()
        assert left.agent == "another"
        await desk.hub.db.execute("UPDATE alerts SET done_ms = 1 WHERE done_ms > 0")
        await inbox.purge()
        (row,) = await desk.hub.db.fetch("SELECT agent FROM alerts")
        assert row["agent"] == "another"


def asking(mark: str) -> Agent:
    """An agent that says which of two equal ones it is."""
    agent = Agent("Twin", description="Asks.")

    @agent.skill
    async def ask(ctx: Context, text: str) -> str:
        """Ask something."""
        return f"{mark} {await ctx.ask(mark)}"

    return agent


async def test_a_task_goes_to_a_member_that_answers_and_stays_there(tmp_path):
    async with hub_at(tmp_path) as desk, served(asking("one")) as url:
        async with served(asking("two")) as other:
            await desk.add(url, name="twin")
            await desk.add(other, name="twin")
            async with connect(f"{desk.url}/agents/twin/") as client:
                used = set()
                while used < {"one", "two"}:
                    asked = await client.send("hi")
                    answered = await asked.answer("yes")
                    assert answered.text == f"{asked.text} yes"
                    used.add(asked.text)
        async with connect(f"{desk.url}/agents/twin/") as client:
            assert {(await client.send("hi")).text for _ in range(6)} == {"one"}
