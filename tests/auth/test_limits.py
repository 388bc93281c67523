"""What one caller may ask for, and own functions as schemes."""

import asyncio
import base64

import pytest

from accord import Agent, Caller, Limits
from accord.auth import ApiKeys, Authenticator, Basic, Credentials, scheme
from accord.auth.forwarded import TrustedProxies
from accord.model import (
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    OpenIdConnectSecurityScheme,
    SecurityScheme,
    TooManyRequests,
    Unauthenticated,
)
from accord.operations import quota
from tests.auth.test_api_keys import status_of
from tests.drive import refusal_of, state_of, text_of

MIA = {"X-API-Key": "the-key-of-mia-0123456789"}
BOB = {"X-API-Key": "the-key-of-bob-0123456789"}
# A password is slow to check: on a busy machine ten of them take long enough for one guess more.
ONE_A_MINUTE = Limits(failed_logins=1)


def agent_of(skill):
    keys = {MIA["X-API-Key"]: "mia", BOB["X-API-Key"]: "bob"}
    agent = Agent("HR", auth=ApiKeys(keys=keys))
    agent.skill(skill)
    return agent


async def echo(text: str) -> str:
    return text


async def test_calls_of_one_caller_are_limited(connect):
    """429, with the limit's name and when to come back; others are not harmed."""
    limits = Limits(calls_per_s=0.01, calls_burst=3)
    async with connect(agent_of(echo), limits=limits) as client:
        for _ in range(3):
            await client.list(headers=MIA)
        refused = await refusal_of(client.list(headers=MIA))
        assert (status_of(refused), refused.detail["limit"]) == (429, "calls_per_s")
        assert 0 < int(refused.headers["retry-after"]) <= 100
        assert (await client.list(headers=BOB))["totalSize"] == 0


async def test_running_tasks_of_one_caller_are_limited(connect):
    gate = asyncio.Event()

    async def slow(text: str) -> str:
        await gate.wait()
        return text

    at_once = {"returnImmediately": True}
    async with connect(agent_of(slow), limits=Limits(tasks_per_caller=2)) as client:
        message = {"role": "ROLE_USER", "parts": [{"text": "x"}]}
        for n in range(2):
            said = {"message": message | {"messageId": f"m{n}"}, "configuration": at_once}
            await client.send(said, headers=MIA)
        said = {"message": message | {"messageId": "m3"}, "configuration": at_once}
        refused = await refusal_of(client.send(said, headers=MIA))
        assert (status_of(refused), refused.detail["limit"]) == (429, "tasks_per_caller")
        await client.send(said, headers=BOB)
        gate.set()


async def test_streams_of_one_caller_are_limited(connect):
    gate = asyncio.Event()

    async def slow(text: str) -> str:
        await gate.wait()
        return text

    async with connect(agent_of(slow), limits=Limits(streams_per_caller=1)) as client:
        stream = await client.stream("x", headers=MIA)
        await stream.take(2)
        refused = await refusal_of(client.stream("x", headers=MIA))
        assert (status_of(refused), refused.detail["limit"]) == (429, "streams_per_caller")
        assert int(refused.headers["retry-after"]) > 0
        other = await client.stream("x", headers=BOB)
        gate.set()
        await stream.rest()
        await other.rest()


async def test_what_is_stored_for_one_caller_is_limited(connect, store, monkeypatch):
    """429 for more messages; what is there can still be read, and others are not harmed."""
    monkeypatch.setattr(quota, "LOOK_S", 0.0)
    limits = Limits(stored_per_caller=10_000)
    async with connect(agent_of(echo), limits=limits, store=store) as client:
        sent = (await client.send("x" * 10_000, headers=MIA))["task"]
        refused = await refusal_of(client.send("x", headers=MIA))
        assert (status_of(refused), refused.detail["limit"]) == (429, "stored_per_caller")
        assert int(refused.headers["retry-after"]) > 0
        assert (await client.get(sent["id"], headers=MIA))["id"] == sent["id"]
        assert state_of((await client.send("x", headers=BOB))["task"]) == "completed"


