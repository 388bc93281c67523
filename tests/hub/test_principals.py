"""Who is who: tokens, keys, guests, and the browser that opened the admin link."""

import json
from typing import Any

import aiohttp
import pytest

from accord import Limits, connect
from accord.auth import digest_of, new_api_key
from accord.client import NO_RETRY, ApiKey
from accord.console import Console
from accord.hub import Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM, Principal
from accord.hub.local_admin import LocalAdmin
from accord.hub.rest import known_origins
from accord.model import PermissionDenied, Unavailable, now_ms
from accord.net import client_tls
from accord.store import StoredApiKey
from tests.auth.test_oauth import issuer, key
from tests.auth.tokens import AUDIENCE, token
from tests.client.certs import Authority
from tests.console.test_server import log_in
from tests.hub.hubs import Desk, agent_named, hub_at, serving_card

__all__ = ["issuer", "key"]


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_people_with_tokens_have_the_role_an_admin_gave_them(tmp_path, key, issuer):
    """Scopes of a token give no role: whoever asks for a token chooses them."""
    settings = {"oidc": issuer.url, "oidc_audience": AUDIENCE}
    async with hub_at(tmp_path, **settings) as desk, serving_card() as server:
        await desk.add(server.url, visibility="team", team="hr")
        mine = {"iss": issuer.url, "sub": "ada", "scope": "role:admin team:hr"}
        ada = bearer(token(key, **mine))
        me = await desk.call("GET", "/me", by="guest", **ada)
        assert me.body == {"name": "ada", "role": "user", "teams": []}
        assert (await desk.call("GET", "/agents/baker", by="guest", **ada)).status == 404
        in_hr = bearer(token(key, **mine, groups=["hr"]))
        assert (await desk.call("GET", "/agents/baker", by="guest", **in_hr)).status == 200
        put = await desk.call("PUT", "/users/ada", {"role": "admin", "teams": ["it"]})
        assert put.status == 200
        me = await desk.call("GET", "/me", by="guest", **ada)
        assert me.body == {"name": "ada", "role": "admin", "teams": ["it"]}
        wrong = bearer(token(key, **mine, aud="other"))
        assert (await desk.call("GET", "/me", by="guest", **wrong)).status == 401


async def test_a_key_without_a_role_may_do_nothing_a_guest_may_not(tmp_path):
    async with hub_at(tmp_path, guests="off") as desk:
        refused = await desk.call("POST", "/keys", {"name": "x"})
        assert refused.status == 400  # a role has to be named
        made = await desk.call("POST", "/keys", {"name": "x", "role": "user", "expires_days": 1})
        desk.keys["x"] = made.body["key"]
        assert (await desk.call("GET", "/me", by="x")).body["role"] == "user"
        assert (await desk.call("DELETE", f"/keys/{made.body['id']}")).status == 204
        listed = (await desk.call("GET", "/keys")).body["keys"]
        assert [one["name"] for one in listed if one["revoked_ms"]] == ["x"]


ODD_TEAMS = ("hr role:admin", "hr\trole:admin", "hr\n", "", "a:b", "a/b", "x" * 64)


