"""People log in to the hub's console with a real OpenID provider, and have the role their claims
give them.
"""

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import aiohttp
import pytest
from aiohttp import web

from accord.console import BrowserSessions
from accord.hub import Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM, PolicyRule
from tests.auth.browser import agree_in, browser
from tests.auth.test_idp import IDP
from tests.auth.tokens import jwks, made, token
from tests.client.peers import PATIENCE_S
from tests.hub.hubs import serving_card
from tests.processes import start

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None,
    reason="the identity provider needs Node.js, which is not installed",
)


@pytest.fixture(scope="module")
def idp() -> Iterator[str]:
    assert (IDP / "node_modules" / "oidc-provider").is_dir(), (
        "the identity provider is not installed; `make test` does it"
    )
    with start("node", IDP / "provider.mjs") as process:
        yield process.line_sync()


@contextlib.asynccontextmanager
async def hub_with(idp: str, folder: Path, **more: Any) -> AsyncIterator[tuple[Hub, str]]:
    settings: dict[str, Any] = {
        "store": f"sqlite:///{folder}/hub.db",
        "folder": str(folder),
        "tick_s": 0.0,
        "oidc": idp,
        "oidc_client": "hub",
        "oidc_secret": "hub-secret-% +",
        "map_role": ("admin=hub-admins", "publisher=devs"),
    }
    hub = Hub(HubSettings(**(settings | more)))
    hub.console()
    async with hub.app.serving() as url:
        hub.served_at(url)
        yield hub, url


class Page:
    """The page in somebody's browser."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url, self.secret = session, url, "none"

    async def log_in(self, who: str) -> None:
        """Do what a person does at the provider, and what the page does when it is opened."""
        person = {"login": who, "password": "anything"}
        _, at = await agree_in(self.session, f"{self.url}/console/login", person=person)
        assert at.startswith(f"{self.url}/console/?key="), at
        key = parse_qs(urlsplit(at).query)["key"][0]
        found = await self.post("/console/api/login", {"key": key})
        assert found[0] == 200, found
        self.secret = found[1]["secret"]
        assert (await self.post("/console/api/login", {"key": key}))[0] == 403, "it works once"

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(self.url + path, headers=self._headers) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        async with self.session.post(self.url + path, json=body, headers=self._headers) as answer:
            return answer.status, await answer.json()

    @property
    def _headers(self) -> dict[str, str]:
        return {"X-Accord-Session": self.secret}


@contextlib.asynccontextmanager
async def page_at(url: str, who: str = "") -> AsyncIterator[Page]:
    async with browser() as session:
        page = Page(session, url)
        if who:
            await page.log_in(who)
        yield page


@pytest.mark.parametrize(
    ("who", "role", "teams"),
    [("ada", "admin", ["hr", "hub-admins"]), ("bob", "publisher", ["devs"]), ("eve", "user", [])],
)
async def test_claims_give_roles_and_teams(idp, tmp_path, who, role, teams):
    """`--map-role admin=hub-admins`: that group makes an admin, none of them a user."""
    async with hub_with(idp, tmp_path) as (hub, url), page_at(url, who) as page:
        assert await page.get("/api/v1/me") == (200, {"name": who, "role": role, "teams": teams})
        status, me = await page.get("/console/api/me")
        assert (status, me["isOperator"]) == (200, role == "admin")
        rows = [row for row in await hub.audit.rows() if row.did == "console.login"]
        assert [row.who for row in rows] == [who]


async def test_who_is_no_admin_sees_only_their_own(idp, tmp_path):
    """The console's own reads show what all callers do: they are for admins."""
    async with hub_with(idp, tmp_path) as (_, url), page_at(url, "eve") as page:
        own = quote((await page.get("/console/api/me"))[1]["caller"], safe="")
        refused = [
            await page.get(f"/console/api/{path}")
            for path in (
                "tasks",
                "tasks?find=hello",
                "tasks?sort=slow",
                f"tasks?caller={own}",
                "now",
                "counts",
                "pushes",
                "exchanges",
                "live",
                "tasks/t1",
                "tasks/t1?caller=other",
                f"tasks/t1?caller={own}&caller=other",
            )
        ]
        assert [status for status, _ in refused] == [403] * len(refused)
        for path in (
            "link",
            "letters/1/replay",
            "ticket?of=tasks/t1/artifacts/a/0",
            f"ticket?of=tasks/t1/artifacts/a/0?caller={quote(own)}%26caller=other",
            f"ticket?of=tasks/t1/artifacts/a/0?caller={quote(own)}%26caller=",
        ):
            assert (await page.post(f"/console/api/{path}"))[0] == 403, path
        assert (await page.get(f"/console/api/tasks/t1?caller={own}"))[0] == 404
        logins = (await page.get("/console/api/logins"))[1]["logins"]
        assert [one["own"] for one in logins] == [True]
        assert (await page.post(f"/console/api/logins/{logins[0]['id']}/close"))[0] == 200
        assert (await page.get("/console/api/me"))[0] == 403, "logged out"


