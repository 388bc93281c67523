"""Bearer tokens as schemes: Bearer, OAuth2, OIDC, over every binding."""

import pytest
from aiohttp import web

from accord import Agent, Caller
from accord.auth import OIDC, ApiKeys, Bearer, OAuth2
from tests.auth.test_api_keys import status_of
from tests.auth.tokens import AUDIENCE, ISSUER, jwks, made, token
from tests.drive import refusal_of, say, text_of


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys"), "ES256", "k1")


def hr(auth, **more):
    agent = Agent("HR", auth=auth, **more)

    @agent.skill
    async def ask(text: str, caller: Caller) -> str:
        return f"{caller.tenant}/{caller.name} {sorted(caller.scopes)} by {caller.scheme}"

    @agent.skill(scopes=["hr.write"])
    async def hire(text: str, caller: Caller) -> str:
        return f"{text} hired by {caller.claims['sub']}"

    return agent


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def ours(key, **more):
    return Bearer(jwks(key), issuer=ISSUER, audience=AUDIENCE, **more)


async def test_a_token_names_its_caller(connect, key):
    """The skill learns the subject, the scopes, and all claims (AUT-4)."""
    async with connect(hr(ours(key))) as client:
        task = (await client.send("hello", headers=bearer(token(key))))["task"]
        assert text_of(task) == "/mia ['hr.read'] by bearer"
        strong = bearer(token(key, scope="hr.read hr.write"))
        hired = say("Bob", metadata={"skill": "hire"})
        assert text_of((await client.send(hired, headers=strong))["task"]) == "Bob hired by mia"
        refused = await refusal_of(client.send(hired, headers=bearer(token(key))))
        assert (status_of(refused), refused.detail["scope"]) == (403, "hr.write")


@pytest.mark.parametrize(
    "changes", [{"exp": 1}, {"aud": "other"}, {"iss": "https://evil.example"}, {"sub": None}]
)
async def test_a_token_that_proves_nothing_is_refused(connect, key, changes):
    """As the rule has it (GEN-3)."""
    async with connect(hr(ours(key))) as client:
        refused = await refusal_of(client.send("hello", headers=bearer(token(key, **changes))))
        assert status_of(refused) == 401
        assert refused.message.startswith("the credentials are not valid")


async def test_an_expired_token_is_called_that(connect_rpc, key):
    """RFC 6750, section 3.1: the client may get a new one. Who shows another wrong token learns
    nothing.
    """
    async with connect_rpc(hr(ours(key))) as client:
        old = await refusal_of(client.list(headers=bearer(token(key, exp=1))))
        other = await refusal_of(client.list(headers=bearer(token(key, aud="other", exp=1))))
    assert 'error="invalid_token"' in old.headers["www-authenticate"]
    assert 'error_description="the access token expired"' in old.headers["www-authenticate"]
    assert old.message == "the credentials are not valid: the access token expired"
    assert "error_description" not in other.headers["www-authenticate"]
    assert other.message == "the credentials are not valid"


async def test_why_a_token_was_refused_is_in_the_log_once_a_minute(connect_rpc, key, caplog):
    """The operator sees at once which of the usual mistakes it is, and no flood of lines."""
    async with connect_rpc(hr(ours(key))) as client:
        for n in range(3):
            for changes in ({"exp": 1}, {"aud": "other"}):
                await refusal_of(client.list(headers=bearer(token(key, jti=str(n), **changes))))
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [line.partition(": ")[2] for line in warned] == [
        "bearer: expired",
        "bearer: the token is for another audience",
    ]


async def test_the_challenge_says_what_is_needed(connect_http, key):
    """RFC 6750: realm, error and scope; RFC 9728: where the metadata is (GEN-3)."""
    async with connect_http(hr(ours(key, scopes=["hr.read"]))) as client:
        url = f'resource_metadata="{client.url}/.well-known/oauth-protected-resource"'
        none = await refusal_of(client.list())
        assert none.headers["WWW-Authenticate"] == f'Bearer realm="HR", scope="hr.read", {url}'
        wrong = await refusal_of(client.list(headers=bearer("x.y.z")))
        assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]
        weak = await refusal_of(client.list(headers=bearer(token(key, scope="other"))))
        assert (weak.status, weak.detail["scope"]) == (403, "hr.read")
        assert 'error="insufficient_scope", scope="hr.read"' in weak.headers["WWW-Authenticate"]


async def test_the_protected_resource_names_its_authorization_server(connect_rest, key):
    """RFC 9728, for OAuth clients that know the agent's address and nothing else."""
    async with connect_rest(hr(ours(key) | ApiKeys())) as client:
        path = "/.well-known/oauth-protected-resource"
        async with client.http.get(client.url + path) as response:
            assert response.status == 200
            assert await response.json() == {
                "resource": client.url,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["hr.write"],
            }
    async with (
        connect_rest(hr(ApiKeys())) as client,
        client.http.get(client.url + path) as response,
    ):
        assert response.status == 404


async def test_a_claim_may_name_the_tenant(connect, key):
    """Then a token without it is refused."""
    async with connect(hr(ours(key, tenant="org"))) as client:
        task = (await client.send("hello", headers=bearer(token(key, org="acme"))))["task"]
        assert text_of(task).startswith("acme/mia ")
        assert status_of(await refusal_of(client.list(headers=bearer(token(key))))) == 401
        other = bearer(token(key, org="other"))
        hidden = await refusal_of(client.get(task["id"], headers=other))
        assert hidden.reason == "TASK_NOT_FOUND"


