"""Credentials that are more than a text: functions, OAuth servers, logins in a file."""

import asyncio
import functools
import json
import logging
import os
import time
import traceback
from types import SimpleNamespace
from urllib.parse import parse_qsl

import pytest
from click.testing import CliRunner

from accord.auth import IssuerUnavailable
from accord.cli import main
from accord.client import (
    NO_RETRY,
    ApiKey,
    AuthorizationCode,
    Bearer,
    ClientCredentials,
    DeviceCode,
    OAuthError,
    SavedLogin,
    Unreachable,
    connect,
)
from accord.client.auth import AgentPlace, Login, Logins, find_server
from accord.client.auth.server import AuthorizationServer, OAuthClient, Token
from accord.model import SecurityScheme, Unauthenticated
from accord.protocol import lenient
from tests.client.peers import answer, card, scripted, task

SECRET = "s3cr3t-marker"
KEY = {"apiKeySecurityScheme": {"location": "header", "name": "X-Dock-Key"}}
BEARER = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
BASIC = {"httpAuthSecurityScheme": {"scheme": "Basic"}}


def oauth(base, **more):
    flows = {"clientCredentials": {"tokenUrl": f"{base}/token", "scopes": {"a": "A"}}}
    return {"oauth2SecurityScheme": {"flows": flows, **more}}


class Agent:
    """An agent and its authorization server, at one origin."""

    def __init__(self, scheme=None, lives=600, **token):
        self.scheme = scheme
        self.lives = lives
        self.token = token
        self.accepted = None  # any; else these tokens only
        self.forms = []
        self.headers = []
        self.seen = []

    def __call__(self, request):
        base = f"http://{request.headers['host']}"
        match request.path:
            case "/token":
                self.forms.append(dict(parse_qsl(request.body.decode())))
                self.headers.append(request.headers)
                given = {
                    "access_token": f"token-{len(self.forms)}",
                    "token_type": "Bearer",
                    "expires_in": self.lives,
                }
                return answer(given | self.token)
            case "/revoke":
                self.forms.append(dict(parse_qsl(request.body.decode())))
                return answer("")
            case "/.well-known/openid-configuration":
                return answer(self.metadata(base))
        if request.verb == "GET":
            scheme = self.scheme(base) if callable(self.scheme) else self.scheme
            if scheme is None:
                return answer(card(f"{base}/"))
            wanted = [{"schemes": {"s": {"list": ["a"]}}}]
            return answer(
                card(f"{base}/", securitySchemes={"s": scheme}, securityRequirements=wanted)
            )
        self.seen.append(request.headers)
        given = request.headers.get("authorization", "")
        if self.accepted is not None and given not in self.accepted:
            return answer({"error": "no"}, 401)
        if request.json["method"] == "SendStreamingMessage":
            from tests.client.peers import sse

            event = {"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}}
            return sse(event)
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})

    def metadata(self, base):
        return {
            "issuer": base,
            "token_endpoint": f"{base}/token",
            "revocation_endpoint": f"{base}/revoke",
        }


async def said(url, auth):
    async with connect(url, auth=auth, retry=NO_RETRY) as client:
        return (await client.send("hello")).text


@pytest.mark.parametrize(
    ("scheme", "name", "value"),
    [
        (KEY, "x-dock-key", SECRET),
        (BEARER, "authorization", f"Bearer {SECRET}"),
        (None, "authorization", f"Bearer {SECRET}"),
    ],
    ids=["key", "bearer", "no scheme"],
)
async def test_a_text_is_what_the_card_asks_for(scheme, name, value):
    agent = Agent(scheme)
    async with scripted(agent) as server:
        await said(server.url, SECRET)
    assert agent.seen[0][name] == value
    assert SECRET not in "".join(
        agent.seen[0].get(other, "") for other in {"x-dock-key", "authorization"} - {name}
    )


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_is_asked_again_after_a_401(is_async):
    """Once; if it says the same again, that is the answer."""
    tokens = iter(["old", "old", "new", "new"])

    async def later():
        return next(tokens)

    agent = Agent(BEARER)
    agent.accepted = ["Bearer new"]
    async with scripted(agent) as server:
        assert await said(server.url, later if is_async else lambda: next(tokens)) == "17 crates"
        assert [headers["authorization"] for headers in agent.seen] == ["Bearer old", "Bearer new"]
        agent.seen.clear()
        with pytest.raises(Unauthenticated):
            await said(server.url, lambda: "stale")
        assert len(agent.seen) == 1
        with pytest.raises(Unauthenticated):
            await said(server.url, "stale")
        assert len(agent.seen) == 2


