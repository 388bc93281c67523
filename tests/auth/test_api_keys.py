"""API keys, from the declaration to the skill, over every binding."""

import asyncio
from typing import Any

import pytest

from accord import Agent, Caller, Context
from accord.auth import ApiKeys, Basic, digest_of, hash_password, new_api_key
from accord.model import now_ms
from accord.store import StoredApiKey, open_store
from tests.drive import Refused, refusal_of, say, state_of, text_of

GRPC = {16: 401, 7: 403, 8: 429}


def status_of(refused):
    """The status of HTTP, also for what gRPC calls otherwise."""
    return GRPC.get(refused.status, refused.status)


class Keys:
    """Makes keys in a store."""

    def __init__(self, store):
        self.store = store

    async def new(self, name="mia", **more):
        id_, text = new_api_key()
        await self.store.keys.add(StoredApiKey(id_, name, digest_of(text), now_ms(), **more))
        return id_, {"X-API-Key": text}


@pytest.fixture
def keys():
    return Keys(open_store("memory://"))


def hr(auth=None):
    agent = Agent("HR", auth=auth or ApiKeys())

    @agent.skill
    async def ask(text: str, caller: Caller) -> str:
        return f"{caller.tenant}/{caller.name} {sorted(caller.scopes)} by {caller.scheme}"

    @agent.skill(scopes=["hr.write"])
    async def hire(text: str, ctx: Context) -> str:
        if text == "who":
            return f"{await ctx.ask('Whom?')} hired"
        return f"{text} hired by {ctx.caller.name}"

    return agent


async def test_a_key_names_its_caller(connect, keys):
    """The skill learns who calls, of which tenant and with which scopes (AUT-4)."""
    _, mia = await keys.new(tenant="acme", scopes=("a", "b"))
    async with connect(hr(), store=keys.store) as client:
        task = (await client.send("hello", headers=mia))["task"]
        assert text_of(task) == "acme/mia ['a', 'b'] by apiKey"


async def test_without_a_valid_key_nothing_is_done(connect, keys):
    """No key, a wrong one, one of another agent, a revoked and an expired one: 401, each the same
    (AUT-4, GEN-3).
    """
    revoked, gone = await keys.new()
    await keys.store.keys.revoke(revoked, now_ms())
    _, old = await keys.new(expires_ms=now_ms() - 1)
    id_, good = await keys.new()
    forged = {"X-API-Key": f"accord_{id_}_{'0' * 48}"}
    async with connect(hr(), store=keys.store) as client:
        none = await refusal_of(client.send("hello"))
        assert (status_of(none), none.reason) == (401, "UNAUTHENTICATED")
        texts = set()
        for headers in (gone, old, forged, {"X-API-Key": "guess"}, {"X-API-Key": "accord__"}):
            refused = await refusal_of(client.send("hello", headers=headers))
            assert (status_of(refused), refused.reason) == (401, "UNAUTHENTICATED")
            texts.add(refused.message)
        assert texts == {"the credentials are not valid"}
        assert (await client.list(headers=good))["totalSize"] == 0


async def test_a_revoked_key_is_refused_soon(connect, keys):
    """Revocation needs no restart; within a second or so."""
    id_, mia = await keys.new()
    async with connect(hr(), store=keys.store) as client:
        await client.send("hello", headers=mia)
        await keys.store.keys.revoke(id_, now_ms())

        async def status():
            try:
                await client.list(headers=mia)
            except Refused as refused:
                return status_of(refused)

        async with asyncio.timeout(10):
            while await status() is None:  # noqa: ASYNC110  nothing tells when it is noticed
                await asyncio.sleep(0.05)
        assert await status() == 401


async def test_a_skill_may_need_a_scope(connect, keys):
    """403 names the scope; the card says which skill needs it (GEN-4, AUT-5)."""
    _, mia = await keys.new()
    _, ada = await keys.new("ada", scopes=("hr.write",))
    hire: dict[str, Any] = {"metadata": {"skill": "hire"}}
    async with connect(hr(), store=keys.store) as client:
        refused = await refusal_of(client.send(say("Bob", **hire), headers=mia))
        assert (status_of(refused), refused.reason) == (403, "PERMISSION_DENIED")
        assert refused.detail["scope"] == "hr.write"
        done = (await client.send(say("Bob", **hire), headers=ada))["task"]
        assert text_of(done) == "Bob hired by ada"
        card = await client.card()
        assert card["securitySchemes"]["apiKey"]["apiKeySecurityScheme"] == {
            "location": "header",
            "name": "X-API-Key",
        }
        assert card["securityRequirements"] == [{"schemes": {"apiKey": {}}}]
        assert [s.get("securityRequirements") for s in card["skills"]] == [
            None,
            [{"schemes": {"apiKey": {"list": ["hr.write"]}}}],
        ]