@pytest.mark.parametrize("team", ODD_TEAMS)
async def test_the_name_of_a_team_is_checked_on_every_way_in(tmp_path, team):
    """`--team "hr role:admin"` made an admin: names were stored side by side as one text."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        asked = [
            ("POST", "/keys", {"name": "mallory", "role": "user", "teams": [team]}),
            ("PUT", "/users/mallory", {"role": "user", "teams": [team]}),
            ("POST", "/teams", {"name": team}),
            ("POST", "/policies", {"who": f"team:{team}", "what": "*"}),
            ("POST", "/policies:try", {"agent": "baker", "name": "mallory", "teams": [team]}),
        ]
        if team:  # without one an entry is for no team
            server.card = server.base(name="Other")
            asked += [
                ("POST", "/agents", {"url": server.url + "/other", "team": team}),
                ("PATCH", "/agents/baker", {"team": team}),
            ]
        for verb, path, body in asked:
            answer = await desk.call(verb, path, body)
            assert answer.status == 400, (path, answer.body)
        keys = (await desk.call("GET", "/keys")).body["keys"]
        assert "mallory" not in [key["name"] for key in keys]


@pytest.mark.parametrize(
    ("row", "role", "teams"),
    [
        ({"scopes": ("role:admin", "team:hr")}, "guest", []),  # as `accord key new` may give
        ({"role": "user", "teams": ("hr role:admin",)}, "user", []),
        ({"role": "user", "teams": ("hr", "role:admin")}, "user", ["hr"]),
        ({"role": "user", "scopes": ("role:admin",)}, "user", []),
        ({"role": "admin,user"}, "guest", []),
        ({"role": "publisher", "teams": ("hr", "it")}, "publisher", ["hr", "it"]),
    ],
)
async def test_a_key_is_what_its_row_says(tmp_path, store, row, role, teams):
    async with hub_at(tmp_path, guests="off", **store) as desk:
        id_, text = new_api_key()
        await desk.hub.principals.keys.add(StoredApiKey(id_, "mallory", digest_of(text), 1, **row))
        desk.keys["mallory"] = text
        me = await desk.call("GET", "/me", by="mallory")
        assert me.body == {"name": "mallory", "role": role, "teams": teams}
        assert (await desk.call("GET", "/keys", by="mallory")).status in (401, 403)


async def test_a_key_and_its_row_in_the_audit_log_are_stored_together(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk:
        made = await desk.call("POST", "/keys", {"name": "mia", "role": "user"})
        await desk.hub.db.execute("ALTER TABLE audit RENAME TO gone")
        refused = await desk.call("POST", "/keys", {"name": "bob", "role": "user"})
        kept = await desk.call("DELETE", f"/keys/{made.body['id']}")
        assert (refused.status, kept.status) == (503, 503)
        keys = {key["name"]: key for key in (await desk.call("GET", "/keys")).body["keys"]}
        assert "bob" not in keys
        assert keys["mia"]["revoked_ms"] == 0


async def test_groups_of_a_token_that_are_no_names_of_teams_are_passed_over(tmp_path, key, issuer):
    settings = {"oidc": issuer.url, "oidc_audience": AUDIENCE}
    async with hub_at(tmp_path, **settings) as desk:
        groups = ["hr role:admin", "it", 7, ""]
        ada = bearer(token(key, iss=issuer.url, sub="ada", groups=groups))
        me = await desk.call("GET", "/me", by="guest", **ada)
        assert me.body == {"name": "ada", "role": "user", "teams": ["it"]}


async def test_every_key_has_its_row_in_the_audit_log(tmp_path):
    """Also that of the local admin, which the hub makes by itself."""
    async with hub_at(tmp_path) as desk:
        made = await desk.call("POST", "/keys", {"name": "mia", "role": "user", "teams": ["hr"]})
        assert (await desk.call("DELETE", f"/keys/{made.body['id']}")).status == 204
        assert (await desk.call("DELETE", f"/keys/{made.body['id']}")).status == 404
        rows = (await desk.call("GET", "/audit")).body["rows"]
        keys = [(row["who"], row["did"], row["what"]) for row in rows if "key." in row["did"]]
        assert keys == [
            ("local-admin", "key.revoke", made.body["id"]),
            ("local-admin", "key.new", "mia"),
            ("hub", "key.new", "local-admin"),
        ]
        assert f'"id":"{made.body["id"]}"' in rows[1]["detail"]


async def local_keys(desk: Desk) -> list[dict[str, Any]]:
    """The valid keys of local admins."""
    keys = (await desk.call("GET", "/keys")).body["keys"]
    return [key for key in keys if key["name"] == "local-admin" and not key["revoked_ms"]]


async def test_a_folder_has_one_local_key_which_expires(tmp_path):
    """It stays while it is good for long. A new one replaces it, also if its file is lost."""
    async with hub_at(tmp_path) as desk:
        first = desk.hub.admin_key
        [one] = await local_keys(desk)
        assert 0 < one["expires_ms"] - now_ms() <= 30 * 86_400_000
    async with hub_at(tmp_path) as desk:
        assert desk.hub.admin_key == first
    (tmp_path / "hub.admin").unlink()
    async with hub_at(tmp_path) as desk:
        assert desk.hub.admin_key != first
        [one] = await local_keys(desk)
        desk.keys["before"] = first
        assert (await desk.call("GET", "/keys", by="before")).status == 401


async def test_a_local_key_that_ends_soon_or_never_is_replaced(tmp_path):
    """Keys of earlier versions never end. The hub that runs looks every hour."""
    async with hub_at(tmp_path) as desk:
        for expires_ms in (0, now_ms() + 86_400_000):
            principals = desk.hub.principals
            _, old = await principals.new_key(SYSTEM, "local-admin", HubRole.ADMIN, (), expires_ms)
            desk.hub.local_admin.key = desk.keys["old"] = old
            await desk.hub.local_admin.renew()
            assert (tmp_path / "hub.admin").read_text().strip() == desk.hub.admin_key != old
            desk.keys["admin"] = desk.hub.admin_key
            assert (await desk.call("GET", "/keys", by="old")).status == 401
            assert len(await local_keys(desk)) == 1


async def test_a_local_key_is_replaced_whole_or_not_at_all(tmp_path, store):
    """The new one, the end of the old one and both rows of the log are one transaction."""
    async with hub_at(tmp_path, **store) as desk:
        admin = desk.hub.local_admin
        (tmp_path / "hub.admin").unlink()
        admin.key = ""
        await desk.hub.db.execute("ALTER TABLE audit RENAME TO gone")
        with pytest.raises(Unavailable):
            await admin.renew()
        assert len(await local_keys(desk)) == 1, "the old one is valid"
        await desk.hub.db.execute("ALTER TABLE gone RENAME TO audit")
        await admin.renew()
        desk.keys["admin"] = admin.key
        assert len(await local_keys(desk)) == 1
        did = [(row.did, row.who) for row in await desk.hub.audit.rows(limit=2)]
        assert did == [("key.revoke", "hub"), ("key.new", "hub")]


async def test_hubs_of_two_folders_have_a_local_key_each(tmp_path, store):
    async with hub_at(tmp_path / "one", **store) as one:
        first = one.hub.admin_key
    async with hub_at(tmp_path / "two", **store) as two:
        assert two.hub.admin_key != first
        two.keys["first"] = first
        assert (await two.call("GET", "/me", by="first")).body["role"] == "admin"


async def test_a_second_hub_in_a_folder_leaves_the_address_of_the_first(tmp_path, monkeypatch):
    """The key is shown where the hub is that holds the file, and nowhere once that has ended."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".accord"
    async with hub_at(folder) as desk:
        first, second = (LocalAdmin(desk.hub.principals, str(folder)) for _ in range(2))
        first.served_at("http://127.0.0.1:1001", "")
        second.served_at("http://127.0.0.1:1002", "")
        assert known_origins() == ["http://127.0.0.1:1001"]
        second.close()
        assert known_origins() == ["http://127.0.0.1:1001"]
        first.close()
        assert known_origins() == []


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [
        ("POST", "/teams", {"name": "hr", "description": "a\0b"}),
        ("POST", "/teams", {"name": "hr", "description": "a\\\0b"}),
        ("PUT", "/users/a%00b", {"role": "user"}),
        ("DELETE", "/policies/%00", None),
        ("GET", "/audit?what=%00", None),
        ("GET", "/traces/%00", None),
    ],
)
async def test_a_null_character_is_refused_whatever_the_database(tmp_path, store, verb, path, body):
    """PostgreSQL has no text with it, and would seem to be away."""
    async with hub_at(tmp_path, **store) as desk:
        refused = await desk.call(verb, path, body)
        assert (refused.status, refused.reason) == (400, "INVALID_PARAMS")
        fine = {"name": "hr", "description": "the words \\u0000"}
        assert (await desk.call("POST", "/teams", fine)).status == 201