async def test_a_function_of_ones_own(connect):
    """It declares its scheme, is asked for every request, and says who calls."""
    card = SecurityScheme(
        api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Session")
    )

    @scheme(card, name="session")
    async def session(request: Credentials) -> Caller | None:
        found = request.header("X-Session")
        return Caller(found, scopes=frozenset(["x"])) if found.startswith("user-") else None

    agent = Agent("HR", auth=session)

    @agent.skill(scopes=["x"])
    async def who(text: str, caller: Caller) -> str:
        return f"{caller.name} by {caller.scheme}"

    async with connect(agent) as client:
        task = (await client.send("x", headers={"X-Session": "user-7"}))["task"]
        assert text_of(task) == "user-7 by session"
        for headers in ({}, {"X-Session": "other"}):
            assert status_of(await refusal_of(client.send("x", headers=headers))) == 401
        assert (await client.card())["securitySchemes"]["session"]["name"] == "X-Session"


async def test_a_function_that_fails_lets_nobody_in(connect):
    """An opaque error, with the reason in the log only."""
    card = SecurityScheme(
        api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Session")
    )

    @scheme(card)
    async def broken(request: Credentials) -> Caller | None:
        raise RuntimeError("the password of the database is swordfish")

    agent = Agent("HR", auth=broken)
    agent.skill(echo)
    async with connect(agent) as client:
        refused = await refusal_of(client.send("x", headers={"X-Session": "7"}))
        assert "Reference" in refused.message
        assert "swordfish" not in str(refused.error)


def shown(address="192.0.2.1", *, query=b"", **headers):
    pairs = [(name.replace("_", "-").encode(), word.encode()) for name, word in headers.items()]
    return Credentials(dict(pairs), pairs, query, lambda: (address, None))


async def outcome_of(authenticator, **given):
    try:
        return (await authenticator.authenticate(shown(**given))).name
    except (Unauthenticated, TooManyRequests) as error:
        return type(error)


PASSWORDS = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Basic"))


def basic(user, word):
    return "Basic " + base64.b64encode(f"{user}:{word}".encode()).decode()


async def test_guesses_at_once_are_limited_as_those_one_by_one_are():
    """Logins under way count too; good ones wait for each other and are not refused."""
    tried = []

    @scheme(PASSWORDS)
    async def passwords(request: Credentials) -> Caller | None:
        word = request.header("authorization")
        tried.append(word)
        await asyncio.sleep(0)  # lets the others come
        return Caller("mia") if word == basic("mia", "good") else None

    authenticator = Authenticator(passwords, "HR", Limits())
    good = [outcome_of(authenticator, authorization=basic("mia", "good")) for _ in range(100)]
    assert set(await asyncio.gather(*good)) == {"mia"}
    tried.clear()
    authenticator = Authenticator(passwords, "HR", Limits())
    guesses = [outcome_of(authenticator, authorization=basic("mia", n)) for n in range(100)]
    found = await asyncio.gather(*guesses)
    assert set(found) == {Unauthenticated, TooManyRequests}
    assert len(tried) == found.count(Unauthenticated) < 50  # 10, and one more each 6 s


async def test_a_login_by_a_function_of_ones_own_does_not_end_the_limit():
    """Only the function knows which requests show the same credentials, so none is exempt."""

    @scheme(PASSWORDS)
    async def passwords(request: Credentials) -> Caller | None:
        return Caller("mia") if request.header("authorization") == basic("mia", "good") else None

    authenticator = Authenticator(passwords, "HR", Limits())
    assert await outcome_of(authenticator, authorization=basic("mia", "good")) == "mia"
    found = [await outcome_of(authenticator, authorization=basic("mia", n)) for n in range(50)]
    assert TooManyRequests in found


async def test_a_login_that_is_given_up_makes_room():
    """Also one that waits, and one whose turn it was."""
    gate = asyncio.Event()

    @scheme(PASSWORDS)
    async def passwords(request: Credentials) -> Caller | None:
        await gate.wait()
        return Caller("mia")

    authenticator = Authenticator(passwords, "HR", Limits(failed_logins=1))
    mia = basic("mia", "x")
    logins = [asyncio.create_task(outcome_of(authenticator, authorization=mia)) for _ in range(4)]
    await asyncio.sleep(0)  # one is under way, the others wait
    logins[1].cancel()
    logins[0].cancel()
    await asyncio.sleep(0)
    logins[2].cancel()  # its turn has come, and it does not know yet
    gate.set()
    assert await asyncio.wait_for(logins[3], 30) == "mia"
    await asyncio.wait(logins)