async def test_a_message_to_a_task_needs_the_scope_of_its_skill(connect, keys):
    """A caller who has lost a scope can't go on with what it began by that (AUT-5)."""
    _, strong = await keys.new(scopes=("hr.write",))
    _, weak = await keys.new()
    async with connect(hr(), store=keys.store) as client:
        asked = say("who", metadata={"skill": "hire"})
        task = (await client.send(asked, headers=strong))["task"]
        answer = say("Bob", taskId=task["id"])
        assert status_of(await refusal_of(client.send(answer, headers=weak))) == 403
        done = (await client.send(say("Bob", taskId=task["id"]), headers=strong))["task"]
        assert text_of(done) == "Bob hired"


async def test_another_caller_finds_nothing(connect, keys):
    """What is another's can't be told from what is not there (GEN-5, AZN-1, AZN-2)."""
    _, mia = await keys.new()
    _, bob = await keys.new("bob")
    async with connect(hr(), store=keys.store) as client:
        task = (await client.send("hello", headers=mia))["task"]
        assert state_of(await client.get(task["id"], headers=mia)) == "completed"
        for ask in (client.get, client.cancel, client.subscribe):
            hidden = await refusal_of(ask(task["id"], headers=bob))
            missing = await refusal_of(ask("never", headers=bob))
            assert hidden.message.replace(task["id"], "never") == missing.message
            assert (hidden.status, hidden.reason) == (missing.status, missing.reason)
        assert (await client.list(headers=bob))["totalSize"] == 0


async def test_the_same_name_in_two_tenants_is_two_callers(connect, keys):
    """And credentials of one tenant are refused in another (TEN-5)."""
    _, acme = await keys.new(tenant="acme")
    _, none = await keys.new()
    async with connect(hr(), store=keys.store) as client:
        task = (await client.send("hello", headers=acme))["task"]
        assert (await client.get(task["id"], headers=acme, tenant="acme"))["id"] == task["id"]
        for tenant in ("acme", "other", ""):
            hidden = await refusal_of(client.get(task["id"], headers=none, tenant=tenant))
            assert hidden.reason == "TASK_NOT_FOUND"
        refused = await refusal_of(client.get(task["id"], headers=acme, tenant="other"))
        assert (status_of(refused), refused.reason) == (403, "PERMISSION_DENIED")


async def test_a_key_may_be_in_the_query_or_a_cookie(connect_http, keys):
    """The card says where (AUT-6)."""
    _, mia = await keys.new()
    for auth, path, headers in (
        (ApiKeys(query="key"), f"/tasks?key={mia['X-API-Key']}", {}),
        (ApiKeys(cookie="key"), "/tasks", {"Cookie": f"a=b; key={mia['X-API-Key']}"}),
        (ApiKeys(cookie="key"), "/tasks", {"Cookie": f'a={{"b":1}}; key="{mia["X-API-Key"]}"'}),
    ):
        async with connect_http(hr(auth), store=keys.store) as client:
            headers = {"A2A-Version": "1.0"} | headers
            async with client.http.get(client.url + path, headers=headers) as response:
                assert response.status == 200, await response.text()
            async with client.http.get(client.url + "/tasks") as response:
                assert response.status == 401
            scheme = (await client.card())["securitySchemes"]["apiKey"]
            assert scheme["in"] == auth.location


async def test_keys_may_be_given_to_the_agent(connect):
    """From a secret store, where nothing is to be kept beside the tasks."""
    auth = ApiKeys(keys={"a-key-of-sixteen-letters": Caller("ci", scopes=frozenset(["x"]))})
    async with connect(hr(auth)) as client:
        headers = {"X-API-Key": "a-key-of-sixteen-letters"}
        task = (await client.send("hello", headers=headers))["task"]
        assert text_of(task) == "/ci ['x'] by apiKey"


def test_a_short_key_is_no_key():
    with pytest.raises(ValueError, match="can be guessed"):
        ApiKeys(keys={"short": "ci"})


