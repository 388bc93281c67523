"""Agents that are open to all, and give more to those who log in."""

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from grpc.aio import AioRpcError
from multidict import CIMultiDict

from accord import Agent, connect
from accord.auth import ANONYMOUS, Anyone, ApiKeys, Caller, Credentials, scheme
from accord.model import (
    AgentSkill,
    HTTPAuthSecurityScheme,
    Limits,
    SecurityScheme,
    TaskNotFound,
    Unauthenticated,
)
from tests.auth.test_extended_card import MIA, WAYS, seen
from tests.drive import PATIENCE_S

SESSION = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Session"))


@scheme(SESSION, name="session")
async def session(request: Credentials) -> Caller | None:
    shown = request.header("authorization").partition(" ")[2]
    return {"trial": ANONYMOUS, "mia": Caller("mia")}.get(shown)


def shop(auth=None) -> Agent:
    agent = Agent("Shop", auth=auth or (ApiKeys(keys={MIA["X-API-Key"]: "mia"}) | Anyone()))

    @agent.skill
    async def buy(text: str, caller: Caller) -> str:
        return f"{caller.name or 'somebody'} bought {text}"

    @agent.skill(scopes=["refund"])
    async def refund(text: str) -> str:
        return text

    @agent.extended_card
    async def extended(card, caller):
        card.description = f"Shop for {caller.name}"
        card.skills.append(AgentSkill("credit", "Credit", "Pay later", ["credit"]))
        return card

    return agent


@pytest.mark.parametrize("way", WAYS)
async def test_the_extended_card_is_for_those_who_log_in(connect_rpc, way):
    """Though all may call (A2A 1.0, section 13.3): it asks, and says how."""
    ask, where, version = WAYS[way]
    async with connect_rpc(shop()) as client:
        status, card = await ask(client, where, version, MIA)
        assert (status, seen(card)[0]) == (200, "Shop for mia")
        for headers in ({}, {"X-API-Key": "wrong"}, {"Authorization": "Basic eDp5"}):
            status, answer = await ask(client, where, version, headers)
            assert status == 401
            assert "credit" not in str(answer)
        public = await client.card()
        assert seen(public) == ("Shop", ["buy", "refund"])
        assert public["capabilities"]["extendedAgentCard"] is True
        assert public["securityRequirements"] == [{"schemes": {"apiKey": {}}}, {}]
        assert list(public["securitySchemes"]) == ["apiKey"]


async def test_the_extended_card_is_for_those_who_log_in_over_grpc(connect_grpc):
    ask = pb.GetExtendedAgentCardRequest()
    async with connect_grpc(shop()) as client:
        stub = A2AServiceStub(client.channel)
        mia = [("x-api-key", MIA["X-API-Key"])]
        card = await stub.GetExtendedAgentCard(ask, metadata=mia, timeout=PATIENCE_S)
        assert card.description == "Shop for mia"
        with pytest.raises(AioRpcError) as caught:
            await stub.GetExtendedAgentCard(ask, timeout=PATIENCE_S)
        assert caught.value.code().name == "UNAUTHENTICATED"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_who_shows_nothing_calls_as_nobody(binding):
    """And finds none of the tasks of those who log in, nor they of theirs."""
    app = shop().app(grpc_port=0)
    async with (
        app.serving() as url,
        connect(url, binding=binding) as nobody,
        connect(url, binding=binding, auth=MIA["X-API-Key"]) as mia,
    ):
        open_ = await nobody.send("bread")
        hers = await mia.send("cake")
        assert (open_.text, hers.text) == ("somebody bought bread", "mia bought cake")
        for client, task in ((nobody, hers.task), (mia, open_.task)):
            with pytest.raises(TaskNotFound):
                await client.get(task.id)


async def test_wrong_credentials_are_refused(connect_rpc):
    """Whoever shows some means to be somebody: they must not be taken for nobody."""
    sent = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "bread"}]}}
    async with connect_rpc(shop()) as client:
        for headers, status in (
            ({}, 200),
            (MIA, 200),
            ({"X-API-Key": "wrong"}, 401),
            ({"Authorization": "Bearer x"}, 401),
            ({"Cookie": "theme=dark"}, 200),
        ):
            path, named = f"{client.url}/message:send", {"A2A-Version": "1.0"} | headers
            async with client.http.post(path, json=sent, headers=named) as answer:
                assert answer.status == status, headers


