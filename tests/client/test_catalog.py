"""Finding agents by the AI Catalog of a host: served by us, and read by the client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from accord import Agent, connect
from accord.auth import ApiKeys
from accord.client import BadCard
from accord.client.discovery import walk_catalog
from tests.drive import serving

PLACE = "/.well-known/ai-catalog.json"
CARD = "application/a2a-agent-card+json"
CATALOG = "application/ai-catalog+json"


def _agent(name: str, **options: Any) -> Agent:
    agent = Agent(name, **options)

    @agent.skill(tags=["words"], examples=["hello"])
    async def echo(request: str) -> str:
        """Say it again."""
        return request

    return agent


@asynccontextmanager
async def _served(app: Any) -> AsyncIterator[tuple[str, Any]]:
    async with (
        serving(app, app.close) as url,
        aiohttp.ClientSession(trust_env=False) as http,
        http.get(url + PLACE) as answer,
    ):
        assert answer.status == 200
        assert "max-age" in answer.headers["Cache-Control"]
        yield url, await answer.json()


async def test_an_agent_is_listed_with_the_address_of_its_card():
    async with _served(_agent("Echo").app()) as (url, catalog):
        [entry] = catalog["entries"]
        assert entry["url"] == f"{url}/.well-known/agent-card.json"
        assert (entry["displayName"], entry["type"]) == ("Echo", CARD)
        assert (entry["tags"], entry["representativeQueries"]) == (["words"], ["hello"])
        async with connect(entry["url"]) as client:
            assert (await client.send("hi")).text == "hi"


async def test_several_agents_of_one_port_are_listed():
    app = _agent("One").app(beside=[_agent("Two")])
    async with _served(app) as (_, catalog):
        assert [entry["displayName"] for entry in catalog["entries"]] == ["One", "Two"]
        async with connect(catalog["entries"][1]["url"]) as client:
            assert client.card.name == "Two"


async def test_a_card_that_is_not_public_is_not_listed():
    app = _agent("Secret", auth=ApiKeys(), card="authenticated").app()
    async with _served(app) as (_, catalog):
        assert catalog["entries"] == []


# Read by the client


@asynccontextmanager
async def _host(entries: Any, *, status: int = 200) -> AsyncIterator[str]:
    """A host without a card of its own."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"specVersion": "1.0", "entries": entries}, status=status)

    app = web.Application()
    app.router.add_get(PLACE, answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def _entry(name: str, **more: Any) -> dict[str, Any]:
    return {"identifier": f"urn:air:x:agents:{name}", "displayName": name, "type": CARD} | more


async def test_the_one_agent_of_a_catalog_is_found():
    """By the card that stands in it."""
    app = _agent("Echo").app()
    async with (
        serving(app, app.close) as url,
        aiohttp.ClientSession(trust_env=False) as http,
        http.get(f"{url}/.well-known/agent-card.json") as answer,
    ):
        card = await answer.json()
    other = {"type": "application/mcp-server+json", "url": "https://x.example/mcp"}
    async with _host([other, 7, _entry("echo", data=card)]) as host, connect(host) as client:
        assert client.card.name == "Echo"
        assert any("catalog" in note for note in client.notes)


async def test_several_agents_are_named():
    entries = [_entry("hr", url="/hr/card.json"), _entry("it", url="https://it.example/card.json")]
    async with _host(entries) as host:
        with pytest.raises(BadCard) as caught:
            await connect(host)
        assert caught.value.cause == "several"
        for part in ("2 agents", "'hr'", f"{host}/hr/card.json", "https://it.example/card.json"):
            assert part in str(caught.value)


@pytest.mark.parametrize("count", [1, 2])
async def test_the_agents_of_a_host_are_named_for_an_address_below_it(count):
    """Even one may be another than the agent that was there."""
    entries = [_entry("hr", url="/hr/card.json"), _entry("it", url="/it/card.json")][:count]
    async with _host(entries) as host:
        with pytest.raises(BadCard, match=rf"lists {count} agents?: 'hr' .*/hr/card\.json"):
            await connect(f"{host}/agents/payroll")


@pytest.mark.parametrize("entries", [[], "x", {}, [{"type": CARD}], [_entry("x", url=7)], None])
async def test_a_catalog_without_agents_is_no_way(entries):
    async with _host(entries) as host:
        with pytest.raises(BadCard, match="lists no agent"):
            await connect(host)


@pytest.mark.parametrize(
    "url", ["http://[::1", "ftp://x.example/card.json", "file:///etc/passwd", "http://x:99999/"]
)
async def test_an_address_that_is_none_leads_nowhere(url):
    """It is a stranger's: it is no agent, and no error of another kind either."""
    async with _host([_entry("x", url=url)]) as host:
        with pytest.raises(BadCard, match="lists no agent"):
            await connect(host)


async def test_a_catalog_that_came_by_tls_does_not_lead_away_from_it():
    inner = {"type": CATALOG, "url": "http://x.example/more.json"}
    entries = [_entry("x", url="http://x.example/card.json"), inner, _entry("y", url="/c")]

    async def fetch(place: str) -> Any:
        raise AssertionError(f"{place} is fetched")

    walk = walk_catalog(fetch, f"https://h.example{PLACE}", {"entries": entries})
    listed = [agent async for agent in walk if agent is not None and agent.url]
    assert [agent.url for agent in listed] == ["https://h.example/c"]


async def test_the_address_of_the_one_agent_is_followed():
    app = _agent("Echo").app()
    async with (
        serving(app, app.close) as url,
        _host([_entry("echo", url=f"{url}/.well-known/agent-card.json")]) as host,
        connect(host) as client,
    ):
        assert (await client.send("hi")).text == "hi"


async def test_catalogs_that_a_catalog_names_are_read_too():
    """As everywhere; one that can't be read is named, since the agent may stand in it."""
    app, beside = _agent("Echo").app(), _agent("Other").app()
    async with serving(app, app.close) as url, serving(beside, beside.close) as other:
        listed = [{"type": CATALOG, "url": url + PLACE}]
        async with _host(listed) as host:
            async with connect(host) as client:
                assert client.card.name == "Echo"
            listed.append({"type": CATALOG, "url": other + PLACE})
            with pytest.raises(BadCard, match=r"lists 2 agents: 'Echo'.*'Other'"):
                await connect(host)
            listed[1]["url"] = f"{other}/nothing.json"
            with pytest.raises(
                BadCard, match=r"nothing\.json: the catalog can't be read: HTTP 404"
            ):
                await connect(host)


async def test_catalogs_without_end_are_left():
    """However many name each other."""
    listed: list[Any] = []
    async with _host(listed) as host:
        listed += [{"type": CATALOG, "url": host + PLACE}] * 8
        with pytest.raises(BadCard, match="names more than 50 catalogs"):
            await connect(host)


async def test_where_was_looked_is_said():
    async with _host([], status=500) as host:
        with pytest.raises(BadCard, match=r"ai-catalog\.json \(HTTP 500\)"):
            await connect(host)