async def test_a_right_key_is_let_in_whatever_others_at_its_address_do(connect):
    """Else anybody behind the same proxy could shut all others out. Also a key nobody showed
    before.
    """
    async with connect(agent_of(echo)) as client:
        for n in range(30):
            refused = await refusal_of(client.list(headers={"X-API-Key": f"guess-{n}"}))
        assert (status_of(refused), refused.detail["limit"]) == (429, "failed_logins")
        assert (await client.list(headers=MIA))["totalSize"] == 0


async def test_guesses_for_one_user_do_not_shut_out_another(connect):
    """Passwords are limited by name: they can be found by trying."""
    agent = Agent("HR", auth=Basic({"mia": "sesame", "bob": "swordfish"}))
    agent.skill(echo)
    async with connect(agent, limits=ONE_A_MINUTE) as client:
        for n in range(2):
            wrong = {"Authorization": basic("mia", f"guess-{n}")}
            refused = await refusal_of(client.list(headers=wrong))
        assert (status_of(refused), refused.detail["limit"]) == (429, "failed_logins")
        bob = {"Authorization": basic("bob", "swordfish")}
        assert (await client.list(headers=bob))["totalSize"] == 0
        mia = {"Authorization": basic("mia", "sesame")}
        assert status_of(await refusal_of(client.list(headers=mia))) == 429