async def test_a_skill_that_needs_a_scope_asks_who_shows_nothing_to_log_in():
    async with shop().app().serving() as url, connect(url) as client:
        with pytest.raises(Unauthenticated, match="refund"):
            await client.send("bread", skill="refund")


async def test_a_scheme_may_let_somebody_in_as_nobody():
    """A function that returns ANONYMOUS: a trial, a token of a device."""
    async with shop(session).app().serving() as url:
        for shown, name in (("trial", "somebody"), ("mia", "mia")):
            headers = {"Authorization": f"Session {shown}"}
            async with connect(url, headers=headers) as client:
                assert (await client.send("bread")).text == f"{name} bought bread"
                if shown == "trial":
                    with pytest.raises(Unauthenticated):
                        await client.extended_card()
                else:
                    assert (await client.extended_card()).description == "Shop for mia"
        async with connect(url, headers={"Authorization": "Session evil"}) as client:
            with pytest.raises(Unauthenticated):
                await client.send("bread")


async def test_calls_of_nobody_are_limited_by_address(connect_rpc):
    """Those who log in are not held up by them."""
    few = Limits(calls_per_s=0.001, calls_burst=2)
    sent = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "bread"}]}}
    async with connect_rpc(shop(), limits=few) as client:
        found = []
        for headers in ({}, {}, {}, MIA):
            path, named = f"{client.url}/message:send", {"A2A-Version": "1.0"} | headers
            async with client.http.post(path, json=sent, headers=named) as answer:
                found.append(answer.status)
    assert found == [200, 200, 429, 200]


@pytest.mark.parametrize("way", WAYS)
async def test_a_name_for_those_who_show_nothing_gets_no_extended_card(connect_rpc, way):
    """They are called guests, and have shown nothing all the same."""
    ask, where, version = WAYS[way]
    guests = ApiKeys(keys={MIA["X-API-Key"]: "mia"}) | Anyone(caller=Caller("guest"))
    async with connect_rpc(shop(guests)) as client:
        status, answer = await ask(client, where, version, {})
        assert (status, "credit" in str(answer)) == (401, False)
        assert (await ask(client, where, version, MIA))[0] == 200


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
async def test_credentials_sent_twice_are_refused(connect_rpc, name):
    """Also where no scheme here reads them: they are shown, and nobody knows which count."""
    sent = {"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "bread"}]}}
    headers = CIMultiDict([("A2A-Version", "1.0"), (name, "Bearer a"), (name, "Bearer b")])
    async with connect_rpc(shop()) as client:
        path = f"{client.url}/message:send"
        async with client.http.post(path, json=sent, headers=headers) as answer:
            assert answer.status == 401


async def test_credentials_sent_twice_are_refused_over_grpc(connect_grpc):
    twice = [("authorization", "Bearer a"), ("authorization", "Bearer b")]
    async with connect_grpc(shop()) as client:
        stub = A2AServiceStub(client.channel)
        with pytest.raises(AioRpcError) as caught:
            await stub.ListTasks(pb.ListTasksRequest(), metadata=twice, timeout=PATIENCE_S)
        assert caught.value.code().name == "UNAUTHENTICATED"


async def test_the_card_says_that_scopes_are_not_for_those_who_show_nothing(connect_rpc):
    async with connect_rpc(shop()) as client:
        skills = {skill["id"]: skill for skill in (await client.card())["skills"]}
        assert "securityRequirements" not in skills["buy"]
        needed = [{"schemes": {"apiKey": {"list": ["refund"]}}}]
        assert skills["refund"]["securityRequirements"] == needed


def test_what_makes_no_sense_is_refused():
    """An agent whose auth authenticates nobody would look protected."""
    with pytest.raises(ValueError, match="Anyone"):
        ApiKeys() & Anyone()
    agent = Agent("Open", auth=Anyone())

    @agent.skill
    async def say(text: str) -> str:
        return text

    with pytest.raises(ValueError, match="authenticates nobody"):
        agent.app()