async def test_a_stream_too():
    tokens = iter(["old", "old", "new"])
    agent = Agent(BEARER)
    agent.accepted = ["Bearer new"]
    async with (
        scripted(agent) as server,
        connect(server.url, auth=lambda: next(tokens), retry=NO_RETRY) as client,
    ):
        events = [event async for event in client.stream("hello")]
    assert events
    assert len(agent.seen) == 2


@pytest.mark.parametrize("auth", [42, object(), [42]])
async def test_what_is_no_credential(auth):
    with pytest.raises(TypeError, match="not a credential"):
        connect("http://127.0.0.1:1", auth=auth)


async def test_a_secret_goes_to_the_agents_own_server():
    """At its own origin, as HTTP Basic, each part form-encoded."""
    agent = Agent(oauth)
    async with scripted(agent) as server:
        auth = ClientCredentials("a:b", "c d", audience="hr")
        for _ in range(2):
            assert await said(server.url, auth) == "17 crates"
    assert agent.forms == [{"grant_type": "client_credentials", "scope": "a", "audience": "hr"}]
    assert agent.headers[0]["authorization"] == "Basic YSUzQWI6YyUyMGQ="
    assert {headers["authorization"] for headers in agent.seen} == {"Bearer token-1"}


async def test_tokens_are_renewed_before_they_end():
    """In the last minute of a long life, in the second half of a short one."""
    agent = Agent(oauth, lives=1)
    async with scripted(agent) as server:
        auth = ClientCredentials("me", SECRET)
        async with connect(server.url, auth=auth) as client:
            await client.send("hello")
            assert len(agent.forms) == 1
            bound = next(iter(auth._bound.values()))
            assert bound.token.expires_at - bound.token.renew_at == pytest.approx(0.5)
            bound.token = Token("old", expires_at=time.time() + 30, renew_at=time.time() - 30)
            await client.send("hello")
    assert len(agent.forms) == 2
    assert agent.seen[-1]["authorization"] == "Bearer token-2"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"access_token": None}, "holds no token"),
        ({"access_token": "a\nb"}, "holds no token"),
        ({"token_type": "DPoP"}, "not a bearer token"),
    ],
)
async def test_what_is_no_token(given, fault):
    async with scripted(Agent(oauth, **given)) as server:
        with pytest.raises(OAuthError, match=fault):
            await said(server.url, ClientCredentials("me", SECRET))


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        ({"error": "invalid_scope", "error_description": "no\x1b[2J such"}, 400, "no .*such"),
        ("<html>", 502, "HTTP 502"),
        ("<html>", 200, "not a JSON object"),
        ([], 200, "not a JSON object"),
    ],
)
async def test_a_server_that_gives_none(body, status, fault):
    async with scripted(lambda request: answer(body, status)) as server:
        there = AuthorizationServer(f"{server.url}/token", "")
        with pytest.raises(OAuthError, match=fault) as caught:
            await there.token({"grant_type": "client_credentials"}, OAuthClient("me", SECRET))
    assert "\x1b" not in str(caught.value)
    assert SECRET not in str(caught.value)