async def test_the_browser_that_opened_the_link_is_an_admin(tmp_path):
    hub = Hub(HubSettings(store=f"sqlite:///{tmp_path}/hub.db", folder=str(tmp_path)))
    page = Console(hub.app)
    page.attach(hub.app)
    jar = aiohttp.CookieJar(unsafe=True)
    async with hub.app.serving() as url, aiohttp.ClientSession(cookie_jar=jar) as http:
        desk = Desk(hub, url, http)
        assert (await desk.call("GET", "/me", by="guest")).body["role"] == "guest"
        assert await log_in(http, page.link(url)) == 200
        secret = http.headers.pop("X-Accord-Session")
        same = {"X_Accord_Session": secret, "Sec_Fetch_Site": "same-origin"}
        me = await desk.call("GET", "/me", by="guest", **same)
        assert me.body["role"] == "admin"
        # A page of another site has the browser send the cookie too.
        other = same | {"Sec_Fetch_Site": "cross-site"}
        assert (await desk.call("GET", "/me", by="guest", **other)).status == 403
        alone = {"Sec_Fetch_Site": "same-origin"}  # without what only our page sends
        made = await desk.call("POST", "/teams", {"name": "hr"}, by="guest", **alone)
        assert made.status in (401, 403)
        made = await desk.call("POST", "/teams", {"name": "hr"}, by="guest", **same)
        assert made.status == 201


