"""The extended card becomes the agent's card, and a webhook that would never be called is refused
before anything is sent.
"""

from collections.abc import Callable
from typing import Any

import pytest

from accord import Agent, connect
from accord.auth import ApiKeys
from accord.client import NO_RETRY, ApiKey, BadCard
from accord.model import PushNotificationNotSupported, StatusUpdate, TaskPushNotificationConfig
from tests.client.peers import Request, answer, card, scripted, sse, task

KEY = "k" * 32
HOOK = "https://hooks.example/a2a"


def extended_by(
    more: Callable[[str], dict[str, Any]], calls: list[str]
) -> Callable[[Request], bytes]:
    """An agent whose public card offers little, and whose extended one has `more(url)`."""

    def agent(request: Request) -> bytes:
        url = f"http://{request.headers['host']}"
        if request.path.endswith("card.json"):
            return answer(card(url, capabilities={"extendedAgentCard": True}))
        method = request.json["method"]
        calls.append(f"{request.path} {method}")

        def reply(result: Any) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": request.json["id"], "result": result}

        match method:
            case "GetExtendedAgentCard":
                return answer(reply(card(url) | more(url)))
            case "SendStreamingMessage":
                update = {"taskId": "t-1", "contextId": "c-1"}
                done = {"status": {"state": "TASK_STATE_COMPLETED"}}
                begun = task("WORKING", text="")
                return sse(reply({"task": begun}), reply({"statusUpdate": update | done}))
        return answer(reply({"task": task()}))

    return agent


async def test_what_the_extended_card_offers_counts():
    """Streaming, and another interface."""
    calls: list[str] = []

    def more(url: str) -> dict[str, Any]:
        place = {"url": f"{url}/inner", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {"name": "Inner clerk", "supportedInterfaces": [place]}

    agent = extended_by(more, calls)
    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        assert not client.card.capabilities.streaming
        found = await client.extended_card()
        assert client.card is found
        assert (found.name, client.url) == ("Inner clerk", f"{peer.url}/inner")
        kinds = [type(event) async for event in client.stream("count")]
        assert kinds[-1] is StatusUpdate
    assert calls == ["/ GetExtendedAgentCard", "/inner SendStreamingMessage"]


async def test_a_skill_that_can_not_be_read_is_left_out_of_an_extended_card():
    """A skill without a description is a skill; one without a name is not. The card stands."""
    skills = [{"id": "weigh", "name": "Weigh", "tags": []}, {"tags": ["none"]}]
    agent = extended_by(lambda url: {"skills": skills, "iconUrl": 7}, [])
    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        found = await client.extended_card()
        assert [skill.id for skill in found.skills] == ["weigh"]
        assert any("skills[1] has neither id nor name" in note for note in client.notes)
        assert any("iconUrl can't be read" in note for note in client.notes)


@pytest.mark.parametrize("odd", [[], "card", {"some": "thing"}])
async def test_an_extended_card_that_is_none_changes_nothing(odd):
    """It is a fault of the agent, and the public card stays."""
    calls: list[str] = []
    agent = extended_by(lambda url: {}, calls)

    def broken(request: Request) -> bytes:
        if request.body and request.json["method"] == "GetExtendedAgentCard":
            return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": odd})
        return agent(request)

    async with scripted(broken) as peer, connect(peer.url, retry=NO_RETRY) as client:
        with pytest.raises(BadCard):
            await client.extended_card()
        assert client.card.name == "Dock clerk"
        assert (await client.send("count")).text == "17 crates"


async def test_an_extended_card_does_not_take_credentials_elsewhere():
    """Its interfaces are held to what the public card's are: those elsewhere are not used."""
    calls: list[str] = []

    async with scripted(lambda request: answer("", 500)) as other:
        place = {"url": other.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        scheme = {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}
        agent = extended_by(lambda url: {"supportedInterfaces": [place]}, calls)

        def guarded(request: Request) -> bytes:
            if request.path.endswith("card.json"):
                url = f"http://{request.headers['host']}"
                return answer(card(url, securitySchemes={"key": scheme}))
            return agent(request)

        async with (
            scripted(guarded) as peer,
            connect(peer.url, auth=ApiKey(KEY), retry=NO_RETRY) as client,
        ):
            await client.extended_card()
            assert any("the extended card offers is not used" in note for note in client.notes)
            assert (await client.send("count")).text == "17 crates"
        assert other.requests == []


async def test_an_unsigned_extended_card_is_not_adopted_where_signatures_are_asked_for():
    """`verify=` holds for it too: it is shown, and what it offers is not used."""
    agent = Agent("HR", description="Hires", auth=ApiKeys(keys={KEY: "mia"}))

    @agent.skill
    async def hire(name: str) -> str:
        return f"hired {name}"

    @agent.extended_card
    def extended(public, caller):
        public.description = f"Hires for {caller.name}"
        return public

    app = agent.app(sign_card=True)
    async with app.serving() as url, connect(url, auth=ApiKey(KEY), verify=True) as client:
        assert (await client.extended_card()).description == "Hires for mia"
        assert client.card.description == "Hires"
        assert any("not signed" in note for note in client.notes)
    async with app.serving() as url, connect(url, auth=ApiKey(KEY)) as client:
        await client.extended_card()
        assert client.card.description == "Hires for mia"


@pytest.mark.parametrize("says", [{}, {"pushNotifications": False}])
async def test_a_webhook_that_would_never_be_called_is_refused(says):
    """Before anything is sent: the task would run, and nobody would be told of it."""

    def agent(request: Request) -> bytes:
        if request.path.endswith("card.json"):
            return answer(card(peer.url, capabilities={"streaming": True} | says))
        return answer({"jsonrpc": "2.0", "id": 1, "result": {"task": task()}})

    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        with pytest.raises(PushNotificationNotSupported, match="nothing was sent"):
            await client.send("count", push=HOOK)
        with pytest.raises(PushNotificationNotSupported, match="nothing was sent"):
            await client.send("count", push=TaskPushNotificationConfig(url=HOOK))
        with pytest.raises(PushNotificationNotSupported, match="nothing was sent"):
            await client.create_push_config("t-1", HOOK)
        with pytest.raises(PushNotificationNotSupported, match="nothing was sent"):
            async for _ in client.stream("count", push=HOOK):
                pass
        assert [request.path for request in peer.requests] == ["/.well-known/agent-card.json"]