def device(*answers):
    """A server whose person needs a while; the last answer is given for ever."""
    left = list(answers)

    def handler(request):
        base = f"http://{request.headers['host']}"
        if request.path == "/device":
            codes = {"device_code": SECRET, "user_code": "AB\x1bCD", "interval": 2}
            return answer(codes | {"verification_uri": f"{base}/enter?x=1", "expires_in": 30})
        said = left.pop(0) if len(left) > 1 else left[0]
        if said == "yes":
            return answer({"access_token": "token", "token_type": "bearer"})
        return answer({"error": said}, 400)

    return handler


@pytest.mark.parametrize(
    ("answers", "pauses", "error"),
    [
        (["authorization_pending", "slow_down", "yes"], [2, 2, 7], ""),
        (["access_denied"], [2], "access_denied"),
        (["authorization_pending", "expired_token"], [2, 2], "expired_token"),
        (["authorization_pending"], [2], "expired_token"),
    ],
    ids=["slower", "denied", "expired", "never"],
)
async def test_waiting_for_a_person(monkeypatch, answers, pauses, error):
    """As often as the server wants it, and no longer than its code is good for."""
    now, paused, shown = [0.0], [], []

    async def pause(seconds):
        paused.append(seconds)
        now[0] += 60.0 if len(answers) == 1 and answers[0] == "authorization_pending" else 1.0

    monkeypatch.setattr("accord.client.auth.oauth.time", SimpleNamespace(monotonic=lambda: now[0]))
    async with scripted(device(*answers)) as server:
        there = AuthorizationServer(f"{server.url}/token", "", device_url=f"{server.url}/device")
        flow = DeviceCode("me", show=shown.append, pause=pause)
        if error:
            with pytest.raises(OAuthError) as caught:
                await flow.obtain(there, [], AgentPlace(""))
            assert caught.value.error == error
        else:
            assert (await flow.obtain(there, [], AgentPlace(""))).access_token == "token"
    assert paused == pauses
    assert (shown[0].url, shown[0].code) == (f"{server.url}/enter", "AB CD")


def scheme_of(value):
    return lenient.convert(value, SecurityScheme)


@pytest.mark.parametrize("url", ["http://id.example/token", "ftp://id.example/", "nonsense"])
async def test_secrets_go_over_https(url):
    server = AuthorizationServer(url, "")
    with pytest.raises(Unauthenticated, match="gives no tokens"):
        await server.token({}, OAuthClient("me", SECRET))


def _always(given, request):
    return given


@pytest.mark.parametrize(
    "url",
    [
        "file:///tmp/evil.desktop",
        "mailto:a@b.example",
        "http://id.example/",
        "--new-window",
        "https://id.example/\x1b[2J",
        "https://id.example/\x9b\u202e",
    ],
)
async def test_a_browser_opens_web_pages_only(url):
    """The address is a stranger's; it is neither opened nor shown if it is anything else."""
    opened = []
    place = AgentPlace("http://127.0.0.1:1")
    code = {"authorizationUrl": url, "tokenUrl": "https://id.example/token", "scopes": {}}
    by_code = scheme_of({"oauth2SecurityScheme": {"flows": {"authorizationCode": code}}})
    by_browser = AuthorizationCode("me", open_url=opened.append).bound(place, by_code, [])
    with pytest.raises(Unauthenticated) as caught:
        await by_browser.apply(by_code, {}, {})
    assert str(caught.value).isprintable()
    good = {"device_code": "d", "user_code": "c", "verification_uri": "https://id.example/"}
    for name in ("verification_uri", "verification_uri_complete"):
        given = answer(good | {name: url})
        async with scripted(functools.partial(_always, given)) as server:
            there = AuthorizationServer(server.url, "", device_url=server.url)
            with pytest.raises(Unauthenticated) as caught:
                await DeviceCode("me", show=opened.append).obtain(there, [], place)
        assert str(caught.value).isprintable()
    assert opened == []


HONEST = "https://id.example"


