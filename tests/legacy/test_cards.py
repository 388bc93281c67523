"""One card for all: each version finds in it what it looks for, at the place it looks."""

import pytest

from accord import Agent
from accord.model import (
    AgentCardSignature,
    APIKeySecurityScheme,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from tests.legacy.wire import echo, talking_to

NEW, OLD = "/.well-known/agent-card.json", "/.well-known/agent.json"


def guarded(*signatures: AgentCardSignature) -> Agent:
    agent = Agent("Guarded")
    agent.skill(echo)

    @agent.card
    def guard(card):
        card.security_schemes = {
            "key": SecurityScheme(
                api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Key")
            ),
            "token": SecurityScheme(
                http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer")
            ),
        }
        card.security_requirements = [
            SecurityRequirement(schemes={"key": StringList(items=["read"])})
        ]
        card.signatures = list(signatures)

    return agent


async def test_both_places_hold_the_union_card():
    """0.1 and 0.2 look at agent.json, later versions at agent-card.json. Who says 1.0 gets the 1.0
    card, without the members of the others.
    """
    async with talking_to(echo) as client:
        card = await client.ok("GET", NEW)
        assert await client.ok("GET", OLD) == card
        pure = await client.ok("GET", NEW, headers={"A2A-Version": "1.0"})
        assert pure == {name: card[name] for name in pure}
        assert set(card) - set(pure) == {
            "additionalInterfaces",
            "preferredTransport",
            "protocolVersion",
            "url",
        }
        assert await client.ok("GET", NEW, headers={"A2A-Version": "0.3"}) == card


async def test_the_union_names_every_interface_once_per_version():
    """1.0 first; REST's base is the same for both, since 0.3 clients append /v1 themselves (legacy
    9.3).
    """
    async with talking_to(echo) as client:
        card = await client.ok("GET", NEW)
        base = client.url
        assert (card["url"], card["preferredTransport"], card["protocolVersion"]) == (
            base + "/",
            "JSONRPC",
            "0.3.0",
        )
        assert card["additionalInterfaces"] == [
            {"url": base + "/", "transport": "JSONRPC"},
            {"url": base, "transport": "HTTP+JSON"},
        ]
        assert [
            (i["url"], i["protocolBinding"], i["protocolVersion"])
            for i in card["supportedInterfaces"]
        ] == [
            (base + "/", "JSONRPC", "1.0"),
            (base, "HTTP+JSON", "1.0"),
            (base + "/", "JSONRPC", "0.3"),
            (base, "HTTP+JSON", "0.3"),
        ]


async def test_security_is_written_in_every_versions_words():
    """The flat members of 0.2 stand beside the wrappers of 1.0, and 0.1 gets a list of words."""
    async with talking_to(guarded()) as client:
        card = await client.ok("GET", OLD)
        wrapper = {"location": "header", "name": "X-Key"}
        assert card["securitySchemes"]["key"] == {
            "type": "apiKey",
            "in": "header",
            "name": "X-Key",
            "apiKeySecurityScheme": wrapper,
        }
        assert card["securitySchemes"]["token"]["type"] == "http"
        assert card["security"] == [{"key": ["read"]}]
        assert card["securityRequirements"] == [{"schemes": {"key": {"list": ["read"]}}}]
        assert card["authentication"] == {"schemes": ["ApiKey", "Bearer"]}


async def test_1_0_alone_gives_the_pure_card():
    """A server told to speak 1.0 alone says nothing of other versions, and answers none."""
    async with talking_to(guarded(), versions=["1.0"]) as client:
        card = await client.ok("GET", NEW)
        assert {i["protocolVersion"] for i in card["supportedInterfaces"]} == {"1.0"}
        assert {
            "url",
            "preferredTransport",
            "protocolVersion",
            "additionalInterfaces",
            "security",
            "authentication",
        }.isdisjoint(card)
        assert set(card["securitySchemes"]["key"]) == {"apiKeySecurityScheme"}
        assert (await client.rest("GET", OLD))[0] == 404


async def test_without_1_0_its_interfaces_are_not_named():
    """The card names what is served, nothing else."""
    async with talking_to(echo, versions=["0.3"]) as client:
        card = await client.ok("GET", NEW)
        assert {i["protocolVersion"] for i in card["supportedInterfaces"]} == {"0.3"}
        assert card["url"] == client.url + "/"
        assert "authentication" not in card


async def test_a_signed_card_is_pure_to_those_who_say_1_0():
    """A signature covers the 1.0 card; more members would break it, so old readers get another
    document.
    """
    async with talking_to(guarded(AgentCardSignature(protected="e30", signature="c2ln"))) as client:
        pure = await client.ok("GET", NEW, headers={"A2A-Version": "1.0"})
        union = await client.ok("GET", NEW)
        assert pure["signatures"]
        assert "url" not in pure
        assert "signatures" not in union
        assert union["url"]
        async with client.http.get(client.url + NEW) as response:
            assert response.headers["Vary"] == "A2A-Version"


@pytest.mark.parametrize("rpc", ["/", "/a2a", "/deep/rpc"])
async def test_the_extended_card_is_looked_for_beside_the_endpoint(rpc):
    """0.2 takes the last segment off the URL and appends its path; whichever way it does, it finds
    us.
    """
    async with talking_to(echo, rpc=rpc, rest="/api") as client:
        for place in ("", rpc.rstrip("/"), rpc.rpartition("/")[0]):
            status, error = await client.rest("GET", place + "/agent/authenticatedExtendedCard")
            assert (status, error["type"]) == (404, "UnsupportedOperationError")
