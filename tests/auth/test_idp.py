"""A real identity provider (oidc-provider for Node.js, which is certified): our client gets tokens
from it by every flow, and what verifies them for our server knows them.
"""

import asyncio
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import aiohttp
import pytest

from accord import Agent, Caller
from accord.auth import OIDC, Introspection, InvalidToken, Issuer, OAuth2, TokenVerifier
from accord.auth.issuer import RemoteKeys
from accord.client import (
    NO_RETRY,
    AuthorizationCode,
    ClientCredentials,
    DeviceCode,
    OAuthError,
    SavedLogin,
    connect,
)
from accord.client.auth import Logins
from accord.client.auth.server import Token
from accord.model import PermissionDenied, Unauthenticated
from tests.auth.browser import agree
from tests.client.peers import answer, card, scripted, task
from tests.processes import run, start, until

IDP = Path(__file__).parent / "idp"
SECRET = "planner-secret-% +"
RESOURCE = "https://hr.example"

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(
        shutil.which("node") is None,
        reason="the identity provider needs Node.js, which is not installed",
    ),
]


@pytest.fixture(scope="module")
def idp() -> Iterator[str]:
    assert (IDP / "node_modules" / "oidc-provider").is_dir(), (
        "the identity provider is not installed; `make test` does it"
    )
    with start("node", IDP / "provider.mjs") as process:
        yield process.line_sync()


async def control(idp: str, word: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{idp}/control/{word}") as done:
        assert done.status == 200


def schemes(idp: str) -> dict:
    """What the card says, in two ways."""
    flows = {
        "clientCredentials": {"tokenUrl": f"{idp}/token", "scopes": {"hr.read": "Look"}},
    }
    return {
        "oidc": {
            "openIdConnectSecurityScheme": {
                "openIdConnectUrl": f"{idp}/.well-known/openid-configuration"
            }
        },
        "oauth": {"oauth2SecurityScheme": {"flows": flows}},
    }


class Protected:
    """An agent that wants tokens of the provider, and remembers those it got."""

    def __init__(self, idp: str, verifier, scheme: str = "oidc") -> None:
        self.verifier = verifier
        self.scheme = scheme
        self.idp = idp
        self.tokens: list[str] = []
        self.callers: list[str] = []
        self.refuse = 0  # so many more times

    async def __call__(self, request):
        if request.verb == "GET":
            return answer(
                card(
                    f"http://{request.headers['host']}/",
                    securitySchemes=schemes(self.idp),
                    securityRequirements=[{"schemes": {self.scheme: {"list": ["hr.read"]}}}],
                )
            )
        word, _, token = request.headers.get("authorization", "").partition(" ")
        self.tokens.append(token)
        try:
            if word != "Bearer" or self.refuse:
                self.refuse = max(0, self.refuse - 1)
                raise InvalidToken("none")
            claims = await self.verifier.verify(token)
        except InvalidToken as error:
            return answer({"error": error.reason}, 401, www_authenticate="Bearer")
        assert "hr.read" in claims["scope"].split()
        self.callers.append(claims["sub"])
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})


@pytest.fixture
def verifier(idp):
    return TokenVerifier.of_issuer(idp, audience="hr")


async def said(url: str, auth) -> str:
    async with connect(url, auth=auth, retry=NO_RETRY) as client:
        return (await client.send("hello")).text


def program(idp: str, **options) -> ClientCredentials:
    return ClientCredentials("planner", SECRET, issuer=idp, resource=RESOURCE, **options)


@pytest.mark.parametrize("scheme", ["oidc", "oauth"])
async def test_client_credentials(idp, verifier, scheme):
    """With the scopes that the card wants; one token for many calls and connections."""
    protected, auth = Protected(idp, verifier, scheme), program(idp)
    async with scripted(protected) as agent:
        for _ in range(2):
            assert await said(agent.url, auth) == "17 crates"
    assert protected.callers == ["planner"] * 2
    assert len(set(protected.tokens)) == 1


async def test_a_wrong_secret(idp, verifier):
    auth = ClientCredentials("planner", "wrong", issuer=idp)
    async with scripted(Protected(idp, verifier)) as agent:
        with pytest.raises(OAuthError, match=r"127.0.0.1") as caught:
            await said(agent.url, auth)
    assert caught.value.error == "invalid_client"
    assert "wrong" not in str(caught.value)