def mixed(kind):
    """A card's scheme with the page or the device endpoint of an honest server, and a token
    endpoint of its own.
    """
    match kind:
        case "metadata":
            return lambda base: {
                "openIdConnectSecurityScheme": {
                    "openIdConnectUrl": f"{base}/.well-known/openid-configuration"
                }
            }
        case "code":
            page = {"authorizationUrl": f"{HONEST}/authorize"}
            name = "authorizationCode"
        case "device":
            page = {"deviceAuthorizationUrl": f"{HONEST}/device"}
            name = "deviceCode"
    return lambda base: {
        "oauth2SecurityScheme": {
            "flows": {name: {**page, "tokenUrl": f"{base}/token", "scopes": {}}}
        }
    }


class MixedUp(Agent):
    def metadata(self, base):
        return super().metadata(base) | {"authorization_endpoint": f"{HONEST}/authorize"}


@pytest.mark.parametrize("kind", ["code", "device", "metadata"])
async def test_a_card_does_not_get_the_code_of_another_server(kind):
    """A person would agree at an honest server, and the code would go to the agent's own: nothing
    is opened, and nothing sent.
    """
    agent, opened = MixedUp(mixed(kind)), []
    auth = (
        DeviceCode("me", show=opened.append)
        if kind == "device"
        else AuthorizationCode("me", open_url=opened.append)
    )
    async with scripted(agent) as server:
        with pytest.raises(Unauthenticated, match=r"several origins .*issuer="):
            await said(server.url, auth)
    assert (opened, agent.forms) == ([], [])


class Relaying(Agent):
    """It asks an honest server for a code, and has it entered there as if it were the caller's."""

    def __init__(self, name):
        super().__init__(self._device)
        self.name = name

    @staticmethod
    def _device(base):
        flow = {"deviceAuthorizationUrl": f"{base}/device", "tokenUrl": f"{base}/token"}
        return {"oauth2SecurityScheme": {"flows": {"deviceCode": {**flow, "scopes": {}}}}}

    def __call__(self, request):
        if request.path != "/device":
            return super().__call__(request)
        given = {"device_code": "d", "user_code": "ABCD", "interval": 1}
        own = f"http://{request.headers['host']}/enter"
        return answer(given | {"verification_uri": own, self.name: f"{HONEST}/enter"})


@pytest.mark.parametrize("name", ["verification_uri", "verification_uri_complete"])
async def test_a_card_does_not_have_its_own_code_entered_at_another_server(name):
    """A person would let the agent in at the honest server, in the name of this program."""
    agent, shown = Relaying(name), []
    async with scripted(agent) as server:
        with pytest.raises(Unauthenticated, match=r"several origins .*issuer="):
            await said(server.url, DeviceCode("me", show=shown.append))
    assert (shown, agent.forms) == ([], [])


@pytest.mark.parametrize("rest", ["@{inside}", "@{inside}/realm"])
async def test_metadata_at_the_agents_own_address_is_asked_for_there(rest):
    """What follows the well-known place is a path: it makes no other host of the agent's."""
    async with scripted(Agent()) as inside, scripted(Agent()) as home:
        place = AgentPlace(home.url)
        well_known = f"{home.url}/.well-known/oauth-authorization-server"
        url = well_known + rest.format(inside=inside.url.removeprefix("http://"))
        scheme = scheme_of({"oauth2SecurityScheme": {"flows": {}, "oauth2MetadataUrl": url}})
        with pytest.raises((IssuerUnavailable, Unauthenticated)):
            await find_server(place, scheme)
    assert inside.requests == []


def test_no_login_by_a_card_with_two_servers(file, serving):
    """`accord auth login` says what to do: name the server."""
    with serving(MixedUp(mixed("code"))) as url:
        done = run("auth", "login", url, "--client-id", "me")
    assert done.exit_code == 4
    assert "several origins" in done.output
    assert "--issuer" in done.output