async def test_rules_by_claims_count_for_who_logged_in(idp, tmp_path):
    """Whatever the claim: a rule must not lapse because somebody comes by the console."""
    claims = {"team_claim": "teams", "role_claim": "roles"}
    async with (
        hub_with(idp, tmp_path, **claims) as (hub, url),
        serving_card() as server,
        page_at(url, "ada") as ada,
        page_at(url, "bob") as bob,
    ):
        await hub.admission.add(SYSTEM, url=server.url)
        assert (await ada.get("/api/v1/agents/baker"))[0] == 200
        rule = PolicyRule(effect="deny", who="claim:groups=hr", may="see", what="agent:baker")
        await hub.policy.add(SYSTEM, rule)
        assert (await ada.get("/api/v1/agents/baker"))[0] == 404
        assert (await bob.get("/api/v1/agents/baker"))[0] == 200


async def test_what_an_admin_set_counts_before_claims(idp, tmp_path):
    """And is asked for with each request: a role that is taken away is gone at once."""
    async with (
        hub_with(idp, tmp_path) as (_, url),
        page_at(url, "ada") as ada,
        page_at(url, "bob") as bob,
    ):
        user, headers = f"{url}/api/v1/users/bob", {"X-Accord-Session": ada.secret}
        change = {"role": "guest", "teams": []}
        async with ada.session.put(user, json=change, headers=headers) as done:
            assert done.status == 200
        assert (await bob.get("/api/v1/me"))[1]["role"] == "guest"
        async with ada.session.delete(user, headers=headers) as done:
            assert done.status == 204
        assert (await bob.get("/api/v1/me"))[1]["role"] == "publisher"


async def test_live_ends_when_the_role_is_taken_away(idp, tmp_path):
    """It shows what all callers do."""
    async with (
        hub_with(idp, tmp_path) as (hub, url),
        page_at(url, "ada") as page,
        page.session.get(
            f"{url}/console/api/live", headers={"X-Accord-Session": page.secret}
        ) as live,
    ):
        assert live.status == 200
        await hub.principals.set_user(SYSTEM, "ada", HubRole.USER, ())
        async with asyncio.timeout(PATIENCE_S):
            assert (await live.content.read()).endswith(b": logged out\n\n")


async def test_a_link_does_not_prolong_a_login(idp, tmp_path):
    """Else an admin who left the group could stay one, from link to link."""
    async with (
        hub_with(idp, tmp_path) as (_, url),
        page_at(url, "ada") as first,
        page_at(url) as second,
    ):
        key = (await first.post("/console/api/link"))[1]["key"]
        status, opened = await second.post("/console/api/login", {"key": key})
        assert status == 200
        second.secret = opened["secret"]
        assert (await second.get("/console/api/me"))[1]["isOperator"] is True
        logins = (await first.get("/console/api/logins"))[1]["logins"]
        assert len(logins) == 2
        assert logins[0]["since"] == logins[1]["since"]


async def test_an_answer_that_was_not_asked_for_logs_nobody_in(idp, tmp_path):
    """Else a page could log somebody in as another (RFC 6749, 10.12), or use a stolen code."""
    async with hub_with(idp, tmp_path) as (hub, url), page_at(url) as page:
        locked = await page.get("/console/api/me")
        assert (locked[0], locked[1]["login"]) == (403, "/console/login")
        callback = f"{url}/console/login/callback"
        for query in ("", "?code=x&state=y", "?error=access_denied"):
            async with page.session.get(callback + query) as answer:
                assert (answer.status, "set-cookie" in answer.headers) == (403, False)
        async with page.session.get(f"{url}/console/login", allow_redirects=False) as begun:
            asked = parse_qs(urlsplit(begun.headers["Location"]).query)
            cookie = begun.headers["Set-Cookie"]
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["redirect_uri"] == [callback]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        state = asked["state"][0]
        for query in (
            "?code=x&state=y",
            f"?code=x&state={state}&iss=http://other.example",
            f"?code=x&state={state}&iss={idp}",  # the provider knows no such code
            f"?error=access_denied&state={state}&iss={idp}",
        ):
            async with page.session.get(callback + query, allow_redirects=False) as answer:
                assert answer.status == 403, await answer.text()
        assert [row for row in await hub.audit.rows() if row.did == "console.login"] == []


