"""Addresses strangers gave: public ones, and none of ours."""

from ipaddress import ip_network

import pytest

from accord.client import BadCard, Retry, Unreachable, connect
from accord.net import Guard
from tests.client.network.forward import forward
from tests.client.network.wire import get, network, ok, speaking
from tests.client.peers import answer, card, scripted, task

ONCE = Retry(attempts=1)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "93.184.216.34"]
)
def test_public_addresses(address):
    """Whatever way they are written."""
    assert Guard().allows(address)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
        ),
        *(
            "100.64.0.1",
            "fe80::1",
            "fe80::1%eth0",
            "fd00::1",
            "fec0::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
        ),
        *(
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "64:ff9b:1::1",
            "192.0.2.1",
            "2001:db8::1",
        ),
    ],
)
def test_addresses_that_are_not_public(address):
    """This machine, its network, the cloud's metadata; also inside an IPv6 address."""
    with pytest.raises(PermissionError, match="no public address"):
        Guard().check(address)


@pytest.mark.parametrize(
    "network",
    [
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
        *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        *("::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1"),
    ],
)
def test_networks_that_are_not_public(network):
    """From end to end, and not an address more. NAT64 and mapped addresses are IPv4's."""
    found = ip_network(network)
    assert not Guard().allows(str(found[0]))
    assert not Guard().allows(str(found[-1]))
    for number in (int(found[0]) - 1, int(found[-1]) + 1):
        if 0 <= number < 2**found.max_prefixlen and str(found) not in BESIDE:
            assert Guard().allows(str(type(found[0])(number)))


# Next to these is another network that is not public, or nothing.
BESIDE = {"0.0.0.0/8", "224.0.0.0/3", "2001::/23", "::/3", "4000::/2", "8000::/1", "3fff::/20"}


@pytest.mark.parametrize(
    "name",
    [
        *("localhost", "a.localhost", "printer.local", "db.internal", "wiki.intranet"),
        *("localhost.localdomain", "LOCALHOST.LocalDomain.", "localhost4.localdomain4"),
        *("localhost6.localdomain6", "nas.home", "db.private", "localhost6"),
        *("nas.home.arpa", "api.default.svc", "nas.lan", "wiki.corp", "wiki", "WIKI.CORP."),
    ],
)
def test_names_of_local_networks(name):
    with pytest.raises(ValueError, match="no public address"):
        Guard().check_url(f"https://{name}/")


def test_https_only():
    with pytest.raises(ValueError, match="must begin with https"):
        Guard().check_url("http://hooks.example.com:443/")
    Guard(schemes=["http"], ports=[80]).check_url("http://hooks.example.com/")


def test_what_is_allowed_by_name():
    """A network of one's own, and nothing beside it."""
    guard = Guard(allow=["10.20.0.0/16", "::1"])
    assert guard.allows("10.20.3.4")
    assert guard.allows("::ffff:10.20.3.4")
    assert guard.allows("::1")
    assert not guard.allows("10.21.3.4")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
async def test_a_guarded_network(host):
    """Looked at is what is connected to, however it was found; and it is no use to try again."""
    async with speaking(ok()) as wire:
        url = wire.url.replace("127.0.0.1", host)
        async with network(guard=Guard()) as net:
            with pytest.raises(Unreachable, match="no public address") as caught:
                await get(net, url)
        assert caught.value.is_lasting
        assert wire.connections == 0
        async with network(guard=Guard(allow=["127.0.0.0/8", "localhost"])) as net:
            assert (await get(net, url)).body == b"hi"


async def test_a_name_that_resolves_to_something_else_the_second_time(monkeypatch):
    """DNS rebinding: whatever was resolved before, the address that is connected to is the one that
    is looked at.
    """
    addresses = iter(["93.184.216.34", "127.0.0.1"])

    async def rebinding(host, family=0):
        return [(2, next(addresses))]

    monkeypatch.setattr("accord.net.pool.resolve", rebinding)
    guard = Guard(ports=None, schemes=["http"])
    async with speaking(ok()) as wire, network(guard=guard, connect_s=0.2) as net:
        url = wire.url.replace("127.0.0.1", "agent.test")
        for reason in ("no connection", "no public address"):
            with pytest.raises(Unreachable, match=reason):
                await get(net, url)
    assert wire.connections == 0


def agent_at(url):
    def handler(request):
        if request.verb == "GET":
            return answer(card(url or f"http://{request.headers['host']}/"))
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    return handler


async def test_an_agent_a_stranger_named():
    """With a guard the whole client is guarded: the card is not even asked for."""
    async with scripted(agent_at("")) as peer:
        with pytest.raises(Unreachable, match="no public address"):
            await connect(peer.url, guard=Guard(), retry=ONCE)
        assert peer.requests == []
        async with connect(peer.url, guard=Guard(allow=["127.0.0.1"])) as client:
            assert (await client.send("hello")).text == "17 crates"


async def test_a_card_of_a_private_network_may_name_another_host_there():
    """The agent on this machine is no stranger to it."""
    async with (
        scripted(agent_at("")) as other,
        scripted(agent_at(other.url + "/")) as peer,
        connect(peer.url) as client,
    ):
        assert (await client.send("hello")).text == "17 crates"
    assert [request.verb for request in other.requests] == ["POST"]


async def test_a_public_card_does_not_lead_into_our_network(monkeypatch):
    """Neither its interfaces, over any binding, nor a redirect on the way to it."""
    monkeypatch.delenv("NO_PROXY", raising=False)

    def pointing_at(url, binding):
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
        return lambda request: answer(card("", supportedInterfaces=[interface]))

    def moved(request):
        return answer("", 302, location=other.url + "/.well-known/agent-card.json")

    async with scripted(agent_at("")) as other, forward() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)  # by which `agent.test` is somewhere outside
        for handler, fault in (
            (pointing_at("http://192.168.7.7:9/", "JSONRPC"), Unreachable),
            (pointing_at("http://[fd00::7]:9", "HTTP+JSON"), Unreachable),
            (pointing_at("10.7.7.7:9", "GRPC"), BadCard),
            (moved, Unreachable),
        ):
            async with scripted(handler) as peer:
                client = connect(peer.url.replace("127.0.0.1", "agent.test"), retry=ONCE)
                with pytest.raises(fault, match=r"no public address|private network"):
                    await client.send("hello")
                await client.close()
    assert other.requests == []
