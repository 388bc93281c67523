"""Every way we know of to make a server call what only it can reach, and that it is refused.

No name is resolved and nothing outside this machine is connected to: the loop's resolver is a
table, and its `sock_connect` records.
"""

import asyncio
import socket
from collections import defaultdict
from urllib.parse import urlsplit

import pytest

from accord.net import BadAnswer, Guard, Request, TooSlow, Unreachable
from tests.client.network.wire import OK, network, say, speaking

PUBLIC = "93.184.216.34"
NAMES = {
    "hooks.example.com": [PUBLIC],
    "xn--bcher-kva.example.com": [PUBLIC],
    "inside.example.com": ["127.0.0.1"],
    "both.example.com": [PUBLIC, "10.0.0.1"],
    "localhost": ["127.0.0.1"],
    "localhost.": ["127.0.0.1"],
    "a.localhost": ["127.0.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
    "host.docker.internal": ["192.168.65.2"],
    "kubernetes.default.svc": ["10.96.0.1"],
}

REFUSED = {
    "loopback": [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://127.255.255.254/",
        "https://0.0.0.0/",
        "https://0/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://0x7f.1/",
        "https://localhost/",
        "https://localhost./",
        "https://a.localhost/",
        "https://inside.example.com/",
    ],
    "private, shared": [
        "https://10.0.0.1/",
        "https://172.16.0.1/",
        "https://172.31.255.255/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://198.18.0.1/",
    ],
    "metadata": [
        "https://169.254.169.254/",
        "https://169.254.170.2/",
        "https://100.100.100.200/",
        "https://192.0.0.192/",
        "https://[fd00:ec2::254]/",
        "https://metadata.google.internal/",
        "https://host.docker.internal/",
    ],
    "special IPv4": [
        "https://192.0.2.1/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
    ],
    "IPv6": [
        "https://[::1]/",
        "https://[::]/",
        "https://[fe80::1]/",
        "https://[fe80::1%25lo]/",
        "https://[fc00::1]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "https://[::127.0.0.1]/",
    ],
    "IPv4 inside IPv6": [
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:a9fe:a9fe]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[64:ff9b:1::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[2002:a9fe:a9fe::]/",
        "https://[2001:0:7f00:1::]/",
    ],
    "names": ["https://both.example.com/", "https://kubernetes.default.svc/"],
    "authority": [
        "https://user:pw@hooks.example.com/",
        "https://hooks.example.com@127.0.0.1/",
        "https://hooks.example.com\\@127.0.0.1/",
        "https://hooks\t.example.com/",
        "https://hooks.example.com\r\nHost: 127.0.0.1/",
        "https://[::1/",
    ],
    "digits of Unicode": [
        "https://①②⑦.⓪.⓪.①/",
        "https://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
        "https://127。0。0。1/",
    ],
    "ports": [
        "https://hooks.example.com:0/",
        "https://hooks.example.com:22/",
        "https://hooks.example.com:6379/",
        "https://hooks.example.com:99999/",
    ],
    "schemes": [
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "gopher://hooks.example.com/",
        "unix:///var/run/docker.sock",
        "//hooks.example.com/",
        "https:///path",
    ],
}
# What only the resolver's answer gives away.
BY_ANSWER = {"https://inside.example.com/", "https://both.example.com/"}

ALLOWED = {
    "https://hooks.example.com/": PUBLIC,
    "https://hooks.example.com:443/a?b=c": PUBLIC,
    "https://bücher.example.com/": PUBLIC,
    "https://8.8.8.8/": "8.8.8.8",
    "https://[2606:4700::1111]/": "2606:4700::1111",
}


class Outside:
    """What is outside, as the running loop sees it: names by a table, and connections that are
    recorded; those to `PUBLIC` lead to a server of the test, all others are refused.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, list[list[str]]] = defaultdict(list)  # answers still to be given
        self.lookups: list[str] = []
        self.connects: list[tuple[str, int]] = []
        self.server = 0
        self.others: dict[str, int] = {}  # ports of more servers of the test, by address
        loop = asyncio.get_running_loop()
        connect, resolve = loop.sock_connect, loop.getaddrinfo

        async def getaddrinfo(host, port, **options):
            if host == "127.0.0.1":
                return await resolve(host, port, **options)  # the test's own server
            self.lookups.append(host)
            waiting = self.names[host]
            answers = waiting.pop(0) if waiting else NAMES.get(host)
            if answers is None:
                raise socket.gaierror(socket.EAI_NONAME, "not in the table")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in answers]

        async def sock_connect(sock, address):
            self.connects.append(address[:2])
            port = self.server if address[0] == PUBLIC else self.others.get(address[0], 0)
            if not port:
                raise ConnectionRefusedError(111, "recorded")
            await connect(sock, ("127.0.0.1", port))

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(loop, "sock_connect", sock_connect)


@pytest.fixture
async def outside(monkeypatch):
    return Outside(monkeypatch)


async def post(net, url, *, limit=1 << 16, timeout_s=10.0):
    return await net.fetch(Request("POST", url, timeout_s, body=b"{}"), limit=limit)


def test_the_table_is_whole():
    assert sum(map(len, REFUSED.values())) + len(BEHAVIOURS) == 73
    assert len(ALLOWED) == 5


@pytest.mark.parametrize("url", [url for urls in REFUSED.values() for url in urls], ids=ascii)
async def test_refused(url, outside):
    """At creation, as far as it can be told there; and at each attempt, before anything is
    connected to.
    """
    guard = Guard()
    if url not in BY_ANSWER:
        with pytest.raises(ValueError, match=r"\w"):
            guard.check_url(url)
    async with network(guard=guard) as net:
        with pytest.raises(Unreachable) as caught:
            await post(net, url)
    assert caught.value.is_lasting
    assert outside.connects == []


@pytest.mark.parametrize("url", ALLOWED, ids=ascii)
async def test_allowed(url, outside):
    """Connected to is exactly the address that was looked at."""
    Guard().check_url(url)
    async with network(guard=Guard()) as net:
        with pytest.raises(Unreachable, match="recorded"):
            await post(net, url)
    assert outside.connects == [(ALLOWED[url], 443)]


# A stranger's server, outside, that behaves badly. Plain HTTP, so that it needs no certificate.
LOOSE = Guard(ports=None, schemes=["http"])


async def a_redirect(outside, location, status):
    line = b"HTTP/1.1 %d Elsewhere\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n"
    async with speaking(say(line % (status, location))) as wire, network(guard=LOOSE) as net:
        outside.server = urlsplit(wire.url).port
        answer = await post(net, "http://hooks.example.com/")
    assert answer.status == status  # for the caller to count as a failure
    assert [host for host, _ in outside.connects] == [PUBLIC]


async def a_redirect_to_loopback(outside):
    await a_redirect(outside, b"http://127.0.0.1:8000/", 307)


async def a_redirect_to_metadata(outside):
    await a_redirect(outside, b"http://169.254.169.254/latest/", 302)


async def another_answer_between_check_and_connect(outside):
    outside.names["hooks.example.com"] = [[PUBLIC], ["127.0.0.1"]]
    async with network(guard=LOOSE) as net:
        with pytest.raises(Unreachable):
            await post(net, "http://hooks.example.com/")
    assert outside.lookups == ["hooks.example.com"]
    assert outside.connects == [(PUBLIC, 80)]


async def another_answer_between_attempts(outside):
    outside.names["hooks.example.com"] = [[PUBLIC], ["127.0.0.1"]]
    async with network(guard=LOOSE) as net:
        for _ in range(2):
            with pytest.raises(Unreachable) as caught:
                await post(net, "http://hooks.example.com/")
    assert "no public address" in str(caught.value)
    assert outside.connects == [(PUBLIC, 80)]


async def an_endless_body(outside):
    chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    turn = say(OK + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 40)
    async with speaking(turn) as wire, network(guard=LOOSE) as net:
        outside.server = urlsplit(wire.url).port
        with pytest.raises(BadAnswer, match="larger than 65536 bytes"):
            await post(net, "http://hooks.example.com/")


async def a_body_that_hardly_comes(outside):
    async with speaking(say(OK + b"content-length: 9\r\n\r\n1")) as wire:
        outside.server = urlsplit(wire.url).port
        async with network(guard=LOOSE) as net:
            with pytest.raises(TooSlow):
                await post(net, "http://hooks.example.com/", timeout_s=0.3)


BEHAVIOURS = [
    a_redirect_to_loopback,
    a_redirect_to_metadata,
    another_answer_between_check_and_connect,
    another_answer_between_attempts,
    an_endless_body,
    a_body_that_hardly_comes,
]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
async def test_bad_behaviour(behaviour, outside):
    await behaviour(outside)


@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("hooks.corp.example", "http://hooks.corp.example:8080/"),
        ("*.corp.example", "http://hooks.corp.example:8080/"),
        ("10.0.0.0/8", "http://10.9.8.7:8080/"),
        ("fd00::/8", "http://[fd00::7]:8080/"),
    ],
)
async def test_what_is_allowed_by_name(allow, url, outside):
    """There plain HTTP and every port are allowed too, and nothing is elsewhere."""
    outside.names["hooks.corp.example"] = [["10.9.8.7"]]
    guard = Guard(allow=[allow])
    guard.check_url(url)
    async with network(guard=guard) as net:
        with pytest.raises(Unreachable, match="recorded"):
            await post(net, url)
        assert [port for _, port in outside.connects] == [8080]
        for other in ("https://inside.example.com/", "http://hooks.example.com:8080/"):
            with pytest.raises(Unreachable, match=r"others give|stranger gave"):
                await post(net, other)
    assert len(outside.connects) == 1


@pytest.mark.parametrize("item", ["", "http://a.example", "a.example:80", "10.0.0.0/99", "a b"])
def test_what_can_not_be_allowed(item):
    with pytest.raises(ValueError, match="not a host that can be allowed"):
        Guard(allow=[item])


def test_a_guard_and_a_proxy_exclude_each_other():
    """Who connects for us resolves for us, and the guard would look at the proxy."""
    from accord.net import Network, Proxies

    with pytest.raises(ValueError, match="a guard can't look"):
        Network(connect_s=1, lost_s=1, guard=Guard(), proxies=Proxies.always("http://p:1"))
