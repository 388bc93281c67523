"""Calls to addresses that strangers gave: directly through the guard, or through a proxy that has a
policy of its own.
"""

import logging

import pytest

from accord import Agent, Context
from accord.client import BadCard, connect
from accord.net import Guard, Unreachable
from tests.client.network.forward import forward
from tests.client.network.wire import get, network, ok, speaking
from tests.client.peers import answer, card, scripted, task


async def test_what_a_stranger_gave_goes_through_the_proxy():
    """Also what the guard would refuse: the proxy decides, and resolves the name."""
    async with speaking(ok()) as wire, forward() as proxy:
        url = wire.url.replace("127.0.0.1", "hooks.internal")
        async with network(guard=Guard(proxy=proxy.url)) as net:
            assert (await get(net, url)).body == b"hi"
        assert proxy.lines == [f"GET {url} HTTP/1.1"]
        async with network(guard=Guard()) as net:
            with pytest.raises(Unreachable, match="no public address"):
                await get(net, url)


async def test_a_proxy_that_is_not_there_is_not_gone_around():
    """A policy that can be avoided by stopping the proxy is none."""
    async with speaking(ok()) as wire:
        async with network(guard=Guard(proxy="http://127.0.0.1:9")) as net:
            with pytest.raises(Unreachable):
                await get(net, wire.url)
        assert wire.connections == 0


def test_hosts_are_allowed_at_one_place():
    with pytest.raises(ValueError, match="the proxy decides"):
        Guard(["10.0.0.0/8"], proxy="http://127.0.0.1:3128")
    with pytest.raises(ValueError, match="is not an HTTP proxy"):
        Guard(proxy="socks5://127.0.0.1:1080")
    with pytest.raises(ValueError, match="must not have a user"):
        Guard(proxy="http://127.0.0.1:3128").check_url("https://ada@example.org/")


def _elsewhere(urls):
    """An agent whose card sends callers to these places."""

    def at(request):
        if request.verb == "GET":
            return answer(card(*urls))
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    return at


async def test_a_card_that_names_another_place():
    """The agent itself, which the user named, is called directly; the place its card names through
    the proxy.
    """
    urls: list[str] = []
    async with (
        scripted(_elsewhere(urls)) as home,
        scripted(_elsewhere(urls)) as other,
        forward() as proxy,
    ):
        urls.append(other.url.replace("127.0.0.1", "elsewhere.example"))
        async with connect(home.url, egress_proxy=proxy.url) as client:
            assert (await client.send("hello")).task.id == task()["id"]
    assert {line.split()[1].split("/")[2].split(":")[0] for line in proxy.lines} == {
        "elsewhere.example"
    }


async def test_a_delegation_uses_the_proxy_of_its_server():
    urls: list[str] = []
    agent = Agent("Front")

    async with (
        scripted(_elsewhere(urls)) as home,
        scripted(_elsewhere(urls)) as other,
        forward() as proxy,
    ):
        urls.append(other.url.replace("127.0.0.1", "elsewhere.example"))

        @agent.skill
        async def work(text: str, ctx: Context) -> str:
            return (await ctx.delegate(home.url, text)).task.id

        async with agent.app(egress_proxy=proxy.url).serving() as url, connect(url) as client:
            assert (await client.send("hello")).text == task()["id"]
    assert proxy.lines


async def test_grpc_elsewhere_is_not_used_beside_a_proxy():
    """grpcio would go around it."""

    def at(request):
        given = card("x")
        given["supportedInterfaces"] = [
            {"url": "other.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        ]
        return answer(given)

    async with scripted(at) as home:
        with pytest.raises(BadCard, match="gRPC does not go through the proxy"):
            await connect(home.url, egress_proxy="http://127.0.0.1:9")


async def test_a_server_says_how_it_calls_out(caplog):
    agent = Agent("Says")

    @agent.skill
    async def work(text: str) -> str:
        return text

    with caplog.at_level(logging.INFO, "accord"):
        for proxy, words in (
            ("", "public addresses only"),
            ("http://u:p@h:1", "http://h:1"),
        ):
            app = agent.app(egress_proxy=proxy)
            await app.open()
            await app.close()
            assert words in caplog.text
    assert "u:p" not in caplog.text