async def test_a_saved_login_with_two_servers_is_used_no_more():
    """One that was made before this was checked."""
    async with scripted(Agent()) as server:
        there = AuthorizationServer(
            f"{server.url}/token", "http://127.0.0.1:1", authorization_url=f"{HONEST}/authorize"
        )
        with pytest.raises(Unauthenticated, match="several origins"):
            await there.token({"grant_type": "refresh_token"}, OAuthClient("me"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("issuer", "names_itself", "named", "is_itself"),
    [
        (HONEST, False, None, True),
        (HONEST, True, None, False),
        (HONEST, True, HONEST, True),
        (HONEST, False, f"{HONEST}/", False),
        (HONEST, False, "https://evil.example", False),
        ("", False, HONEST, True),
        ("", False, "https://evil.example", False),
        ("", False, "nonsense", False),
    ],
)
def test_who_answers_by_a_browser_says_who_it_is(issuer, names_itself, named, is_itself):
    """RFC 9207: where the server says that it does, and whenever it does."""
    server = AuthorizationServer(
        f"{HONEST}/token",
        "",
        issuer=issuer,
        authorization_url=f"{HONEST}/authorize",
        names_itself=names_itself,
    )
    assert server.is_itself(named) is is_itself


@pytest.mark.parametrize(
    "lives", [-(10**400), 10**400, -1, True, "²"], ids=["-huge", "huge", "-1", "true", "letter"]
)
async def test_a_token_good_for_an_odd_time_is_a_token(lives):
    async with scripted(Agent(oauth, lives=lives)) as server:
        assert await said(server.url, ClientCredentials("me", SECRET))


async def test_a_public_agent_does_not_lead_into_our_network(monkeypatch):
    """Neither by the metadata nor by the endpoints its card names."""

    async def public(host, guard):
        return guard

    monkeypatch.setattr("accord.client.auth.server.guard_beside", public)
    async with scripted(Agent()) as inside:
        oidc = {"openIdConnectSecurityScheme": {"openIdConnectUrl": inside.url}}
        place = AgentPlace("https://agent.example")
        with pytest.raises(IssuerUnavailable, match="no public address"):
            await find_server(place, scheme_of(oidc))
        there = await find_server(place, scheme_of(oauth(inside.url)))
        with pytest.raises(Unreachable, match="no public address"):
            await there.token({}, OAuthClient("me"))
        typed = AuthorizationServer(f"{inside.url}/token", "", issuer="https://id.example")
        with pytest.raises(Unreachable, match="no public address"):
            await typed.token({}, OAuthClient("me"))
    assert inside.requests == []


@pytest.mark.parametrize("suffix", ["", "/", "/.well-known/openid-configuration"])
async def test_discovery_by_the_card(suffix):
    async with scripted(Agent()) as server:
        oidc = {"openIdConnectSecurityScheme": {"openIdConnectUrl": server.url + suffix}}
        found = await find_server(AgentPlace(server.url), scheme_of(oidc))
        assert (found.issuer, found.token_url) == (server.url, f"{server.url}/token")


async def test_no_server_is_named():
    for scheme in (None, scheme_of(BEARER), scheme_of({"oauth2SecurityScheme": {"flows": {}}})):
        with pytest.raises(Unauthenticated):
            await find_server(AgentPlace("http://127.0.0.1:1"), scheme)


def test_what_flows_fit():
    code = {"authorizationUrl": "https://a/", "tokenUrl": "https://a/", "scopes": {}}
    by_code = scheme_of({"oauth2SecurityScheme": {"flows": {"authorizationCode": code}}})
    oidc = scheme_of({"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a/"}})
    assert AuthorizationCode("me").fits(by_code)
    assert not DeviceCode("me").fits(by_code)
    assert not ClientCredentials("me", SECRET).fits(by_code)
    for auth in (AuthorizationCode("me"), DeviceCode("me"), ClientCredentials("me", SECRET)):
        assert auth.fits(oidc)
        assert not auth.fits(scheme_of(BEARER))
        assert not auth.fits(scheme_of(KEY))
    assert DeviceCode("me", issuer="https://a").fits(scheme_of(BEARER))
    with pytest.raises(ValueError, match="id and a secret"):
        ClientCredentials("me", "")
    with pytest.raises(ValueError, match="client_id"):
        DeviceCode("")