async def test_a_secret_does_not_go_where_a_card_says(idp, verifier):
    """Whoever writes a card would collect the secrets of who calls: the user names the issuer."""
    auth = ClientCredentials("planner", SECRET, resource=RESOURCE)
    for scheme in ("oidc", "oauth"):
        protected = Protected(idp, verifier, scheme)
        async with scripted(protected) as agent:
            with pytest.raises(Unauthenticated, match=r"issuer='http://127.0.0.1"):
                await said(agent.url, auth)
        assert protected.tokens == []


async def test_tokens_are_bound_to_their_agent(idp, verifier):
    """Another agent gets a token of its own."""
    auth = program(idp)
    one, other = Protected(idp, verifier), Protected(idp, verifier)
    async with scripted(one) as first, scripted(other) as second:
        await said(first.url, auth)
        await said(second.url, auth)
    assert one.tokens[0] != other.tokens[0]


async def test_a_401_leads_to_one_new_try(idp, verifier):
    """With a new token; not to a second one."""
    protected, auth = Protected(idp, verifier), program(idp)
    async with scripted(protected) as agent:
        protected.refuse = 1
        assert await said(agent.url, auth) == "17 crates"
        assert len(set(protected.tokens)) == 2
        protected.refuse = 2
        with pytest.raises(Unauthenticated):
            await said(agent.url, auth)
        assert len(protected.tokens) == 4


async def test_device_code(idp, verifier):
    """A person agrees at another device, meanwhile it is asked whether they have; then the token is
    renewed without them.
    """
    protected = Protected(idp, verifier)
    shown, pauses = [], []

    async def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:  # the first time nobody has agreed yet
            await agree(shown[0].url, shown[0].code)

    auth = DeviceCode("cli", resource=RESOURCE, show=shown.append, pause=pause)
    async with scripted(protected) as agent:
        assert await said(agent.url, auth) == "17 crates"
        assert protected.callers == ["mia"]
        assert pauses == [5.0, 5.0]
        protected.refuse = 1
        assert await said(agent.url, auth) == "17 crates"
    assert len(shown) == 1
    assert len(set(protected.tokens)) == 2


async def test_a_client_the_provider_does_not_know(idp, verifier):
    prompts = []
    auth = DeviceCode("nobody", issuer=idp, show=prompts.append)
    async with scripted(Protected(idp, verifier)) as agent:
        with pytest.raises(OAuthError) as caught:
            await said(agent.url, auth)
    assert caught.value.error == "invalid_client"
    assert prompts == []


async def test_authorization_code(idp, verifier):
    """A browser opens, comes back to a port of this machine with a code, and PKCE proves that it
    was us who asked.
    """
    protected = Protected(idp, verifier)
    opened: list[asyncio.Task] = []

    def open_url(url):
        opened.append(asyncio.get_running_loop().create_task(agree(url)))

    auth = AuthorizationCode("cli", resource=RESOURCE, open_url=open_url)
    async with scripted(protected) as agent:
        assert await said(agent.url, auth) == "17 crates"
        assert "close this window" in await opened[0]
        assert protected.callers == ["mia"]
        protected.refuse = 1
        assert await said(agent.url, auth) == "17 crates"
    assert len(opened) == 1


async def test_what_others_send_to_the_loopback_port(idp, verifier):
    """Another state, another host, another path: not ours."""
    answers = []

    async def open_url(url):
        query = dict(parse_qsl(url.partition("?")[2]))
        there = query["redirect_uri"]
        async with aiohttp.ClientSession() as session:
            for target, host in (
                (f"{there}?code=stolen&state=guessed", None),
                (f"{there}?error=access_denied", None),
                (f"{there}?code=stolen&state={query['state']}", "evil.example"),
                (there.replace("/callback", "/other") + f"?code=x&state={query['state']}", None),
            ):
                headers = {"Host": host} if host else {}
                async with session.get(target, headers=headers) as response:
                    answers.append(response.status)
            target = f"{there}?code=stolen&state={query['state']}&iss=https://evil.example"
            async with session.get(target) as response:
                answers.append(response.status)

    auth = AuthorizationCode("cli", resource=RESOURCE, open_url=open_url)
    async with scripted(Protected(idp, verifier)) as agent:
        with pytest.raises(OAuthError, match="another server"):
            await said(agent.url, auth)
    assert answers == [200, 200, 404, 404, 200]


async def test_a_person_says_no_in_the_browser(idp, verifier):
    async def open_url(url):
        query = dict(parse_qsl(url.partition("?")[2]))
        target = (
            f"{query['redirect_uri']}?error=access_denied&state={query['state']}"
            f"&error_description=no%1b[31m&iss={idp}"
        )
        async with aiohttp.ClientSession() as session, session.get(target):
            pass

    auth = AuthorizationCode("cli", open_url=open_url)
    async with scripted(Protected(idp, verifier)) as agent:
        with pytest.raises(OAuthError, match="no ") as caught:
            await said(agent.url, auth)
    assert caught.value.error == "access_denied"
    assert "\x1b" not in str(caught.value)