async def test_the_hub_is_an_agent_that_lists_what_a_caller_may_see(tmp_path):
    async with hub_at(tmp_path) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.add(server.url.replace("127.0.0.1", "localhost"), name="own",
                       visibility="private")  # fmt: skip
        async with connect(desk.url) as client:
            reply = await client.send("list", skill="list_agents")
            assert [one["name"] for one in reply.data["untrusted"]] == ["baker"]
        async with connect(desk.url, auth=ApiKey(desk.hub.admin_key)) as client:
            reply = await client.send("list", skill="list_agents")
            assert [one["name"] for one in reply.data["untrusted"]] == ["baker", "own"]


@pytest.mark.parametrize("by", ["guest", "mia"])
async def test_a_call_counts_once_whatever_face_of_the_hub_it_is_for(tmp_path, by):
    limits = Limits(calls_per_s=0.001, calls_burst=6)
    async with (
        agent_named().app().serving() as url,
        hub_at(tmp_path, limits=limits) as desk,
        aiohttp.ClientSession(headers={"X-API-Key": await desk.key("mia")}) as with_key,
        aiohttp.ClientSession() as without,
    ):
        await desk.add(url)
        http = without if by == "guest" else with_key
        faces = ("/api/v1/me", "/agents/echo/tasks", "/tasks")
        found = []
        for face in (*faces, *faces, *faces):
            async with http.get(desk.url + face, headers={"A2A-Version": "1.0"}) as answer:
                found.append(answer.status)
        assert found == [*[200] * 6, *[429] * 3]