def test_no_secret_is_shown():
    auth = ClientCredentials("me", SECRET)
    bound = auth.bound(AgentPlace("https://a.example"), scheme_of(oauth("https://a")), [])
    login = Login("oauth", secret=SECRET, client=auth.client, token=Token(SECRET))
    shown = f"{auth!r} {bound!r} {auth.client!r} {login!r} {login.token!r} {Bearer(SECRET)!r}"
    assert SECRET not in shown + repr(ApiKey(SECRET)) + repr(SavedLogin())


async def test_no_secret_is_logged(caplog):
    """At no level, by nobody; not in errors either."""
    caplog.set_level(logging.DEBUG)
    agent = Agent(oauth, access_token=SECRET + "-token", refresh_token=SECRET + "-refresh")
    async with scripted(agent) as server:
        auth = ClientCredentials("me", SECRET)
        await said(server.url, auth)
        agent.accepted = []
        with pytest.raises(Unauthenticated) as caught:
            await said(server.url, auth)
        shown = "".join(traceback.format_exception(caught.value))
    assert [form["grant_type"] for form in agent.forms] == ["client_credentials", "refresh_token"]
    assert SECRET not in caplog.text + shown


# Logins


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "settings" / "logins.json"
    monkeypatch.setenv("ACCORD_LOGINS", str(path))
    monkeypatch.delenv("ACCORD_CLIENT_SECRET", raising=False)
    return path


def test_the_file_of_logins(file):
    logins = Logins()
    assert logins.all() == {}
    logins.put("https://a.example", Login("key", secret=SECRET))
    logins.put("https://b.example", Login("bearer", secret=SECRET))
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["logins.json"]
    logins.put("https://a.example", None)
    logins.put("https://a.example", None)
    assert list(logins.all()) == ["https://b.example"]
    file.write_text("nonsense")
    with pytest.raises(ValueError, match="no file of logins"):
        logins.all()


async def test_one_of_many_programs_renews(file):
    """What renews a token is good once: a second use would end the login."""
    used = []

    def handler(request):
        form = dict(parse_qsl(request.body.decode()))
        used.append(form["refresh_token"])
        if used.count(form["refresh_token"]) > 1:
            return answer({"error": "invalid_grant"}, 400)
        new = {"access_token": f"new-{len(used)}", "refresh_token": f"renews-{len(used)}"}
        return answer(new | {"token_type": "bearer", "expires_in": 600})

    async with scripted(handler) as server:
        place = AgentPlace("https://hr.example")
        ended = Token("old", refresh_token="renews-0", expires_at=1.0, renew_at=1.0)
        there = AuthorizationServer(f"{server.url}/token", "")
        login = Login("oauth", server=there, client=OAuthClient("me"), token=ended)
        Logins().put(place.origin, login)
        programs = [SavedLogin().bound(place, scheme_of(BEARER), []) for _ in range(8)]
        lines = [{} for _ in programs]
        await asyncio.gather(
            *(one.apply(None, line, {}) for one, line in zip(programs, lines, strict=True))
        )
        assert used == ["renews-0"]
        assert lines == [{"Authorization": "Bearer new-1"}] * 8
        Logins().put(place.origin, login)  # a copy of long ago: the server takes it for theft
        with pytest.raises(Unauthenticated, match=r"accord auth login https://hr.example"):
            await SavedLogin().bound(place, scheme_of(BEARER), []).apply(None, {}, {})


def run(*words, env=None, **options):
    return CliRunner(env=env).invoke(main, [*map(str, words)], **options)