async def test_a_key_sent_twice_is_refused(connect_http, keys):
    """A proxy might look at the one and we at the other."""
    _, mia = await keys.new()
    async with connect_http(hr(), store=keys.store) as client:
        pairs = [("X-API-Key", "other"), ("X-API-Key", mia["X-API-Key"])]
        async with client.http.get(client.url + "/tasks", headers=pairs) as response:
            assert response.status == 401


async def test_the_last_use_of_a_key_is_noted(connect_rpc, keys):
    """To a minute: writing it with every call would cost a commit."""
    id_, mia = await keys.new()
    before = now_ms()
    async with connect_rpc(hr(), store=keys.store) as client:
        await client.send("hello", headers=mia)
    assert (await keys.store.keys.find(id_)).used_ms >= before


async def test_the_caller_survives_a_restart_with_its_task(connect, lasting):
    """All of it: name, tenant, scopes and scheme are in the log."""
    agent = Agent("HR", auth=ApiKeys())
    seen, again = [], asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, caller: Caller, ctx: Context) -> str:
        seen.append((caller, ctx.extensions))
        again.set()
        return await ctx.ask("Go on?")

    keys = Keys(open_store(lasting))
    await keys.store.keys.prepare()
    _, mia = await keys.new(tenant="acme", scopes=("a", "b"))
    active = mia | {"A2A-Extensions": "urn:accord:resume:1, urn:other"}
    async with connect(agent, store=lasting) as client:
        task = (await client.send("hello", headers=active))["task"]
    async with connect(agent, store=lasting) as client:
        await client.send(say("yes", taskId=task["id"]), headers=mia)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0] == (
        Caller("mia", "acme", frozenset("ab"), {}, "apiKey"),
        frozenset(["urn:accord:resume:1"]),
    )


async def test_failed_logins_are_slowed_down(connect, keys):
    """After ten in a minute from one address: 429, which says what and when; who was let in before
    still is.
    """
    _, mia = await keys.new()
    async with connect(hr(), store=keys.store) as client:
        await client.send("hello", headers=mia)
        for _ in range(10):
            assert status_of(await refusal_of(client.list(headers={"X-API-Key": "guess"}))) == 401
        refused = await refusal_of(client.list(headers={"X-API-Key": "guess"}))
        assert (status_of(refused), refused.detail["limit"]) == (429, "failed_logins")
        assert int(refused.headers["retry-after"]) > 0
        assert (await client.list(headers=mia))["totalSize"] == 1


@pytest.mark.parametrize("word", ["swordfish", hash_password("swordfish")], ids=["plain", "hashed"])
async def test_basic(connect, word):
    """A name and a password, plain or hashed in the source (AUT-6)."""
    async with connect(hr(Basic({"ada": word}, grants={"ada": ["x"]}))) as client:
        right = {"Authorization": "Basic YWRhOnN3b3JkZmlzaA=="}
        task = (await client.send("hello", headers=right))["task"]
        assert text_of(task) == "/ada ['x'] by basic"
        for wrong in ("Basic YWRhOndyb25n", "Basic bm9ib2R5Ong=", "Basic ???", "Bearer x"):
            refused = await refusal_of(client.send("hello", headers={"Authorization": wrong}))
            assert status_of(refused) == 401


async def test_one_of_two_schemes_is_enough_and_two_may_be_needed(connect):
    """The card's OR of ANDs is what is enforced (AUT-6)."""
    key = ApiKeys(keys={"a-key-of-sixteen-letters": Caller("k", scopes=frozenset(["k"]))})
    word = Basic({"ada": "swordfish"}, grants={"ada": ["b"]})
    with_key = {"X-API-Key": "a-key-of-sixteen-letters"}
    with_word = {"Authorization": "Basic YWRhOnN3b3JkZmlzaA=="}
    async with connect(hr(key | word)) as client:
        for headers, name in ((with_key, "k"), (with_word, "ada")):
            task = (await client.send("hello", headers=headers))["task"]
            assert text_of(task).startswith(f"/{name} ")
        assert (await client.card())["securityRequirements"] == [
            {"schemes": {"apiKey": {}}},
            {"schemes": {"basic": {}}},
        ]
    async with connect(hr(word & key)) as client:
        for headers in (with_key, with_word):
            assert status_of(await refusal_of(client.send("hello", headers=headers))) == 401
        task = (await client.send("hello", headers=with_key | with_word))["task"]
        assert text_of(task) == "/ada ['b', 'k'] by basic"
        assert (await client.card())["securityRequirements"] == [
            {"schemes": {"basic": {}, "apiKey": {}}}
        ]
