"""Credentials go where they belong, and nowhere else."""

import logging
import ssl
from typing import Any

import pytest

from accord.client import ApiKey, BadCard, Basic, Bearer, ClientCert, Retry, Unreachable, connect
from accord.model import Unauthenticated
from tests.client.certs import Authority
from tests.client.peers import answer, card, scripted, task

SECRET = "s3cr3t-marker"
KEY = {"apiKeySecurityScheme": {"location": "header", "name": "X-Dock-Key"}}
QUERY = {"apiKeySecurityScheme": {"location": "query", "name": "key"}}
COOKIE = {"apiKeySecurityScheme": {"location": "cookie", "name": "dock"}}
BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
BASIC = {"httpAuthSecurityScheme": {"scheme": "Basic"}}
OIDC = {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://id.example.net/"}}


def guarded(schemes: dict, requirements: list[list[str]] | None = None, **changes):
    """An agent that declares these schemes; each requirement is a list of names."""
    needed = [[name] for name in schemes] if requirements is None else requirements
    wanted = [{"schemes": {name: {"list": []} for name in names}} for names in needed]

    def handler(request):
        url = f"http://{request.headers['host']}/"
        if request.verb == "GET":
            return answer(
                card(url, securitySchemes=schemes, securityRequirements=wanted, **changes)
            )
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    return handler


@pytest.mark.parametrize(
    ("schemes", "auth", "where"),
    [
        ({"k": KEY}, ApiKey(SECRET), lambda r: r.headers.get("x-dock-key") == SECRET),
        ({"k": QUERY}, ApiKey(SECRET), lambda r: r.target == f"/?key={SECRET}"),
        ({"k": COOKIE}, ApiKey(SECRET), lambda r: r.headers.get("cookie") == f"dock={SECRET}"),
        (
            {"b": BEARER},
            Bearer(SECRET),
            lambda r: r.headers.get("authorization") == f"Bearer {SECRET}",
        ),
        ({"b": BEARER}, SECRET, lambda r: r.headers.get("authorization") == f"Bearer {SECRET}"),
        (
            {"o": OIDC},
            Bearer(lambda: SECRET),
            lambda r: r.headers.get("authorization") == f"Bearer {SECRET}",
        ),
        (
            {"p": BASIC},
            Basic("ada", "pw"),
            lambda r: r.headers.get("authorization") == "Basic YWRhOnB3",
        ),
        (
            {"k": KEY, "b": BEARER},
            Bearer(SECRET),
            lambda r: r.headers.get("authorization") == f"Bearer {SECRET}",
        ),
        (
            {"k": KEY, "b": BEARER},
            {"k": ApiKey(SECRET)},
            lambda r: r.headers.get("x-dock-key") == SECRET,
        ),
    ],
    ids=[
        "header",
        "query",
        "cookie",
        "bearer",
        "a text",
        "token function",
        "basic",
        "the one that fits",
        "by name",
    ],
)
async def test_the_card_decides_how_they_are_sent(schemes, auth, where):
    """A credential is put where the scheme of the card wants it."""
    async with scripted(guarded(schemes)) as peer, connect(peer.url, auth=auth) as client:
        await client.send("hello")
    assert where(peer.requests[-1])


@pytest.mark.parametrize("location", ["header", "cookie"])
@pytest.mark.parametrize(
    "name", ["X-Key\r\nX-Evil", "x y", "", "Content-Length", "transfer-encoding"]
)
async def test_a_card_names_a_header_and_nothing_else(name, location):
    """What a stranger calls the key must not become another header, or say where the request
    ends.
    """
    scheme = {"apiKeySecurityScheme": {"location": location, "name": name}}
    async with (
        scripted(guarded({"k": scheme}, [["k"]])) as peer,
        connect(peer.url, auth=ApiKey(SECRET)) as client,
    ):
        with pytest.raises(BadCard, match="not a safe place for it"):
            await client.send("hello")
    assert [request.verb for request in peer.requests] == ["GET"]


async def test_schemes_that_go_together_are_sent_together():
    """One alternative may ask for two."""
    async with scripted(guarded({"k": KEY, "b": BEARER}, [["k", "b"]])) as peer:
        async with connect(peer.url, auth=[ApiKey(SECRET), Bearer("token")]) as client:
            await client.send("hello")
        headers = peer.requests[-1].headers
        assert (headers["x-dock-key"], headers["authorization"]) == (SECRET, "Bearer token")
        with pytest.raises(Unauthenticated, match="k with b"):
            await connect(peer.url, auth=ApiKey(SECRET))


async def test_an_async_token_is_asked_for_every_call():
    """A token function may renew: it is called each time, and awaited."""
    tokens = iter(["card", "one", "two"])

    async def token() -> str:
        return next(tokens)

    async with (
        scripted(guarded({"b": BEARER})) as peer,
        connect(peer.url, auth=Bearer(token)) as client,
    ):
        await client.send("hello")
        await client.send("hello")
    assert [r.headers["authorization"] for r in peer.requests] == [
        "Bearer card",
        "Bearer one",
        "Bearer two",
    ]


async def test_another_host_gets_nothing():
    """A card that points elsewhere does not take the credentials along: connecting to it is
    refused, with the way out.
    """
    async with scripted(guarded({"b": BEARER})) as other:
        elsewhere = [
            {"url": other.url + "/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ]
        async with scripted(guarded({"b": BEARER}, supportedInterfaces=elsewhere)) as peer:
            with pytest.raises(BadCard, match="credentials are not sent there"):
                await connect(peer.url, auth=Bearer(SECRET))
    assert other.requests == []


async def test_a_redirect_takes_nothing_along():
    """The card may have moved to another host; what was meant for the first stays there."""

    def moved(request):
        return answer("", 302, location=other.url + "/.well-known/agent-card.json")

    async with scripted(guarded({"b": BEARER})) as other, scripted(moved) as peer:
        with pytest.raises(BadCard):
            await connect(peer.url, auth=Bearer(SECRET))
    assert "authorization" in peer.requests[0].headers
    assert [r.headers.get("authorization") for r in other.requests] == [None]


async def test_secrets_are_never_shown(caplog):
    """Not in logs at any level, not in errors, not in what a debugger prints (K2)."""
    caplog.set_level(logging.DEBUG)

    def handler(request):
        if request.verb == "GET":
            return guarded({"k": QUERY})(request)
        return answer("", 500)

    auth: list[Any] = [ApiKey(SECRET), Bearer(SECRET), Basic("ada", SECRET)]
    async with (
        scripted(handler) as peer,
        connect(peer.url, auth=auth, retry=Retry(attempts=1)) as client,
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011  whichever it is, it must not tell
            await client.send("hello")
        shown = f"{caught.value} {caught.value!r} {client.notes} {auth!r} {client.connection.name}"
    assert f"key={SECRET}" in peer.requests[-1].target
    assert SECRET not in shown + caplog.text


@pytest.mark.parametrize("secret", ["", "a\r\nX-Evil: 1", "tab\there"])
def test_a_secret_can_not_break_out_of_its_header(secret):
    """And the complaint does not quote it."""
    with pytest.raises(ValueError, match="control characters") as caught:
        Bearer(secret)
    assert secret == "" or secret not in str(caught.value)


async def test_an_open_agent_gets_what_was_given():
    """An agent that declares nothing may still want a token; it was given for this agent."""
    async with scripted(guarded({}, [])) as peer, connect(peer.url, auth=Bearer(SECRET)) as client:
        await client.send("hello")
    assert peer.requests[-1].headers["authorization"] == f"Bearer {SECRET}"


async def test_mutual_tls(tmp_path):
    """The connection itself proves who we are; an agent signed by nobody we know is not
    talked to.
    """
    authority = Authority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.pem))
    server.load_cert_chain(*authority.issue("server"))
    server.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("client")

    def handler(request):
        schemes = {"tls": {"mtlsSecurityScheme": {}}}
        needed = [{"schemes": {"tls": {"list": []}}}]
        if request.verb == "GET":
            url = f"https://{request.headers['host']}/"
            return answer(card(url, securitySchemes=schemes, securityRequirements=needed))
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    async with scripted(handler, server) as peer:
        async with connect(
            peer.url, auth=ClientCert(certificate, key, authority=authority.pem)
        ) as client:
            assert (await client.send("hello")).text == "17 crates"
        with pytest.raises(Unreachable, match="secure"):
            await connect(peer.url)