# Our server, and our client


def hr(auth, **options):
    agent = Agent("HR", auth=auth, **options)

    @agent.skill
    async def hire(name: str, caller: Caller) -> str:
        """Hire somebody."""
        return f"{name} hired by {caller.name} {' '.join(sorted(caller.scopes))}"

    return agent


@asynccontextmanager
async def served(auth):
    app = hr(auth).app(grpc_port=0)
    async with app.serving() as url:
        yield url


BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_program_calls_a_protected_agent(idp, binding):
    """Discovery on both sides; without credentials nothing."""
    async with served(OIDC(idp, audience="hr", scopes=["hr.read"])) as url:
        async with connect(url, auth=program(idp), binding=binding) as client:
            assert (await client.send("Bob")).text == "Bob hired by planner hr.read"
            assert [event async for event in client.stream("Eve")]
        async with connect(url, binding=binding, retry=NO_RETRY) as client:
            with pytest.raises(Unauthenticated):
                await client.send("Bob")
        narrow = program(idp, scopes=["hr.write"])
        async with connect(url, auth=narrow, binding=binding, retry=NO_RETRY) as client:
            with pytest.raises(PermissionDenied):
                await client.send("Bob")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_token_that_is_refused_is_renewed(idp, binding):
    """Over every binding, for calls and streams: one new try, with a new token."""
    async with served(OIDC(idp, audience="hr", scopes=["hr.read"])) as url:
        auth = program(idp)
        async with connect(url, auth=auth, binding=binding, retry=NO_RETRY) as client:
            for ask in (client.send, read):
                (bound,) = [one for key, one in auth._bound.items() if key[1] != "None"]
                bound.token = Token("stale")
                await (ask("Bob") if ask is not read else read(client))
                assert bound.token.access_token != "stale"


async def read(client):
    assert [event async for event in client.stream("Bob")]


async def test_a_person_calls_a_protected_agent(idp):
    """The device code, by the card's scheme alone; the caller is the person."""
    shown = []

    async def pause(seconds):
        await agree(shown[0].url, shown[0].code)

    async with served(OIDC(idp, audience="hr", scopes=["hr.read"])) as url:
        auth = DeviceCode("cli", resource=RESOURCE, show=shown.append, pause=pause)
        async with connect(url, auth=auth) as client:
            assert (await client.send("Bob")).text == "Bob hired by mia hr.read"


async def test_a_revoked_token_counts_no_more(idp):
    """With introspection the provider is asked about each token."""
    scheme = OAuth2(
        idp,
        audience=[],
        token_url=f"{idp}/token",
        client_id="hr-api",
        client_secret="hr-api-secret",
    )
    verifier: Any = scheme._verifier
    verifier._cache_s = 0.0
    async with served(scheme) as url:
        opaque = await token_of(idp)
        async with connect(url, auth=opaque, retry=NO_RETRY) as client:
            assert (await client.send("Bob")).text.startswith("Bob hired by planner")
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{idp}/token/revocation", data={"token": opaque}, headers=BASIC),
            ):
                pass
            await until(lambda: scheme.recall(opaque) is None)  # a moment, for which it is known
            with pytest.raises(Unauthenticated):
                await client.send("Bob")


async def test_typed(idp, tmp_path):
    """accord auth login, send, status, logout: as two programs that share a file. AUTH_005,
    AUTH_007 and AUTH_010 of the command line specification: device code, saved tokens, OpenID
    Connect.
    """
    env = {"ACCORD_LOGINS": str(tmp_path / "logins.json")}
    accord = [sys.executable, "-m", "accord"]
    async with served(OIDC(idp, audience="hr", scopes=["hr.read"])) as url:
        words = ["auth", "login", url, "--client-id", "cli", "--resource", RESOURCE]
        with start(*accord, *words, env=env) as login:
            prompt = re.compile(r"Open (\S+) and enter the code (\S+)\n")
            found = await until(lambda: prompt.search(login.err.text), "where to enter the code")
            where, code = found.groups()
            await agree(where, code)
            assert await login.line() == f"logged in at {url}   (renewed by itself)"
        sent = await run(*accord, "send", url, "Bob", env=env)
        assert "Bob hired by mia hr.read" in sent.out
        status = await run(*accord, "auth", "status", env=env)
        assert f"cli at {idp}, for hr.read, good for {RESOURCE}" in status.out
        out = await run(*accord, "auth", "logout", url, env=env)
        assert out.out.strip() == f"logged out at {url}"
        assert Logins(tmp_path / "logins.json").all() == {}


