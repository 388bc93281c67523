"""Catalogs: an export taken elsewhere gives the same entries; nested ones; ARD's search."""

import json
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from accord.hub.access.principals import SYSTEM
from tests.hub.cases import card_of, load_cases
from tests.hub.hubs import agent_named, hub_at, serving_card


async def test_an_export_imported_elsewhere_gives_the_same_entries(tmp_path):
    """Agents with an address and pasted ones, by the catalog's address and as a file. The cards
    are those of the first hub, which is called in between.
    """
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for folder in (first, second, third):
        folder.mkdir()
    async with (
        agent_named("Echo").app().serving() as echo,
        hub_at(first) as desk,
        hub_at(second) as other,
        hub_at(third) as last,
    ):
        await desk.add(echo, name="echo")
        for case in load_cases()[0][:4]:
            await desk.hub.admission.add(SYSTEM, card=card_of(case), name=case.name)
        url = f"{desk.url}/.well-known/ai-catalog.json"
        taken = await other.call("POST", "/import/catalog", {"url": url})
        assert taken.status == 200, taken.body
        assert (taken.body["failed"], taken.body["passed_over"]) == ({}, 1)  # the hub itself
        whole = await desk.call("GET", "/ai-catalog.json")
        again = await last.call("POST", "/import/catalog", {"catalog": whole.body})
        same = [
            {entry.name: entry.card.skills for entry in one.hub.registry.all()}
            for one in (desk, other, last)
        ]
        twice = await other.call("POST", "/import/catalog", {"url": url})
        hits = await other.hub.finder.search(_guest(), "reset password")
    assert sorted(taken.body["added"]) == sorted(again.body["added"]) == sorted(same[0])
    assert same[0] == same[1] == same[2]
    assert "echo" in twice.body["added"]  # the same address is the same entry
    assert hits.agents[0].agent == "it-desk"


def _guest() -> Any:
    from accord.hub.access.principals import GUEST

    return GUEST


async def test_what_a_catalog_shows(tmp_path):
    """Public agents to everybody, the others to who may see them; both names of the type."""
    cases = load_cases()[0]
    async with hub_at(tmp_path, url="https://hub.corp.example", guests="see") as desk:
        await desk.hub.admission.add(SYSTEM, card=card_of(cases[0]), name="open")
        from accord.hub import Visibility

        await desk.hub.admission.add(
            SYSTEM, card=card_of(cases[1]), name="closed", visibility=Visibility.PRIVATE
        )
        public = await desk.call("GET", "/.well-known/ai-catalog.json", by="guest")
        mine = await desk.call("GET", "/ai-catalog.json")
    [itself, entry] = public.body["entries"]
    assert (itself["type"], itself["url"]) == (
        "application/ai-registry+json",
        "https://hub.corp.example/ard",
    )
    assert entry["type"] == entry["mediaType"] == "application/a2a-agent-card+json"
    assert entry["identifier"] == "urn:air:hub.corp.example:agents:open"
    assert [one["metadata"]["name"] for one in mine.body["entries"][1:]] == ["closed", "open"]


async def test_nested_catalogs_to_a_depth_of_four(tmp_path):
    """By address and inline, with the older `mediaType`; what is deeper, or no agent, is left."""
    async with serving_card() as server, hub_at(tmp_path) as desk:

        def agent(name: str) -> dict[str, Any]:
            card = json.loads(card_of(load_cases()[0][0])) | {"name": name}
            kind = "application/a2a-agent-card+json; v=1"
            return {"identifier": f"urn:air:x:y:{name}", "mediaType": kind, "data": card}

        def nested(*entries: dict[str, Any]) -> dict[str, Any]:
            return {"type": "application/ai-catalog+json", "data": {"entries": [*entries]}}

        deep = nested(
            agent("two"), nested(agent("three"), nested(agent("four"), nested(agent("5"))))
        )
        catalog = {
            "entries": [
                agent("one"),
                deep,
                {"type": "application/mcp-server-card+json", "url": "https://x.example"},
                {"type": "application/a2a-agent-card+json"},
                "nonsense",
                {
                    "type": "application/a2a-agent-card+json",
                    "url": f"{server.url}/.well-known/agent-card.json",
                },
            ]
        }
        answer = await desk.call("POST", "/import/catalog", {"catalog": catalog})
        wrong = await desk.call("POST", "/import/catalog", {"catalog": {"agents": []}})
        guarded = await desk.call(
            "POST", "/import/catalog", {"url": "http://10.0.0.1/ai-catalog.json"}
        )
    assert sorted(answer.body["added"]) == ["baker", "four", "one", "three", "two"]
    assert (answer.body["passed_over"], answer.body["failed"]) == (4, {})
    assert (wrong.status, guarded.status) == (422, 422)


