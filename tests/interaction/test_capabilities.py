"""What the card does not offer is refused, and says so."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from accord import Agent, File, Message
from accord.model import AgentExtension
from tests.drive import refusal_of, say, state_of, text_of


async def echo(request: str):
    return request


async def test_push_configs_are_refused_while_the_card_does_not_offer_them(connect):
    """All four operations, on tasks that exist and on those that don't (GEN-7)."""
    async with connect(echo, push=False) as client:
        assert (await client.card())["capabilities"]["pushNotifications"] is False
        task = (await client.send("hi"))["task"]
        for task_id in (task["id"], "nowhere"):
            for call in (
                client.create_push_config(task_id, {"url": "https://hooks.example/a2a"}),
                client.get_push_config(task_id, "c-1"),
                client.list_push_configs(task_id),
                client.delete_push_config(task_id, "c-1"),
            ):
                assert (await refusal_of(call)).reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"


async def test_an_inline_push_config_is_refused_not_ignored(connect):
    """A caller who counts on being called must know it will not be (SND-11, GEN-7; section
    7, A21).
    """
    async with connect(echo, push=False) as client:
        hook = {"taskPushNotificationConfig": {"url": "https://hooks.example/a2a"}}
        refused = await refusal_of(client.send(say(configuration=hook)))
        assert refused.reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        assert (await client.list())["totalSize"] == 0


async def test_an_extended_card_is_refused_where_there_is_none(connect):
    """Not declared means UnsupportedOperation (GEN-7, XCD-5)."""
    async with connect(echo) as client:
        assert (await client.card())["capabilities"]["extendedAgentCard"] is False
        assert (await refusal_of(client.extended_card())).reason == "UNSUPPORTED_OPERATION"


def demanding():
    agent = Agent(
        "Demanding", extensions=[AgentExtension(uri="https://ext.example/units/v2", required=True)]
    )
    agent.skill(echo)
    return agent


@pytest.mark.parametrize(
    "named", [None, "https://ext.example/units/v1", "https://ext.example/other"]
)
async def test_a_required_extension_must_be_activated(connect, named):
    """Without it, or with another version of it, a send is refused; nothing falls back (EXT-4,
    EXT-5, GEN-7; A24, A25).
    """
    async with connect(demanding()) as client:
        for verb in (client.send, client.stream):
            refused = await refusal_of(
                verb("hi", headers={"A2A-Extensions": named} if named else None)
            )
            assert refused.reason == "EXTENSION_SUPPORT_REQUIRED"
            assert refused.detail == {"extensions": "https://ext.example/units/v2"}


async def test_an_activated_extension_is_named_in_the_answer(connect):
    """Those in force are listed, those not offered are ignored (EXT-2, EXT-3, EXT-4)."""
    headers = {"A2A-Extensions": "https://ext.example/other , https://ext.example/units/v2,"}
    async with connect(demanding()) as client:
        task = (await client.send("hi", headers=headers))["task"]
        assert state_of(task) == "completed"
        assert client.answer_headers["A2A-Extensions"] == "https://ext.example/units/v2"
        stream = await client.stream("hi", headers=headers)
        assert stream.headers["A2A-Extensions"] == "https://ext.example/units/v2"


async def test_extensions_are_inactive_until_asked_for(connect):
    """No header, nothing in force (EXT-2)."""
    async with connect(echo) as client:
        await client.send("hi")
        assert "A2A-Extensions" not in client.answer_headers


async def test_extensions_may_come_in_several_headers(connect):
    """Repeated headers are one list (section 3.1)."""
    async with connect(demanding()) as client:
        headers = [
            ("A2A-Extensions", "https://ext.example/other"),
            ("A2A-Extensions", "https://ext.example/units/v2"),
        ]
        task = (await client.send("hi", headers=headers))["task"]
        assert state_of(task) == "completed"


async def test_extensions_are_declared_in_the_card(connect):
    """Ours and the agent's, with uri, description and whether they are required (EXT-1, EXT-6)."""
    async with connect(demanding()) as client:
        declared = {
            e["uri"]: e.get("required", False)
            for e in (await client.card())["capabilities"]["extensions"]
        }
        assert declared == {
            "urn:accord:resume:1": False,
            "urn:accord:idempotent:1": False,
            "urn:accord:schema:1": False,
            "urn:accord:files:1": False,
            "urn:accord:probe:1": False,
            "urn:accord:fork:1": False,
            "urn:accord:push-artifacts:1": False,
            "https://ext.example/units/v2": True,
        }


async def test_extension_data_travels_in_metadata_and_names(connect):
    """A message keeps the extensions it names and the metadata under their URIs (EXT-7)."""

    async def look(request: Message):
        return f"{request.extensions} {request.metadata}"

    async with connect(look) as client:
        uri = "https://ext.example/units/v2"
        task = (await client.send(say(extensions=[uri], metadata={uri: {"unit": "km"}})))["task"]
        assert text_of(task) == f"{[uri]} { {uri: {'unit': 'km'}} }"
        assert task["history"][0]["metadata"] == {uri: {"unit": "km"}}


async def test_the_card_has_the_schemas_of_skills(connect):
    """What a skill takes and gives, for forms, models and other programs (EXT-1)."""
    agent = Agent("Shop")

    class Order(msgspec.Struct):
        item: str
        count: int = 1

    @agent.skill
    async def order(order: Order) -> list[int]:
        return [order.count]

    @agent.skill
    async def chat(text: str) -> AsyncIterator[str]:
        yield text

    @agent.skill
    async def paint(text: str) -> File:
        return File(b"", media_type="image/png")

    async with connect(agent) as client:
        extensions = (await client.card())["capabilities"]["extensions"]
        [schemas] = [e for e in extensions if e["uri"] == "urn:accord:schema:1"]
        skills = schemas["params"]["skills"]
        assert skills["order"]["input"]["properties"]["count"] == {"type": "integer", "default": 1}
        assert skills["order"]["output"] == {"type": "array", "items": {"type": "integer"}}
        assert skills["chat"] == {"input": {"type": "string"}, "output": {"type": "string"}}
        assert skills["paint"] == {"input": {"type": "string"}}