async def test_refused_requests_are_counted_and_not_stored_one_by_one(tmp_path):
    """Anybody could fill the log. A minute of one caller is one row."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        mia = await desk.key("mia")
        await desk.add(server.url)
        await desk.call("POST", "/policies", {"who": "anyone", "what": "agent:baker"})
        before = len((await desk.call("GET", "/audit")).body["rows"])
        for key in (None, ApiKey(mia)):
            baker = f"{desk.url}/agents/baker/"
            async with connect(baker, auth=key, retry=NO_RETRY) as client:
                for _ in range(5):
                    with pytest.raises(PermissionDenied):
                        await client.send("bread")
        for _ in range(3):
            assert (await desk.call("GET", "/keys", by="mia")).status == 403
        assert len((await desk.call("GET", "/audit")).body["rows"]) == before
        await desk.hub.refusals.flush()
        await desk.hub.refusals.flush()  # there is nothing more to say
        rows = (await desk.call("GET", "/audit")).body["rows"]
        found = {row["who"]: json.loads(row["detail"]) for row in rows if row["did"] == "refused"}
        assert len(rows) == before + 2
        assert found == {
            "guest": {"requests": 5, "what": {"baker": 5}},
            "mia": {"requests": 8, "what": {"baker": 5, "GET /api/v1/keys": 3}},
        }
        assert (await desk.call("GET", "/audit:verify")).body["whole"]


async def test_what_is_counted_of_refused_requests_is_bounded(tmp_path):
    async with hub_at(tmp_path) as desk:
        for number in range(2000):
            for path in range(50):
                who = Principal(f"user {number}", f"user {number}", HubRole.USER)
                desk.hub.refusals.count(who, f"GET /{path}")
        await desk.hub.refusals.flush()
        rows = [row for row in await desk.hub.audit.rows(limit=5000) if row.did == "refused"]
        assert len(rows) == 1001  # the last is for all others
        details = [json.loads(row.detail) for row in rows]
        assert sum(one["requests"] for one in details) == 100_000
        assert max(len(one["what"]) for one in details) == 21


def test_a_hub_that_takes_tokens_says_whom_they_are_for():
    with pytest.raises(ValueError, match="--oidc-audience"):
        Hub(HubSettings(oidc="https://id.example"))


def test_settings_come_from_the_environment():
    environment = {
        "ACCORD_HUB_PORT": "8",
        "ACCORD_HUB_ALLOW_HOST": "10.0.0.0/8, *.corp",
        "ACCORD_HUB_HEARTBEAT_S": "2",
    }
    found = HubSettings.of({"port": 9, "host": None}, environment)
    assert (found.port, found.host, found.heartbeat_s) == (9, "127.0.0.1", 2.0)
    assert found.allow == ("10.0.0.0/8", "*.corp")
    with pytest.raises(ValueError, match="guests"):
        HubSettings.of({}, {"ACCORD_HUB_GUESTS": "yes"})


def test_variables_that_kubernetes_makes_for_a_service_are_no_settings():
    """A Service called accord-hub gives them to every pod of its namespace."""
    links = {
        "ACCORD_HUB_PORT": "tcp://10.0.0.1:80",
        "ACCORD_HUB_SERVICE_HOST": "10.0.0.1",
        "ACCORD_HUB_SERVICE_PORT": "80",
        "ACCORD_HUB_SERVICE_PORT_HTTP": "80",
        "ACCORD_HUB_PORT_80_TCP": "tcp://10.0.0.1:80",
        "ACCORD_HUB_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert HubSettings.of({}, links) == HubSettings()
    with pytest.raises(ValueError, match="ACCORD_HUB_PROT; did you mean 'ACCORD_HUB_PORT'"):
        HubSettings.of({}, {"ACCORD_HUB_PROT": "80"})


async def test_a_hub_with_a_certificate_is_reached_over_tls(tmp_path):
    certificate, private = Authority(tmp_path).issue("hub")
    settings = {"tls_cert": str(certificate), "tls_key": str(private)}
    async with hub_at(tmp_path, **settings) as desk:
        trusts = client_tls(tmp_path / "ca.pem")
        key = {"X-API-Key": desk.hub.admin_key}
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{desk.url}/api/v1/me", headers=key, ssl=trusts) as answer,
        ):
            assert (await answer.json())["role"] == "admin"
    with pytest.raises(ValueError, match="--tls-key"):
        Hub(HubSettings(tls_cert="x"))