async def test_an_import_reads_so_many_catalogs_and_entries_in_all(tmp_path):
    """Not so many of each: catalogs that name others would have the hub fetch thousands."""
    asked = 0

    async def nested(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        kind = "application/ai-catalog+json"
        return web.json_response({"entries": [{"type": kind, "url": f"/{i}"} for i in range(8)]})

    app = web.Application()
    app.router.add_get("/{path:.*}", nested)
    async with TestServer(app) as server, hub_at(tmp_path) as desk:
        found = await desk.call("POST", "/import/catalog", {"url": str(server.make_url("/"))})
        part = {"type": "application/ai-catalog+json", "data": {"entries": [1] * 6000}}
        long = await desk.call("POST", "/import/catalog", {"catalog": {"entries": [part, part]}})
    assert (found.status, asked) == (422, 50)
    assert "more than 50 catalogs" in found.body["error"]["message"]
    assert long.status == 422
    assert "more than 10000 entries" in long.body["error"]["message"]


async def test_the_search_of_ard(tmp_path):
    """A text in, entries of the catalog out, the best first, page by page."""
    async with hub_at(tmp_path) as desk:
        for case in load_cases()[0]:
            await desk.hub.admission.add(SYSTEM, card=card_of(case), name=case.name)

        async def ard(path: str, body: Any) -> Any:
            verb = "POST" if body is not None else "GET"
            async with desk._http.request(verb, f"{desk.url}/ard{path}", json=body) as answer:
                return await answer.json()

        one = await ard("/search", {"query": {"text": "book a hotel room"}, "pageSize": 1})
        two = await ard(
            "/search",
            {"query": {"text": "book a hotel room"}, "pageSize": 1, "pageToken": "1"},
        )
        other = await ard("/search", {"query": {"text": "x", "filter": {"type": ["mcp"]}}})
        listed = await ard("/agents?pageSize=5", None)
        explored = await ard("/explore", {})
        for token in ("²", "٣", "9" * 5_000, "9" * 18, "-1"):
            refused = await ard("/search", {"query": {"text": "x"}, "pageToken": token})
            assert "is not a token this hub gave" in refused["error"]["message"]
    assert (one["results"][0]["metadata"]["name"], one["referrals"]) == ("travel", [])
    assert one["results"][0]["score"] >= 80
    assert two["results"] == [] or two["results"][0]["metadata"]["name"] != "travel"
    assert other["results"] == []
    assert (len(listed["results"]), listed["nextPageToken"]) == (5, "5")
    assert {"value": "contract", "count": 2} in explored["facets"]["tags"]


async def test_a_hidden_skill_is_in_no_catalog_and_no_card(tmp_path):
    """A rule about seeing one skill counts at every face; who may see it has the original too."""
    async with serving_card() as server, hub_at(tmp_path, guests="call") as desk:
        await desk.add(server.url, name="baker")
        await desk.key("mia")
        await desk.key("eva", "user", "hr")
        rule = {"who": "!team:hr", "what": "skill:baker/sell", "may": "see", "effect": "deny"}
        assert (await desk.call("POST", "/policies", rule)).status == 201

        async def shown(by: str, verb: str, path: str, body: Any) -> tuple[int, str]:
            headers = {"X-API-Key": desk.keys[by]}
            where = desk.url + path
            async with desk._http.request(verb, where, json=body, headers=headers) as answer:
                return answer.status, (await answer.text()).lower()

        everywhere: list[tuple[str, str, Any]] = [
            ("GET", "/api/v1/agents/baker", None),
            ("GET", "/api/v1/ai-catalog.json", None),
            ("GET", "/ard/agents", None),
            ("POST", "/ard/search", {"query": {"text": "bread"}}),
            ("POST", "/ard/explore", {}),
            ("GET", "/agents/baker/.well-known/agent-card.json", None),
            ("GET", "/.well-known/agent-card.json", None),
        ]
        for verb, path, body in everywhere:
            _, hidden = await shown("mia", verb, path, body)
            _, seen = await shown("eva", verb, path, body)
            told = [any(word in text for word in ("money", '"sell"')) for text in (hidden, seen)]
            assert told == [False, True], path
        # The public catalog is the guests', whoever reads it.
        _, public = await shown("eva", "GET", "/.well-known/ai-catalog.json", None)
        refused, why = await shown("mia", "GET", "/agents/baker/card/original", None)
    assert "food" in public
    assert "money" not in public
    assert refused == 404
    assert "for its owner and for admins" in why