@pytest.fixture
def serving():
    """Serve on a loop of its own: commands run one themselves."""
    import asyncio
    import threading
    from contextlib import contextmanager

    @contextmanager
    def serve(agent):
        loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        found = []

        async def work():
            async with scripted(agent) as server:
                found.append(server.url)
                ready.set()
                await over.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
        thread.start()
        assert ready.wait(20)
        try:
            yield found[0]
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()

    return serve


@pytest.mark.parametrize(
    ("scheme", "options", "typed", "name", "value"),
    [
        (KEY, [], f"{SECRET}\n", "x-dock-key", SECRET),
        (BEARER, [], f"{SECRET}\n", "authorization", f"Bearer {SECRET}"),
        (BASIC, ["--user", "ada"], "pw\n", "authorization", "Basic YWRhOnB3"),
        (None, ["--with", "token"], f"{SECRET}\n", "authorization", f"Bearer {SECRET}"),
    ],
    ids=["key", "token", "password", "no scheme"],
)
def test_logged_in_by_a_secret(file, serving, scheme, options, typed, name, value):
    """It is used by the other commands, for this agent alone, and never shown."""
    agent = Agent(scheme)
    with serving(agent) as url:
        done = run("auth", "login", url, "--secret-stdin", *options, input=typed)
        assert done.exit_code == 0, done.output
        status = run("auth", "status")
        sent = run("send", url, "hello")
        assert "17 crates" in sent.output, sent.output
        assert agent.seen[-1][name] == value
        out = run("auth", "logout", url)
    assert f"logged in at {url}" in done.output
    assert url in status.output
    assert f"logged out at {url}" in out.output
    assert SECRET not in done.output + status.output + sent.output + out.output
    assert json.loads(file.read_text()) == {}


def test_nobody_is_asked_for_a_secret_that_is_on_standard_input(file, serving):
    """Without a terminal there is nobody to ask, and nothing that could show what is typed."""
    with serving(Agent(BEARER)) as url:
        done = run("auth", "login", url, input=f"{SECRET}\n")
    assert done.output == f"logged in at {url}\n"
    assert json.loads(file.read_text())


def test_logged_in_as_a_program(file, serving):
    agent = Agent(oauth)
    with serving(agent) as url:
        asked = run("auth", "login", url)
        assert "--client-id" in asked.output
        env = {"ACCORD_CLIENT_SECRET": SECRET}
        done = run("auth", "login", url, "--client-id", "me", "--issuer", url, env=env)
        assert done.exit_code == 0, done.output
        assert f"tokens for {url} come from {url}" in done.output
        assert "17 crates" in run("send", url, "hello").output
        agent.accepted = ["Bearer token-2"]
        assert "17 crates" in run("send", url, "hello").output
        status = run("auth", "status", url)
        assert f"me at {url}, for a   (renewed by itself)" in status.output
        out = run("auth", "logout", url)
        assert "logged out" in out.output
    assert agent.forms[-1] == {"token": "token-2", "token_type_hint": "access_token"}
    assert SECRET not in done.output + status.output + out.output
    assert SECRET not in file.read_text()


def test_nobody_is_logged_in(file, serving):
    assert (
        "nobody is logged in\nLog in with:  accord auth login URL" in run("auth", "status").output
    )
    missing = run("auth", "status", "https://a.example")
    assert missing.exit_code == 1
    assert "nobody is logged in at https://a.example" in missing.output
    assert "nobody is logged in at https://a.example" in run("auth", "logout", "a.example").output
    agent = Agent(BEARER)
    agent.accepted = []
    with serving(agent) as url:
        refused = run("send", url, "hello")
        assert f"accord auth login {url}" in refused.output
    assert "no connection" in run("auth", "login", "http://127.0.0.1:9").output
    file.parent.mkdir(exist_ok=True)
    file.write_text("nonsense")
    for words in (["auth", "status"], ["send", "http://127.0.0.1:9", "x"]):
        assert "no file of logins" in run(*words).output