BEHIND = {
    "header": APIKeySecurityScheme(location="header", name="X-Session"),
    "query": APIKeySecurityScheme(location="query", name="session"),
    "cookie": APIKeySecurityScheme(location="cookie", name="session"),
}
WAYS = {
    **{name: SecurityScheme(api_key_security_scheme=one) for name, one in BEHIND.items()},
    "http": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Session")),
    "oidc": SecurityScheme(
        open_id_connect_security_scheme=OpenIdConnectSecurityScheme("https://id.example")
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_who_shows_nothing_to_a_function_of_ones_own_is_anonymous(way):
    """401, however often, and the function is not asked; what stands elsewhere is nothing to it."""
    asked = []

    @scheme(WAYS[way])
    async def session(request: Credentials) -> Caller | None:
        asked.append(request)
        return None

    authenticator = Authenticator(session, "HR", Limits(failed_logins=2))
    for _ in range(5):
        assert await outcome_of(authenticator, x_other="something") is Unauthenticated
    assert asked == []
    placed = {
        "header": {"x_session": "7"},
        "cookie": {"cookie": "session=7"},
        "http": {"authorization": "session 7"},
        "oidc": {"authorization": "Bearer 7"},
    }
    found = [
        await outcome_of(authenticator, query=b"session=7", **placed.get(way, {})) for _ in range(3)
    ]
    assert found == [Unauthenticated, Unauthenticated, TooManyRequests]
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("headers", "source"),
    [
        ({}, "10.0.0.1"),
        ({"x_forwarded_for": "203.0.113.7"}, "203.0.113.7"),
        ({"x_forwarded_for": "6.6.6.6, 203.0.113.7"}, "203.0.113.7"),
        ({"x_forwarded_for": "6.6.6.6, 203.0.113.7, 10.9.9.9"}, "203.0.113.7"),
        ({"x_forwarded_for": "203.0.113.7:5000"}, "203.0.113.7"),
        ({"x_forwarded_for": "unknown"}, "10.0.0.1"),
        ({"x_forwarded_for": "²,10.9.9.9"}, "10.9.9.9"),
        ({"forwarded": "for=203.0.113.7;proto=https"}, "203.0.113.7"),
        ({"forwarded": 'for=6.6.6.6, For="[2001:db8::1]:4711"'}, "2001:db8::1"),
        ({"forwarded": "for=_hidden"}, "10.0.0.1"),
        ({"forwarded": "for=203.0.113.7", "x_forwarded_for": "203.0.113.7"}, "203.0.113.7"),
        ({"forwarded": "for=6.6.6.6", "x_forwarded_for": "203.0.113.7"}, "10.0.0.1"),
        ({"forwarded": "for=_hidden", "x_forwarded_for": "6.6.6.6"}, "10.0.0.1"),
        ({"forwarded": "for=6.6.6.6", "x_forwarded_for": "unknown"}, "10.0.0.1"),
        ({"x_forwarded_for": "2001:db8::1%7"}, "2001:db8::1"),
    ],
)
def test_a_trusted_proxy_says_where_a_request_comes_from(headers, source):
    """The nearest address that is no trusted proxy: what stands before it anybody can write."""
    assert TrustedProxies(["10.0.0.0/8"]).client_of(shown("10.0.0.1", **headers)) == source


def test_nobody_else_says_where_a_request_comes_from():
    """Else whoever guesses would have a new address for each try."""
    asked = shown("192.0.2.1", x_forwarded_for="203.0.113.7")
    assert TrustedProxies(["10.0.0.0/8"]).client_of(asked) == "192.0.2.1"
    assert TrustedProxies([]).client_of(asked) == "192.0.2.1"
    with pytest.raises(ValueError, match="give its address or network"):
        agent_of(echo).app(trusted_proxies=["proxy.example"])


async def test_names_that_are_made_up_do_not_keep_others_waiting():
    """Each try is looked at for a while: one address has a number of them, whatever the names."""

    @scheme(PASSWORDS)
    async def check(request: Credentials) -> Caller | None:
        asked.append(request)
        return Caller("mia") if request.header("authorization") == right else None

    asked: list[Credentials] = []
    right = basic("mia", "sesame")
    authenticator = Authenticator(check, "HR", Limits(failed_logins=1))
    guesses = [basic(f"user-{n}", "x") for n in range(15)]
    found = [await outcome_of(authenticator, authorization=one) for one in guesses]
    assert found == [Unauthenticated] * 10 + [TooManyRequests] * 5
    assert len(asked) == 10
    elsewhere = {"address": "192.0.2.2", "authorization": right}
    assert await outcome_of(authenticator, **elsewhere) == "mia"


@pytest.mark.parametrize("secret", ["key", "password"])
async def test_one_network_of_ipv6_has_one_count(secret):
    """A customer has 2^64 addresses, and must not have a count for each."""
    auth = ApiKeys(keys={MIA["X-API-Key"]: "mia"}) if secret == "key" else Basic({"mia": "sesame"})
    authenticator = Authenticator(auth, "HR", Limits(failed_logins=2))
    wrong = {"x_api_key": "x"} if secret == "key" else {"authorization": basic("mia", "x")}

    near = [f"2001:db8:0:7::{n:x}" for n in range(1, 4)]
    found = [await outcome_of(authenticator, address=one, **wrong) for one in near]
    assert found == [Unauthenticated, Unauthenticated, TooManyRequests]
    elsewhere = {"address": "2001:db8:0:8::1", **wrong}
    assert await outcome_of(authenticator, **elsewhere) is Unauthenticated


async def test_behind_a_trusted_proxy_each_client_fails_for_itself(connect_rpc):
    """Over a real connection, with a password: one client's guesses are not another's."""
    agent = Agent("HR", auth=Basic({"mia": "sesame"}))
    agent.skill(echo)
    async with connect_rpc(agent, trusted_proxies=["127.0.0.0/8"], limits=ONE_A_MINUTE) as client:
        guess = {"Authorization": basic("mia", "x"), "X-Forwarded-For": "203.0.113.7"}
        for _ in range(2):
            refused = await refusal_of(client.list(headers=guess))
        assert refused.status == 429
        right = {"Authorization": basic("mia", "sesame")}
        there = right | {"X-Forwarded-For": "203.0.113.7"}
        assert (await refusal_of(client.list(headers=there))).status == 429
        here = right | {"X-Forwarded-For": "203.0.113.8"}
        assert (await client.list(headers=here))["totalSize"] == 0
