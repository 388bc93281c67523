"""The app inside other apps: under a prefix, without a lifespan, beside routes of the host."""

import aiohttp
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from accord import Agent
from accord.auth import ApiKeys
from accord.engine.skills import definition_of
from tests.drive import BINDINGS, JsonRpc, kinds, refusal_of, say, serving, state_of, text_of
from tests.push.webhook import webhook


@pytest.fixture
def agent():
    agent = Agent("Mounted")

    @agent.skill
    async def count(request: str):
        yield "one"
        yield "two"

    return agent


async def echo(text: str) -> str:
    return text


def in_starlette(app, path):
    async def hello(request):
        return PlainTextResponse("host")

    return Starlette(routes=[Route("/", hello), Mount(path, app=app)])


def in_fastapi(app, path):
    host = FastAPI()

    @host.get("/")
    async def hello() -> str:
        return "host"

    host.mount(path, app)
    return host


HOSTS = {"starlette": in_starlette, "fastapi": in_fastapi}


@pytest.fixture(params=HOSTS)
def host(request):
    return HOSTS[request.param]


@pytest.fixture(params=BINDINGS)
def door(request):
    return BINDINGS[request.param]


async def test_a_mounted_agent_starts_itself(agent, host, door, lasting):
    """Hosts run no lifespan for what is mounted in them: the first request opens the store."""
    app = agent.app(store=lasting)
    async with (
        serving(host(app, "/agents/trip"), app.close) as url,
        aiohttp.ClientSession() as http,
    ):
        client = door(http, url + "/agents/trip")
        task = (await client.send("go"))["task"]
        assert (state_of(task), text_of(task)) == ("completed", "onetwo")
        assert await client.get(task["id"]) == task
        async with http.get(url + "/") as response:
            assert "host" in await response.text()


async def test_a_mounted_agent_streams(agent, host, door):
    """Frame by frame through the host."""
    app = agent.app()
    async with serving(host(app, "/trip"), app.close) as url, aiohttp.ClientSession() as http:
        frames = await (await door(http, url + "/trip").stream("go")).rest()
        assert kinds(frames) == ["task submitted", "working", "chunk", "chunk", "completed"]


async def test_the_card_of_a_mounted_agent_points_below_the_mount(agent, host):
    """The RPC URL ends in a slash, since hosts redirect the bare mount point; both can be used as
    they are.
    """
    app = agent.app()
    async with serving(host(app, "/trip"), app.close) as url, aiohttp.ClientSession() as http:
        card = await JsonRpc(http, url + "/trip").card()
        by_binding = {
            e["protocolBinding"]: e["url"]
            for e in card["supportedInterfaces"]
            if e["protocolVersion"] == "1.0"
        }
        assert by_binding["JSONRPC"] == url + "/trip/"
        assert by_binding["HTTP+JSON"] == url + "/trip"
        call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
        async with http.post(by_binding["JSONRPC"], json=call, allow_redirects=False) as response:
            assert (response.status, (await response.json())["result"]["totalSize"]) == (200, 0)


async def test_the_extended_card_of_a_mounted_agent_names_the_address_of_the_request(host):
    """Where that is allowed: of any other name in the Host header it is the address that the host
    listens on.
    """
    secret = "a-key-of-mia-0123456789"
    agent = Agent("Mounted", auth=ApiKeys(keys={secret: "mia"}))
    agent.skill(echo)
    agent.extended_card(lambda card, caller: card)
    app = agent.app()
    headers = {"X-API-Key": secret, "A2A-Version": "1.0"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
    async with serving(host(app, "/trip"), app.close) as url, aiohttp.ClientSession() as http:
        at = url + "/trip"
        for more in ({}, {"Host": "shop"}):
            named = headers | more
            async with http.get(f"{at}/extendedAgentCard", headers=named) as response:
                rest = await response.json(content_type=None)
            async with http.post(f"{at}/", json=call, headers=named) as response:
                rpc = (await response.json())["result"]
            for card in (rest, rpc):
                urls = {e["url"].rstrip("/") for e in card["supportedInterfaces"]}
                assert urls == {at}


async def test_the_extended_card_of_a_tenant_names_its_path():
    """Asked for at the root, which several agents share."""
    one, two = Agent("One"), Agent("Two")
    for agent in (one, two):
        agent.skill(echo)
        definition_of(agent).is_extended_card_public = True
        definition_of(agent).extend_card = lambda card, caller: card
    app = one.app(beside=[two])
    async with serving(app, app.close) as url, aiohttp.ClientSession() as http:
        async with http.get(f"{url}/two/extendedAgentCard") as response:  # also the agent's path
            by_path = await response.json(content_type=None)
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
        params = {"params": {"tenant": "two"}}
        async with http.post(
            f"{url}/", json=call | params, headers={"A2A-Version": "1.0"}
        ) as answer:
            by_tenant = (await answer.json())["result"]
    for card in (by_path, by_tenant):
        assert card["supportedInterfaces"][0]["url"] == f"{url}/two/"


async def test_push_says_if_its_issuer_is_not_known(agent, host, caplog):
    """The host does not tell where clients reach it, and what receives notifications may check who
    sends them.
    """
    app = agent.app(allow_hosts=["127.0.0.1"])
    async with (
        webhook() as hook,
        serving(host(app, "/trip"), app.close) as url,
        aiohttp.ClientSession() as http,
    ):
        push = {"taskPushNotificationConfig": {"url": hook.url}}
        await JsonRpc(http, url + "/trip").send(say("go", configuration=push))
        await hook.ended()
    said = [one for one in caplog.messages if "as their issuer" in one]
    assert len(said) == 1


async def test_two_agents_live_in_one_host(agent):
    """Each under its own path with its own tasks (TEN-4)."""
    other = Agent("Other")
    other.skill(echo)
    one, two = agent.app(), other.app()

    async def close():
        await one.close()
        await two.close()

    host = Starlette(routes=[Mount("/one", app=one), Mount("/two", app=two)])
    async with serving(host, close) as url, aiohttp.ClientSession() as http:
        first, second = JsonRpc(http, url + "/one"), JsonRpc(http, url + "/two")
        await first.send("go")
        assert [(await client.list())["totalSize"] for client in (first, second)] == [1, 0]
        assert [(await client.card())["name"] for client in (first, second)] == ["Mounted", "Other"]


async def test_a_host_may_open_and_close_the_agent(agent):
    """`lifespan=app.lifespan` does both with the host."""
    app = agent.app()
    host = Starlette(routes=[Mount("/", app=app)], lifespan=app.lifespan)
    async with host.router.lifespan_context(host):
        pass
    async with serving(host, app.close) as url, aiohttp.ClientSession() as http:
        assert (await refusal_of(JsonRpc(http, url).send("after the end"))).status == 503


async def test_the_lifespan_protocol_opens_and_closes_the_agent(agent):
    """What uvicorn does for an app of its own."""
    app = agent.app()
    said = []
    events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive():
        return next(events)

    async def send(message):
        said.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_store_that_cannot_be_opened_stops_the_start(agent, tmp_path):
    """The host is told why."""
    (tmp_path / "file").write_text("not a folder")
    app = agent.app(store=f"sqlite:///{tmp_path / 'file' / 'tasks.db'}")
    said = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        said.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert [message["type"] for message in said] == ["lifespan.startup.failed"]
    assert said[0]["message"]
