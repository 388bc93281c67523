"""Through a forward proxy, with and without TLS; and which calls go through one."""

import pytest

from accord.client import Retry, Unreachable, connect
from accord.net import Proxies, client_tls, parse_url
from tests.client.certs import Authority
from tests.client.network.forward import forward
from tests.client.network.wire import OK, get, network, ok, say, secured, speaking, stream
from tests.client.peers import answer, card, scripted, sse, task

SECRET = "s3cret-t0ken"


def agent(request):
    """An agent that streams, and is wherever it is asked."""
    if request.verb == "GET":
        return answer(
            card(f"{request.headers.get('x-scheme', 'http')}://{request.headers['host']}/")
        )
    reply = {"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}}
    return sse(reply) if "Stream" in request.json["method"] else answer(reply)


def agent_with_tls(request):
    request.headers["x-scheme"] = "https"
    return agent(request)


async def test_a_plain_call_through_a_proxy():
    """The proxy is told the whole URL, the agent what it would be told without one; connections are
    used again.
    """
    async with (
        speaking(ok()) as wire,
        forward() as proxy,
        network(proxies=Proxies.always(proxy.url)) as net,
    ):
        for _ in range(2):
            assert (await get(net, wire.url + "a?b=c", "POST", b"work")).body == b"hi"
    assert proxy.lines == [f"POST {wire.url}a?b=c HTTP/1.1"] * 2
    assert wire.requests[0].startswith(b"POST /a?b=c HTTP/1.1\r\nHost: ")
    assert wire.connections == 1


async def test_a_call_with_tls_through_a_proxy(tmp_path):
    """Through a tunnel: the proxy learns host and port, and nothing else."""
    authority = Authority(tmp_path)
    turns = (ok(b"x" * 200_000), say(OK + b"\r\nbye", then="close"))
    async with (
        speaking(*turns, tls=secured(authority)) as wire,
        forward() as proxy,
        network(proxies=Proxies.always(proxy.url), tls=client_tls(authority.pem)) as net,
    ):
        headers = {"Authorization": SECRET}
        assert (
            len((await get(net, wire.url, "POST", b"x" * 200_000, headers=headers)).body) == 200_000
        )
        assert await stream(net, wire.url) == b"bye"
    assert proxy.lines == [f"CONNECT {wire.url[8:-1]} HTTP/1.1"]
    assert SECRET.encode() in wire.requests[0]
    assert SECRET.encode() not in proxy.seen
    assert wire.connections == 1


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_proxy_with_a_password(tls, tmp_path):
    """It goes to the proxy and never to the agent. Without it the proxy is named as the one who
    refuses, and no password is.
    """
    authority = Authority(tmp_path)
    async with (
        speaking(ok(), tls=secured(authority) if tls else None) as wire,
        forward(f"ada:{SECRET}@/") as proxy,
    ):
        told = proxy.url.replace("://", f"://ada:{SECRET}%40%2F@")
        for _ in range(2):
            async with network(proxies=Proxies.always(told), tls=client_tls(authority.pem)) as net:
                assert (await get(net, wire.url)).body == b"hi"
        wrong = proxy.url.replace("://", f"://bob:{SECRET}@")
        async with network(proxies=Proxies.always(wrong), tls=client_tls(authority.pem)) as net:
            with pytest.raises(
                Unreachable, match=f"the proxy {proxy.url[:-1]} refused: 407"
            ) as caught:
                await get(net, wire.url)
    assert SECRET not in str(caught.value)
    assert caught.value.is_lasting
    assert not any(b"roxy-" in request for request in wire.requests)


async def test_a_proxy_that_is_not_there():
    """Told apart from an agent that is not there; either may be back in a moment."""
    async with network(proxies=Proxies.always("http://127.0.0.1:9")) as net:
        for url in ("http://agent.example/", "https://agent.example/"):
            with pytest.raises(
                Unreachable, match=r"no connection to the proxy http://127.0.0.1:9: .*refused"
            ) as caught:
                await get(net, url)
            assert not caught.value.is_lasting
    async with forward() as proxy, network(proxies=Proxies.always(proxy.url)) as net:
        with pytest.raises(Unreachable, match="refused: 502"):
            await get(net, "https://127.0.0.1:9/")


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_client_through_a_proxy(tls, tmp_path):
    """Card, send and stream."""
    authority = Authority(tmp_path)
    async with (
        scripted(agent_with_tls if tls else agent, secured(authority) if tls else None) as peer,
        forward() as proxy,
        connect(peer.url, proxy=proxy.url, ca=authority.pem) as client,
    ):
        assert (await client.send("hello")).text == "17 crates"
        assert [type(event).__name__ async for event in client.stream("hello")] == ["Task"]
    assert len(peer.requests) == 3
    assert len(proxy.lines) == (1 if tls else 3)


async def test_the_environment_counts_for_the_address_that_was_typed(monkeypatch):
    """Its name need not even be known here. What its card names elsewhere is a stranger's word:
    that goes without, and guarded.
    """
    monkeypatch.delenv("NO_PROXY", raising=False)
    elsewhere = [
        {"url": "http://192.168.7.7:9/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ]

    def pointing_elsewhere(request):
        return answer(card("", supportedInterfaces=elsewhere))

    async with scripted(agent) as peer, scripted(pointing_elsewhere) as other, forward() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with connect(peer.url.replace("127.0.0.1", "agent.test")) as client:
            assert (await client.send("hello")).text == "17 crates"
        assert len(proxy.lines) == 2
        with pytest.raises(Unreachable, match="no connection: "):
            await connect(peer.url.replace("127.0.0.1", "agent.test"), proxy=False)
        async with connect(
            other.url.replace("127.0.0.1", "agent.test"), retry=Retry(attempts=1)
        ) as client:
            with pytest.raises(Unreachable, match=r"192\.168\.7\.7 is no public address"):
                await client.send("hello")
        assert len(proxy.lines) == 3


@pytest.mark.parametrize(
    ("exceptions", "url", "is_direct"),
    [
        ("", "http://agent.example/", False),
        ("*", "http://agent.example/", True),
        ("agent.example", "http://agent.example:81/", True),
        ("example", "http://agent.example/", True),
        (".example", "http://agent.example/", True),
        ("*.example", "http://agent.example/", True),
        ("gent.example", "http://agent.example/", False),
        ("other.example, agent.example", "http://AGENT.example./", True),
        ("agent.example:81", "http://agent.example:81/", True),
        ("agent.example:81", "http://agent.example:82/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.0.0.0/8", "http://agent.example/", False),
        ("10.1.2.3", "http://10.1.2.3:99/", True),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("[fd00::1]:80", "http://[fd00::1]/", True),
        ("", "http://localhost:8000/", True),
        ("", "http://127.0.0.1:8000/", True),
        ("", "http://[::1]:8000/", True),
    ],
)
def test_exceptions(exceptions, url, is_direct):
    """NO_PROXY as it is written in the wild; and this machine is never asked for through a
    proxy.
    """
    proxies = Proxies.from_environment({"HTTP_PROXY": "proxy.example:3128", "no_proxy": exceptions})
    found = proxies.of(parse_url(url))
    assert (found is None) is is_direct
    assert found is None or found.url == "http://proxy.example:3128"


def test_which_variable_counts():
    """By the scheme of the URL; the lower spelling first; and in a CGI script a header of the
    caller is no proxy.
    """
    http, https = parse_url("http://agent.example/"), parse_url("https://agent.example/")
    proxies = Proxies.from_environment({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:2"})
    assert proxies.of(http) is None
    assert proxies.of(https).url == "http://b:2"
    proxies = Proxies.from_environment({"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"})
    assert proxies.of(http) is None


async def test_a_proxy_we_can_not_talk_to():
    """Said when it would be used, and at once if it was given by hand."""
    with pytest.raises(
        ValueError, match=r"socks5://proxy\.example:1080 is not an HTTP proxy"
    ) as caught:
        connect("http://agent.example", proxy=f"socks5://ada:{SECRET}@proxy.example:1080")
    assert SECRET not in str(caught.value)
    proxies = Proxies.from_environment({"http_proxy": "socks5://proxy.example:1080"})
    async with speaking(ok()) as wire, network(proxies=proxies) as net:
        assert (await get(net, wire.url)).body == b"hi"
        with pytest.raises(Unreachable, match="not an HTTP proxy"):
            await get(net, "http://agent.example/")