async def test_a_provider_that_is_away_is_said(tmp_path):
    async with (
        hub_with("http://127.0.0.1:9", tmp_path) as (_, url),
        page_at(url) as page,
        page.session.get(f"{url}/console/login", allow_redirects=False) as answer,
    ):
        assert answer.status == 503
        assert "can't be reached" in await answer.text()


@pytest.mark.parametrize("url", ["https://hub.example", "https://hub.example:443/"])
async def test_people_log_in_through_a_proxy_that_speaks_tls(tmp_path, url):
    """The hub itself is asked over plain HTTP; what the browser sees is `--url`."""
    away = "http://127.0.0.1:9"
    async with hub_with(away, tmp_path, url=url) as (hub, at), page_at(at) as page:
        begin = f"{at}/console/login"
        host = {"Host": "hub.example"}
        async with page.session.get(begin, headers=host, allow_redirects=False) as answer:
            assert answer.status == 503, "it asks the provider, and does not send them here again"
        async with page.session.get(begin, allow_redirects=False) as answer:
            assert answer.headers["Location"] == f"{url.rstrip('/')}/console/login"
        key = await BrowserSessions(hub.app.engine.tasks.store.logins).new_link()
        for origin, status in (
            ("http://hub.example", 403),
            ("https://other.example", 403),
            ("https://hub.example", 200),
        ):
            headers = host | {"Origin": origin, "X-Accord-Session": "none"}
            opened = page.session.post(
                f"{at}/console/api/login", json={"key": key}, headers=headers
            )
            async with opened as answer:
                assert answer.status == status
                cookie = answer.headers.get("Set-Cookie", "")
        assert "; Secure" in cookie
        assert urlsplit(at).netloc.partition(":")[2] not in cookie.partition("=")[0], (
            "hubs behind one address have one cookie"
        )


class Provider:
    """A provider in a few lines, whose ID token a test chooses. A code works once."""

    def __init__(self, folder: Path) -> None:
        self.key, self.other = made(folder, "ES256", "k1"), made(folder, "ES256", "k2")
        self.url, self.asked, self.codes = "", {"nonce": ""}, {"c1"}
        self.changes: dict[str, Any] = {}
        self.header: dict[str, Any] | None = None
        self.is_forged = False

    async def answer(self, request: web.Request) -> web.Response:
        if request.path.endswith("/openid-configuration"):
            names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            places = {name: f"{self.url}/{name}" for name in names}
            return web.json_response({"issuer": self.url, **places})
        if request.path == "/jwks_uri":
            return web.json_response(jwks(self.key))
        if request.path != "/token_endpoint":
            return web.Response(status=404)
        code = (await request.post())["code"]
        if code not in self.codes:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.codes.remove(str(code))
        usual = {"iss": self.url, "aud": "hub", "nonce": self.asked["nonce"], "scope": None}
        key = self.other if self.is_forged else self.key
        id_token = token(key, self.header, **(usual | self.changes))
        return web.json_response(
            {"access_token": "a", "token_type": "Bearer", "id_token": id_token}
        )


@contextlib.asynccontextmanager
async def provider_at(folder: Path) -> AsyncIterator[Provider]:
    provider = Provider(folder)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()


async def back(page: Page, provider: Provider, **query: str) -> tuple[int, str]:
    """Begin to log in, and come back with a code. Returns the status, and where the page is."""
    begin = page.session.get(f"{page.url}/console/login", allow_redirects=False)
    async with begin as begun:
        asked = parse_qs(urlsplit(begun.headers["Location"]).query)
    provider.asked = {name: values[0] for name, values in asked.items()}
    return await callback(page, **({"code": "c1", "state": provider.asked["state"]} | query))


async def callback(page: Page, **query: str) -> tuple[int, str]:
    at = f"{page.url}/console/login/callback?{urlencode(query)}"
    async with page.session.get(at, allow_redirects=False) as answer:
        where = answer.headers.get("Location", "")
        return answer.status, where or await answer.text()


