"""No address that a stranger gives makes the hub call what only it can reach."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from accord.hub import Hub, HubSettings
from accord.hub.access.principals import SYSTEM
from accord.operations.table import VERSIONS
from accord.push import PushSettings
from tests.auth.matrix import Answer, Asked, Http, RpcDoor
from tests.auth.test_matrix import UNLIMITED
from tests.client.network.test_guard_cases import NAMES, PUBLIC, REFUSED, outside
from tests.hub.ways import WayIn, ways_in
from tests.relay.relays import clerk, served

__all__ = ["outside"]

OTHER = "93.184.216.35"  # where hooks.test is
QUICK = PushSettings(schedule_s=(0.0, 0.01, 3600.0), breaker_s=0.0, timeout_s=0.5)
PATIENCE_S = 60.0
URLS = [url for urls in REFUSED.values() for url in urls]


class World:
    """A hub that other machines reach, so that loopback is not its own, and an agent outside."""

    def __init__(self, hub: Hub, channel: grpc.aio.Channel) -> None:
        self.hub, self._channel = hub, channel
        self.key = {"X-API-Key": hub.admin_key}

    def ways_in(self) -> list[WayIn]:
        return ways_in(self.hub.app, self._channel, "clerk")

    async def rest(self, verb: str, path: str, body: Any = None) -> Answer:
        return await Http(self.hub.app).ask(verb, f"/api/v1{path}", self.key, body)


@pytest.fixture
async def world(tmp_path, outside, monkeypatch) -> AsyncIterator[World]:
    monkeypatch.setitem(NAMES, "agent.test", [PUBLIC])
    monkeypatch.setitem(NAMES, "hooks.test", [OTHER])
    for name in ("first.example.com", "second.example.com"):
        monkeypatch.setitem(NAMES, name, [PUBLIC])
    monkeypatch.setitem(NAMES, "0.0.0.0", ["0.0.0.0"])  # what the hub itself listens on
    settings = HubSettings(
        host="0.0.0.0",
        store=f"sqlite:///{tmp_path}/hub.db",
        folder=str(tmp_path),
        allow=("agent.test", "hooks.test"),
        grpc_port=0,
        tick_s=0.0,
    )
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(clerk(), url="http://agent.test"))
        outside.server = int(url.rpartition(":")[2])
        outside.others[OTHER] = await stack.enter_async_context(bad_server())
        hub = Hub(settings, UNLIMITED, QUICK)
        await hub.app.open()
        stack.push_async_callback(hub.app.close)
        await hub.admission.add(SYSTEM, card=card_at("http://agent.test/"), name="clerk")
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{hub.app.grpc_port}")
        stack.push_async_callback(channel.close)
        yield World(hub, channel)


@contextlib.asynccontextmanager
async def bad_server() -> AsyncIterator[int]:
    """A server that does to each request what its path says; yields its port."""
    say = {
        "/307": b"HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:8000/\r\ncontent-length: 0\r\n\r\n",
        "/302": b"HTTP/1.1 302 x\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
        "/slow": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1",
        "/endless": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    }

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = "/" + head.split(b" ", 2)[1].decode().split("/")[1]
            writer.write(say.get(path, b"HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n"))
            while path == "/endless":
                writer.write(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
                await writer.drain()
            await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def card_at(url: str, binding: str = "JSONRPC", **more: Any) -> bytes:
    interface = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
    card = {
        "name": "Clerk",
        "description": "",
        "version": "1",
        "supportedInterfaces": [interface],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "work", "name": "Work", "description": "", "tags": []}],
    }
    return json.dumps(card | more).encode()


async def test_webhooks_by_every_way_in(world, outside, capsys):
    """Registered for a task, and brought along by a message: refused before anything is done."""
    refused, task = 0, await waiting_task(world)
    outside.connects.clear()
    for way in world.ways_in():
        for url in URLS:
            asked = [("CreateTaskPushNotificationConfig", Asked(task, hook=url))]
            asked.append(("SendMessage", Asked(hook=url, is_inline=True)))
            for operation, values in asked:
                answer = await way.ask(operation, values, world.key)
                assert answer.kind not in ("ok", "500", "INTERNAL"), (way.name, operation, url)
                assert is_about_params(answer), (way.name, operation, url, answer)
                refused += 1
        assert outside.connects == []
        accepted = Asked(task, hook="https://hooks.example.com/")
        answer = await way.ask("CreateTaskPushNotificationConfig", accepted, world.key)
        assert answer.kind == "ok", answer
    with capsys.disabled():
        print(f"\nwebhooks: {len(URLS)} addresses x 8 ways in, {refused} refusals, 0 connections")
    assert refused == 2 * 67 * 8


def is_about_params(answer: Answer) -> bool:
    return any(word in answer.body for word in (b"-32602", b"INVALID_ARGUMENT", b"INVALID_PARAMS"))


async def waiting_task(world: World) -> str:
    answer = await world.ways_in()[0].ask("SendMessage", Asked(text="ask"), world.key)
    assert answer.kind == "ok", answer
    return str(json.loads(answer.body)["result"]["task"]["id"])


BEHAVIOURS = {
    "307 to loopback": "http://hooks.test/307",
    "302 to metadata": "http://hooks.test/302",
    "another answer between check and connect": "https://first.example.com/",
    "another answer between attempts": "https://second.example.com/",
    "an endless body": "http://hooks.test/endless",
    "a body that hardly comes": "http://hooks.test/slow",
}


async def test_bad_behaviour_of_webhooks_by_every_way_in(world, outside, capsys):
    """Each is a failure of its delivery, and nothing else is connected to."""
    ways, tasks = world.ways_in(), []
    for way in ways:
        for url in BEHAVIOURS.values():
            tasks.append(await waiting_task(world))
            asked = Asked(tasks[-1], hook=url)
            answer = await way.ask("CreateTaskPushNotificationConfig", asked, world.key)
            assert answer.kind == "ok", (way.name, url, answer)
    outside.names["first.example.com"] = [["127.0.0.1"]] * 1000
    outside.names["second.example.com"] = [[PUBLIC]] * 8 + [["127.0.0.1"]] * 1000
    outside.lookups.clear()
    for task in tasks:
        answer = await ways[0].ask("SendMessage", Asked(task, text="one"), world.key)
        assert answer.kind == "ok", answer
    pushes = world.hub.app.engine.tasks.store.pushes
    async with asyncio.timeout(PATIENCE_S):
        while True:
            troubled = [one for one in await pushes.listed(1000) if one.tries >= 2]
            if len(troubled) == 48:
                break
            await asyncio.sleep(0.02)
    reached = {address for address, _ in outside.connects}
    with capsys.disabled():
        print(f"\nwebhooks: {len(BEHAVIOURS)} bad behaviours x 8 ways in, 48 failed deliveries")
    assert reached == {PUBLIC, OTHER}
    assert sum(host.endswith(".example.com") for host in outside.lookups) >= 2 * 2 * 8


# What else a stranger may name


async def add_card(world: World, url: str) -> None:
    answer = await world.rest("POST", "/agents", {"url": url})
    assert answer.status == 422, (url, answer)


def interface_of(binding: str) -> Any:
    async def call(world: World, url: str) -> None:
        await added_and_called(world, card_at(url, binding))

    return call


async def token_url(world: World, url: str) -> None:
    flows = {"clientCredentials": {"tokenUrl": url, "scopes": {}}}
    await called_with_secret(world, {"oauth2SecurityScheme": {"flows": flows}})


async def metadata_url(world: World, url: str) -> None:
    await called_with_secret(world, {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}})


async def issuer_of_a_caller(world: World, url: str) -> None:
    scheme = {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example/"}}
    await called_with_secret(world, scheme, issuer=url)


async def called_with_secret(world: World, scheme: Any, **more: str) -> None:
    """Give a credential of one's own for an agent that wants a token, and call it."""
    required = [{"schemes": {"s": {"list": []}}}]
    card = card_at(
        "http://agent.test/", securitySchemes={"s": scheme}, securityRequirements=required
    )
    secret = {"kind": "client_credentials", "user": "me", "secret": "s3cret"} | more
    await added_and_called(world, card, secret)