async def test_the_same_subject_of_two_issuers_is_two_callers(connect_rpc, key, tmp_path):
    """A name is unique only for who gave it."""
    other_key = made(tmp_path, "ES256", "k2")
    other = Bearer(jwks(other_key), issuer="https://b.example", audience=AUDIENCE, name="other")
    async with connect_rpc(hr(ours(key) | other)) as client:
        task = (await client.send("hello", headers=bearer(token(key))))["task"]
        twin = bearer(token(other_key, iss="https://b.example"))
        assert text_of((await client.send("hello", headers=twin))["task"]).endswith("by other")
        assert (await refusal_of(client.get(task["id"], headers=twin))).reason == "TASK_NOT_FOUND"


async def test_claims_may_be_read_otherwise(connect_rpc, key):
    """By a function of the user's, which may also decline."""

    def who(found):
        return Caller(found["email"]) if "email" in found else None

    async with connect_rpc(hr(ours(key, caller=who))) as client:
        mia = bearer(token(key, email="mia@corp.example"))
        assert text_of((await client.send("x", headers=mia))["task"]).startswith("/mia@corp.")
        assert (await refusal_of(client.list(headers=bearer(token(key))))).status == 401


class Issuer:
    """An identity provider, with metadata, keys and introspection."""

    def __init__(self, key):
        self.key = key
        self.active = {}
        self.is_away = False

    async def start(self, server):
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.metadata)
        app.router.add_get("/jwks", self.jwks)
        app.router.add_post("/introspect", self.introspect)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = "http://127.0.0.1:%d" % runner.addresses[0][1]
        return runner

    async def metadata(self, request):
        if self.is_away:
            return web.Response(status=503)
        return web.json_response(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/jwks",
                "introspection_endpoint": f"{self.url}/introspect",
            }
        )

    async def jwks(self, request):
        return web.json_response(jwks(self.key))

    async def introspect(self, request):
        found = self.active.get((await request.post())["token"])
        return web.json_response({"active": True} | found if found else {"active": False})


@pytest.fixture
async def issuer(key):
    issuer = Issuer(key)
    runner = await issuer.start(None)
    yield issuer
    await runner.cleanup()


async def test_openid_connect_finds_the_keys_by_discovery(connect, key, issuer):
    """The card names the provider; its keys are asked for when a token comes (AUT-6)."""
    async with connect(hr(OIDC(issuer.url, audience="hr"))) as client:
        mia = bearer(token(key, iss=issuer.url))
        assert text_of((await client.send("x", headers=mia))["task"]).endswith("by oidc")
        assert (await client.card())["securitySchemes"]["oidc"]["openIdConnectSecurityScheme"] == {
            "openIdConnectUrl": f"{issuer.url}/.well-known/openid-configuration"
        }


async def test_an_issuer_that_is_away_is_no_fault_of_the_caller(connect, key, issuer):
    """503 with Retry-After, and no failed login."""
    issuer.is_away = True
    async with connect(hr(OIDC(issuer.url, audience="hr"))) as client:
        refused = await refusal_of(client.list(headers=bearer(token(key, iss=issuer.url))))
        assert refused.reason == "UNAVAILABLE"
        assert int(refused.headers["retry-after"]) > 0


async def test_oauth_tokens_are_introspected(connect, key, issuer):
    """The issuer is asked about each (RFC 7662); the card says how to get one (AUT-6)."""
    auth = OAuth2(
        issuer.url,
        audience="hr",
        token_url=f"{issuer.url}/token",
        client_id="us",
        client_secret="secret",
        offers={"hr.read": "Read"},
    )
    issuer.active["opaque"] = {"sub": "mia", "aud": "hr", "scope": "hr.write"}
    async with connect(hr(auth)) as client:
        task = (await client.send("x", headers=bearer("opaque")))["task"]
        assert text_of(task) == "/mia ['hr.write'] by oauth2"
        assert status_of(await refusal_of(client.list(headers=bearer("other")))) == 401
        card = await client.card()
        scheme = card["securitySchemes"]["oauth2"]["oauth2SecurityScheme"]
        assert scheme["flows"]["clientCredentials"] == {
            "tokenUrl": f"{issuer.url}/token",
            "scopes": {"hr.read": "Read", "hr.write": ""},
        }


@pytest.mark.parametrize(
    ("urls", "flow"),
    [
        ({"authorization_url": "https://id.example/auth"}, "authorizationCode"),
        ({"device_authorization_url": "https://id.example/device"}, "deviceCode"),
    ],
)
async def test_the_card_names_one_flow(connect_rpc, urls, flow):
    auth = OAuth2(ISSUER, audience="hr", token_url="https://id.example/token", **urls)
    async with connect_rpc(hr(auth)) as client:
        scheme = (await client.card())["securitySchemes"]["oauth2"]["oauth2SecurityScheme"]
        assert list(scheme["flows"]) == [flow]


async def test_tokens_are_not_counted_as_failed_logins(connect_rpc, key):
    """A hundred callers behind one proxy whose tokens expire must not shut each other out."""
    async with connect_rpc(hr(ours(key))) as client:
        for n in range(15):
            old = bearer(token(key, exp=1, jti=str(n)))
            assert (await refusal_of(client.list(headers=old))).status == 401
        assert (await client.list(headers=bearer(token(key))))["totalSize"] == 0


async def test_a_card_may_be_for_callers_only(connect_http, key):
    """The well-known addresses answer 401, and the old versions' too."""
    async with connect_http(hr(ours(key), card="authenticated")) as client:
        for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
            async with client.http.get(client.url + path) as response:
                assert response.status == 401
                assert "HR" not in await response.text()
            async with client.http.get(client.url + path, headers=bearer(token(key))) as response:
                assert (await response.json())["name"] == "HR"