NOT_THEIRS: dict[str, tuple[dict[str, Any], str]] = {
    "another login's": ({"nonce": "other"}, "belongs to another login"),
    "of no login": ({"nonce": None}, "belongs to another login"),
    "of another issuer": ({"iss": "https://other.example"}, "not valid"),
    "for another client": ({"aud": "other"}, "not valid"),
    "for several, made for another": ({"aud": ["hub", "b"], "azp": "b"}, "another client"),
    "for several, made for nobody": ({"aud": ["hub", "b"]}, "another client"),
    "expired": ({"exp": 1}, "not valid"),
    "of nobody": ({"sub": None}, "not valid|no subject"),
    "of an empty name": ({"sub": ""}, "not valid|no subject"),
    "of a number": ({"sub": 7}, "not valid|no subject"),
    "too large": ({"notes": "x" * 20_000}, "too many claims|too large|not valid"),
}


@pytest.mark.parametrize("kind", NOT_THEIRS)
async def test_an_id_token_that_is_not_for_this_login_logs_nobody_in(tmp_path, kind):
    """OpenID Connect Core, 3.1.3.7."""
    changes, why = NOT_THEIRS[kind]
    async with (
        provider_at(tmp_path) as provider,
        hub_with(provider.url, tmp_path) as (hub, url),
        page_at(url) as page,
    ):
        provider.changes = changes
        status, text = await back(page, provider)
        assert status == 403
        assert re.search(why, text), text
        assert [row for row in await hub.audit.rows() if row.did == "console.login"] == []


async def test_an_id_token_of_another_key_or_an_access_token_logs_nobody_in(tmp_path):
    async with (
        provider_at(tmp_path) as provider,
        hub_with(provider.url, tmp_path) as (_, url),
        page_at(url) as page,
    ):
        provider.codes |= {"c2"}
        provider.is_forged = True
        assert (await back(page, provider))[0] == 403
        provider.is_forged, provider.header = False, {"typ": "at+jwt"}
        assert (await back(page, provider, code="c2"))[0] == 403


async def test_a_login_is_finished_once_by_the_browser_that_began_it(tmp_path):
    """A code or a state of another is of no use, nobody chooses a session beforehand, and nothing
    leads elsewhere. Who has no claims is a user.
    """
    async with (
        provider_at(tmp_path) as provider,
        hub_with(provider.url, tmp_path) as (_, url),
        page_at(url) as page,
        page_at(url) as other,
    ):
        provider.codes |= {"c2"}
        begin = page.session.get(f"{url}/console/login?next=//evil.example", allow_redirects=False)
        async with begin as begun:
            assert begun.headers["Location"].startswith(f"{provider.url}/authorization_endpoint?")
            name = begun.headers["Set-Cookie"].partition("-login=")[0]
        assert (await back(page, provider, state="other"))[0] == 403
        state = provider.asked["state"]
        assert (await callback(other, code="c1", state=state))[0] == 403, "another browser"
        status, at = await callback(page, code="c1", state=state, next="//evil.example")
        assert (status, at.startswith("/console/?key=")) == (303, True)
        for code in ("c1", "c2"):  # the browser has forgotten the login that it began
            assert (await callback(page, code=code, state=state))[0] == 403
        key = parse_qs(urlsplit(at).query)["key"][0]
        headers = {"X-Accord-Session": "none", "Cookie": f"{name}=chosen-by-another"}
        opening = page.session.post(f"{url}/console/api/login", json={"key": key}, headers=headers)
        async with opening as opened:
            assert opened.status == 200
            assert "chosen-by-another" not in opened.headers["Set-Cookie"]
            page.secret = (await opened.json())["secret"]
        me = await page.get("/api/v1/me")
        assert me == (200, {"name": "mia", "role": "user", "teams": []})
        own = (await page.get("/console/api/logins"))[1]["logins"][0]["id"]
        assert (await page.post(f"/console/api/logins/{own}/close"))[0] == 200
        assert (await page.get("/console/api/me"))[0] == 403, "logged out"
        assert (await page.get("/api/v1/me"))[1]["role"] == "guest"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"oidc_client": "hub"}, "name it with --oidc"),
        ({"map_role": ("boss=x",)}, "ROLE=VALUE"),
        ({"map_role": ("admin",)}, "ROLE=VALUE"),
        ({"role_claim": "scope"}, "whoever asks for a token chooses this claim"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        HubSettings(**settings)