async def added_and_called(world: World, card: bytes, secret: Any = None) -> None:
    answer = await world.rest("POST", "/agents", {"card": json.loads(card), "name": "strange"})
    if answer.status == 422:
        return  # no interface that can be read
    assert answer.status == 201, answer
    put = None
    if secret is not None:
        put = await world.rest("PUT", "/agents/strange/my-credentials/s", secret)
        assert put.status in (204, 400), put
    if put is None or put.status == 204:  # else the address was refused at once
        way = RpcDoor(world.hub.app, VERSIONS[0], "/agents/strange")
        said = await way.ask("SendMessage", Asked(), world.key)
        assert said.kind != "ok"
        assert b"reference" not in said.body, said.body  # of an error nobody thought of
    await world.rest("DELETE", "/agents/strange")


async def trusted_key(world: World, url: str) -> None:
    card = {"signatures": [{"protected": "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ"}]}
    answer = await world.rest("POST", "/trusted-keys", {"name": "k", "url": url})
    if answer.status == 201:
        report, _ = await world.hub.trusted.report(card, "")
        assert report.status != "trusted"
        await world.rest("DELETE", f"/trusted-keys/{json.loads(answer.body)['id']}")


async def catalog(world: World, url: str) -> None:
    answer = await world.rest("POST", "/import/catalog", {"url": url})
    assert answer.status == 422, (url, answer)