async def test_a_program_logs_in(idp, tmp_path):
    """AUTH_006 of the command line specification: client credentials, saved and used."""
    env = {"ACCORD_LOGINS": str(tmp_path / "logins.json"), "ACCORD_CLIENT_SECRET": SECRET}
    accord = [sys.executable, "-m", "accord"]
    async with served(OIDC(idp, audience="hr", scopes=["hr.read"])) as url:
        words = ["--with", "program", "--client-id", "planner", "--issuer", idp]
        words += ["--resource", RESOURCE]
        login = await run(*accord, "auth", "login", url, *words, env=env)
        assert login.code == 0, login.err
        assert SECRET not in login.out + login.err
        del env["ACCORD_CLIENT_SECRET"]
        sent = await run(*accord, "send", url, "Bob", env=env)
        assert "Bob hired by planner hr.read" in sent.out


# What verifies its tokens


BASIC = {"Authorization": aiohttp.encode_basic_auth("planner", quote(SECRET, safe=""))}


async def token_of(idp: str, **form: str) -> str:
    fields = {"grant_type": "client_credentials", **form}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{idp}/token", data=fields, headers=BASIC) as response,
    ):
        return (await response.json())["access_token"]


async def test_key_rotation(idp):
    """A token of a new key is known at once, one of a key that was withdrawn no more."""
    now = [1000.0]
    source = RemoteKeys(Issuer(idp).keys_at, clock=lambda: now[0])
    verifier = TokenVerifier(source, issuer=idp, audience="hr")
    old = await token_of(idp, resource=RESOURCE, scope="hr.read")
    await verifier.verify(old)
    await control(idp, "rotate")
    new = await token_of(idp, resource=RESOURCE, scope="hr.read")
    now[0] += 11
    await verifier.verify(new)
    await verifier.verify(old)
    await control(idp, "withdraw")
    now[0] += 3601
    with pytest.raises(InvalidToken, match="does not have"):
        await verifier.verify(old)
    await verifier.verify(new)


async def test_introspection_and_revocation(idp):
    """Tokens that only the provider can read, and that it takes back."""
    now = [0.0]
    asked = Introspection(
        Issuer(idp),
        client_id="hr-api",
        client_secret="hr-api-secret",
        clock=lambda: time.time() + now[0],
    )
    opaque = await token_of(idp)
    claims = await asked.verify(opaque)
    assert claims["client_id"] == "planner"
    with pytest.raises(InvalidToken):
        await asked.verify("made-up")
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{idp}/token/revocation", data={"token": opaque}, headers=BASIC) as done,
    ):
        assert done.status == 200
    now[0] += 11
    with pytest.raises(InvalidToken, match="not active"):
        await asked.verify(opaque)


# Kept between programs


async def test_a_saved_login(idp, verifier, tmp_path):
    """Renewed when it has to be, by one program for all; for its owner alone."""
    from accord.client.auth import Login
    from accord.client.auth.credentials import AgentPlace
    from accord.client.auth.oauth import OAuthToken

    protected = Protected(idp, verifier)
    file = tmp_path / "logins.json"
    shown = []

    async def pause(seconds):
        await agree(shown[0].url, shown[0].code)

    async with scripted(protected) as agent:
        flow = DeviceCode("cli", issuer=idp, resource=RESOURCE, show=shown.append, pause=pause)
        first = OAuthToken(flow, AgentPlace(agent.url), None, ["hr.read"])
        token = await first.get()
        login = Login(
            "oauth", server=first.server, client=flow.client, scopes=["hr.read"], token=token
        )
        Logins(file).put(agent.url, login)
        assert file.stat().st_mode & 0o777 == 0o600
        auths = [SavedLogin(file) for _ in range(4)]
        for auth in auths:
            assert await said(agent.url, auth) == "17 crates"
        assert len(set(protected.tokens)) == 1
        protected.refuse = 1  # one renews, and the others take what it got
        assert await said(agent.url, auths[0]) == "17 crates"
        for auth in auths[1:]:
            assert await said(agent.url, auth) == "17 crates"
        assert len(set(protected.tokens)) == 2
        kept = Logins(file).get(agent.url)
        assert kept is not None
        assert kept.token is not None
        assert kept.token.access_token == protected.tokens[-1]
        assert kept.token.refresh_token != token.refresh_token
    async with scripted(Protected(idp, verifier)) as other:
        with pytest.raises(Unauthenticated, match=f"accord auth login {other.url}"):
            await said(other.url, SavedLogin(file))
