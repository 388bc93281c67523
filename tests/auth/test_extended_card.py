"""The extended card: for authenticated callers, in every version's way."""

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub as OldStub
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from accord import Agent
from accord.auth import ApiKeys
from accord.model import AgentSkill
from tests.drive import PATIENCE_S

MIA = {"X-API-Key": "the-key-of-mia-0123456789"}
BOB = {"X-API-Key": "the-key-of-bob-0123456789"}


def shop():
    auth = ApiKeys(keys={MIA["X-API-Key"]: "mia", BOB["X-API-Key"]: "bob"})
    agent = Agent("Shop", auth=auth)

    @agent.skill
    async def buy(text: str) -> str:
        return text

    @agent.extended_card
    async def extend(card, caller):
        card.description = f"Shop for {caller.name}"
        if caller.name == "mia":
            card.skills.append(AgentSkill("refund", "Refund", "Give money back", ["refund"]))
        return card

    return agent


def seen(card):
    return card["description"], [skill["id"] for skill in card["skills"]]


EXTENDED = ("Shop for mia", ["buy", "refund"])


async def rpc(client, method, version, headers):
    envelope = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    named = {"A2A-Version": version} | headers
    async with client.http.post(client.url + "/", json=envelope, headers=named) as response:
        return response.status, (await response.json()).get("result")


async def get(client, path, version, headers):
    named = {"A2A-Version": version} | headers
    async with client.http.get(client.url + path, headers=named) as response:
        return response.status, await response.json(content_type=None)


WAYS = {
    "1.0 JSON-RPC": (rpc, "GetExtendedAgentCard", "1.0"),
    "0.3 JSON-RPC": (rpc, "agent/getAuthenticatedExtendedCard", "0.3"),
    "1.0 HTTP+JSON": (get, "/extendedAgentCard", "1.0"),
    "0.3 HTTP+JSON": (get, "/v1/card", "0.3"),
    "0.2 HTTP": (get, "/agent/authenticatedExtendedCard", "0.2"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_each_caller_gets_its_own(connect_rpc, way):
    """By name of the caller, and never without one (XCD-1, XCD-2, XCD-3)."""
    ask, where, version = WAYS[way]
    async with connect_rpc(shop()) as client:
        status, card = await ask(client, where, version, MIA)
        assert (status, seen(card)) == (200, EXTENDED)
        status, card = await ask(client, where, version, BOB)
        assert (status, seen(card)) == (200, ("Shop for bob", ["buy"]))
        for headers in ({}, {"X-API-Key": "wrong"}):
            status, answer = await ask(client, where, version, headers)
            assert status == 401
            assert "refund" not in str(answer)
        public = await client.card()
        assert seen(public) == ("Shop", ["buy"])
        assert public["capabilities"]["extendedAgentCard"] is True
        assert public["supportsAuthenticatedExtendedCard"] is True


async def test_over_grpc_too(connect_grpc):
    """1.0's own call; in 0.3 GetAgentCard gives who is authenticated the extended card, and all
    others the public one (XCD-1).
    """
    mia = [("x-api-key", MIA["X-API-Key"])]
    async with connect_grpc(shop()) as client:
        card = await A2AServiceStub(client.channel).GetExtendedAgentCard(
            pb.GetExtendedAgentCardRequest(), metadata=mia, timeout=PATIENCE_S
        )
        assert (card.description, [s.id for s in card.skills]) == EXTENDED
        stub = OldStub(client.channel)
        ask = old.GetAgentCardRequest()
        card = await stub.GetAgentCard(ask, metadata=mia, timeout=PATIENCE_S)
        assert (card.description, [s.id for s in card.skills]) == EXTENDED
        card = await stub.GetAgentCard(ask, timeout=PATIENCE_S)
        assert (card.description, [s.id for s in card.skills]) == ("Shop", ["buy"])


def test_it_needs_authentication():
    """Deny by default: an agent without auth has none (XCD-1)."""
    agent = Agent("Open")
    with pytest.raises(ValueError, match="authenticated callers only"):
        agent.extended_card(lambda card, caller: None)


@pytest.mark.parametrize(("given", "text"), [
    ({"auth": 7}, "auth is a int"),
    ({"auth": lambda request: None}, "which security scheme"),
    ({"card": "hidden"}, "public"),
    ({"card": "authenticated"}, "needs auth="),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_at_once(given, text):
    with pytest.raises((TypeError, ValueError), match=text):
        Agent("HR", **given)


def test_scopes_without_auth_do_not_start():
    agent = Agent("HR")

    @agent.skill(scopes=["x"])
    async def hire(text: str) -> str:
        return text

    with pytest.raises(ValueError, match="has no auth="):
        agent.app()


def test_two_schemes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="give one of them name="):
        ApiKeys() | ApiKeys(header="Other")