async def catalog_in_a_catalog(world: World, url: str) -> None:
    inner = {"type": "application/ai-catalog+json", "url": url, "identifier": "x"}
    answer = await world.rest("POST", "/import/catalog", {"catalog": {"entries": [inner]}})
    assert answer.status == 422, (url, answer)


async def card_in_a_catalog(world: World, url: str) -> None:
    inner = {"type": "application/a2a-agent-card+json", "url": url, "identifier": "x"}
    answer = await world.rest("POST", "/import/catalog", {"catalog": {"entries": [inner]}})
    assert json.loads(answer.body)["added"] == [], (url, answer)


async def icon(world: World, url: str) -> None:
    """Nothing a card points its readers to is ever fetched."""
    about: dict[str, Any] = {
        "iconUrl": url,
        "documentationUrl": url,
        "provider": {"organization": "x", "url": url},
    }
    card = json.loads(card_at("http://agent.test/", **about))
    answer = await world.rest("POST", "/agents", {"card": card, "name": "strange"})
    assert answer.status == 201, answer
    await world.rest("GET", "/agents/strange")
    await world.rest("DELETE", "/agents/strange")


KINDS = {
    "card": add_card,
    "interface, JSON-RPC": interface_of("JSONRPC"),
    "interface, HTTP+JSON": interface_of("HTTP+JSON"),
    "interface, gRPC": interface_of("GRPC"),
    "token endpoint": token_url,
    "OpenID Connect metadata": metadata_url,
    "issuer of a caller's own credential": issuer_of_a_caller,
    "keys": trusted_key,
    "catalog": catalog,
    "catalog in a catalog": catalog_in_a_catalog,
    "card in a catalog": card_in_a_catalog,
    "icon, documentation, provider": icon,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_addresses_of_every_kind(world, outside, kind, capsys):
    """Those that are refused, and redirects and resolvers that lead there."""
    outside.connects.clear()
    urls = URLS[::6] if kind.startswith("icon") else URLS  # what is never fetched, some show
    for url in urls:
        await KINDS[kind](world, url)
    own = [address for address, _ in outside.connects if address != PUBLIC]
    assert own == []
    for url in ("http://hooks.test/307", "http://hooks.test/302"):
        await KINDS[kind](world, url)
    outside.names["first.example.com"] = [["127.0.0.1"]] * 50
    await KINDS[kind](world, "https://first.example.com/")
    assert {address for address, _ in outside.connects} <= {PUBLIC, OTHER}
    with capsys.disabled():
        print(f"\n{kind}: {len(urls) + 3} cases, 0 connections inside")
