"""Questions with a JSON Schema, as other protocols and frameworks bring them."""

import sys

import pytest

from accord import Ask, Context
from tests.drive import say, state_of, text_of
from tests.engine.processes import Disk, message
from tests.engine.processes import text_of as shown
from tests.engine.test_conversation_state import agent_of

TRIP = {
    "type": "object",
    "properties": {"days": {"type": "integer", "minimum": 1}, "city": {"type": "string"}},
    "required": ["days"],
}


async def plan(text: str, ctx: Context):
    return repr(await ctx.ask("How long?", TRIP))


def schema_in(task):
    return task["status"]["message"]["parts"][1]["data"]


async def test_the_schema_is_sent_as_it_is_and_the_answer_is_json(connect_rpc):
    async with connect_rpc(plan) as client:
        task = (await client.send("go"))["task"]
        assert schema_in(task) == TRIP
        task = (await client.send(say('{"days": 3}', taskId=task["id"])))["task"]
        assert text_of(task) == "{'days': 3}"
        task = (await client.send("go"))["task"]
        data = [{"data": {"days": 2, "city": "Rome"}}]
        task = (await client.send(say(data, taskId=task["id"])))["task"]
        assert text_of(task) == "{'days': 2, 'city': 'Rome'}"


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ('{"days": 0}', "answer.days: 0 is less than the minimum of 1"),
        ("{}", "answer: 'days' is a required property"),
        ("soon", "answer: 'soon' is not of type 'object'"),
    ],
)
async def test_a_wrong_answer_is_asked_again_with_the_reason(connect_rpc, answer, wrong):
    async with connect_rpc(plan) as client:
        task = (await client.send("go"))["task"]
        task = (await client.send(say(answer, taskId=task["id"])))["task"]
        assert state_of(task) == "input-required"
        assert task["status"]["message"]["parts"][0]["text"].startswith(
            f"That does not fit: {wrong}"
        )
        assert schema_in(task) == TRIP


async def test_without_the_package_jsonschema_any_json_is_taken(connect_rpc, monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    async with connect_rpc(plan) as client:
        task = (await client.send("go"))["task"]
        task = (await client.send(say('{"days": 0}', taskId=task["id"])))["task"]
        assert text_of(task) == "{'days': 0}"


@pytest.mark.parametrize(
    ("schema", "answer", "value"),
    [
        ({"type": "string"}, "16", "'16'"),
        ({"type": "boolean"}, "yes", "True"),
        ({"type": "integer"}, "16", "16"),
        ({"enum": ["red", "blue"]}, "blue", "'blue'"),
    ],
)
async def test_what_a_person_types_is_read_by_the_schema(connect_rpc, schema, answer, value):
    async def ask(text: str, ctx: Context):
        return repr(await ctx.ask("Which?", schema))

    async with connect_rpc(ask) as client:
        task = (await client.send("go"))["task"]
        assert text_of((await client.send(say(answer, taskId=task["id"])))["task"]) == value


async def test_a_schema_that_is_a_reference_is_sent_whole(connect_rpc):
    """Simple form builders want the object itself; the author's dict stays as it is."""
    schema = {"$ref": "#/$defs/Trip", "$defs": {"Trip": TRIP}}

    async def ask(text: str):
        return Ask("How long?", schema)

    async with connect_rpc(ask) as client:
        assert schema_in((await client.send("go"))["task"]) == TRIP
    assert set(schema) == {"$ref", "$defs"}


async def test_an_answer_is_found_again_after_a_restart(disk: Disk) -> None:
    async def twice(text: str, ctx: Context) -> str:
        first = await ctx.ask("How long?", TRIP)
        return f"{first} {await ctx.ask('And then?', TRIP)}"

    async with disk.dying(agent_of(twice)) as process:
        task = await process.send(message("go"))
        await process.send(message('{"days": 1}', task_id=task["id"]))
    async with disk.process(agent_of(twice)) as process:
        task = await process.send(message('{"days": 2}', task_id=task["id"]))
    assert shown(task) == "{'days': 1} {'days': 2}"
