"""Typed questions: the schema goes out with the question, only an answer that fits comes in, over
every binding.

`ctx.ask(question, type)` asks again until the answer fits. `return Ask(question, type)` ends the
turn: the next message calls the skill afresh, and what its own parameters don't take is refused
before it is called.
"""

import dataclasses
import enum
from typing import Any, Literal

import msgspec
import pydantic
import pytest

from accord import Agent, Ask, Context, Message
from tests.drive import refusal_of, say, state_of, text_of

SCHEMA = "application/schema+json"


@dataclasses.dataclass
class Trip:
    city: str
    days: int = 1


class Seat(msgspec.Struct):
    row: int
    letter: Literal["A", "B"]


class Guest(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


# A type; answers that fit, as a part, and what the skill then has; answers that don't, and a word
# that says what is wrong.
TYPES: dict[str, tuple[Any, ...]] = {
    "int": (
        int,
        [({"text": "3"}, "3"), ({"data": 3}, "3"), ({"text": " 4 "}, "4")],
        [{"text": "three"}, {"data": 1.5}, {"data": "3x"}],
    ),
    "float": (
        float,
        [({"text": "1.5"}, "1.5"), ({"data": 2}, "2.0"), ({"text": "1e3"}, "1000.0")],
        [{"text": "much"}, {"data": []}],
    ),
    "bool": (
        bool,
        [
            ({"text": "yes"}, "True"),
            ({"text": "No"}, "False"),
            ({"text": "true"}, "True"),
            ({"data": False}, "False"),
        ],
        [{"text": "perhaps"}, {"data": 1}],
    ),
    "str": (
        str,
        [({"text": "Rome"}, "'Rome'"), ({"text": "7"}, "'7'"), ({"text": "{}"}, "'{}'")],
        [],
    ),
    "list": (
        list[int],
        [({"data": [1, 2]}, "[1, 2]"), ({"text": "[3]"}, "[3]")],
        [{"text": "1, 2"}, {"data": [1, "x"]}, {"data": {}}],
    ),
    "literal": (
        Literal["red", "blue"],
        [({"text": "red"}, "'red'"), ({"data": "blue"}, "'blue'"), ({"text": '"red"'}, "'red'")],
        [{"text": "green"}, {"data": 1}],
    ),
    "enum": (
        Size,
        [
            ({"text": "small"}, "<Size.SMALL: 'small'>"),
            ({"data": "large"}, "<Size.LARGE: 'large'>"),
        ],
        [{"text": "huge"}],
    ),
    "dataclass": (
        Trip,
        [
            ({"data": {"city": "Rome", "days": 2}}, "Trip(city='Rome', days=2)"),
            ({"text": '{"city": "Oslo"}'}, "Trip(city='Oslo', days=1)"),
        ],
        [
            {"text": "Rome"},
            {"data": {"days": 2}},
            {"data": {"city": "Rome", "days": "two"}},
            {"data": 7},
        ],
    ),
    "msgspec": (
        Seat,
        [({"data": {"row": 3, "letter": "A"}}, "Seat(row=3, letter='A')")],
        [{"data": {"row": 3, "letter": "Z"}}, {"text": "3A"}],
    ),
    "pydantic": (
        Guest,
        [
            ({"data": {"name": "Ann", "age": 3}}, "Guest(name='Ann', age=3)"),
            ({"text": '{"name": "Bo", "age": 4}'}, "Guest(name='Bo', age=4)"),
        ],
        [{"data": {"name": "Ann", "age": -1}}, {"data": {"age": 1}}, {"text": "Ann"}],
    ),
}


def asking(type_):
    async def ask(request: str, ctx: Context):
        return repr(await ctx.ask("Well?", type_))

    return ask


def question_of(task):
    """The text of a question and, if it has one, its schema."""
    parts = task["status"]["message"]["parts"]
    schemas = [part["data"] for part in parts if part.get("mediaType") == SCHEMA]
    return text_of(task["status"]["message"]), schemas[0] if schemas else None


@pytest.mark.parametrize("name", TYPES)
async def test_an_answer_that_fits_is_taken(connect, name):
    """As a data part, as JSON text, and for plain types as a person types it."""
    type_, right, _ = TYPES[name]
    async with connect(asking(type_)) as client:
        for part, value in right:
            task = (await client.send("go"))["task"]
            assert (state_of(task), question_of(task)[0]) == ("input-required", "Well?")
            done = (await client.send(say([part], taskId=task["id"])))["task"]
            assert (state_of(done), text_of(done)) == ("completed", value)


@pytest.mark.parametrize("name", [name for name, (_, _, wrong) in TYPES.items() if wrong])
async def test_an_answer_that_does_not_fit_is_asked_for_again(connect, name):
    """The same question with what was wrong in front and the schema behind, as often as it takes;
    then it goes on.
    """
    type_, right, wrong = TYPES[name]
    async with connect(asking(type_)) as client:
        task = (await client.send("go"))["task"]
        _, schema = question_of(task)
        for part in wrong:
            task = (await client.send(say([part], taskId=task["id"])))["task"]
            again, schema_again = question_of(task)
            assert (state_of(task), again.endswith("\nWell?"), schema_again) == (
                "input-required",
                True,
                schema,
            )
            assert again.startswith("That does not fit: answer")
        done = (await client.send(say([right[0][0]], taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", right[0][1])


async def test_the_schema_says_what_fits(connect):
    """JSON Schema in a data part of its own media type, so that a client can draw a form or check
    first.
    """
    expected = {
        "int": {"type": "integer"},
        "float": {"type": "number"},
        "bool": {"type": "boolean"},
        "str": None,
        "list": {"type": "array", "items": {"type": "integer"}},
        "literal": {"enum": ["blue", "red"]},
    }
    for name, schema in expected.items():
        async with connect(asking(TYPES[name][0])) as client:
            assert question_of((await client.send("go"))["task"]) == ("Well?", schema)
    for name, fields in {
        "dataclass": {"city", "days"},
        "msgspec": {"row", "letter"},
        "pydantic": {"name", "age"},
    }.items():
        async with connect(asking(TYPES[name][0])) as client:
            _, schema = question_of((await client.send("go"))["task"])
            whole = (
                schema
                if "properties" in schema
                else schema["$defs"][schema["$ref"].rpartition("/")[2]]
            )
            assert set(whole["properties"]) == fields


async def test_what_was_wrong_is_named(connect):
    """Field by field, so that a person or a program can mend it."""
    async with connect(asking(Trip)) as client:
        task = (await client.send("go"))["task"]
        task = (
            await client.send(say([{"data": {"city": "Rome", "days": "two"}}], taskId=task["id"]))
        )["task"]
        assert "answer.days: expected a whole number, got text" in question_of(task)[0]
    async with connect(asking(Guest)) as client:
        task = (await client.send("go"))["task"]
        task = (await client.send(say([{"data": {"age": -1}}], taskId=task["id"])))["task"]
        assert "answer.name: Field required; answer.age: " in question_of(task)[0]


async def test_an_answer_without_text_or_data_is_asked_for_again(connect):
    """A file is no number."""
    async with connect(asking(int)) as client:
        task = (await client.send("go"))["task"]
        task = (await client.send(say([{"raw": "aGk=", "filename": "x"}], taskId=task["id"])))[
            "task"
        ]
        assert (state_of(task), question_of(task)[0].endswith("\nWell?")) == (
            "input-required",
            True,
        )


async def test_a_whole_message_can_be_asked_for(connect):
    """`ask(question, Message)` takes anything, and carries no schema."""

    async def ask(request: str, ctx: Context):
        answer = await ctx.ask("Anything?", Message)
        return str(len(answer.parts))

    async with connect(ask) as client:
        task = (await client.send("go"))["task"]
        assert question_of(task) == ("Anything?", None)
        done = (await client.send(say([{"raw": "aGk="}, {"text": "a"}], taskId=task["id"])))["task"]
        assert text_of(done) == "2"


@pytest.mark.parametrize("name", TYPES)
async def test_a_returned_question_carries_its_schema_and_ends_the_turn(connect, name):
    """`return Ask(question, type)`: the next message calls the skill afresh, with all that was said
    in `ctx.history`.
    """
    type_, right, _ = TYPES[name]

    async def turn(request: Message, ctx: Context):
        if len(ctx.history) == 1:
            return Ask("Well?", type_)
        return f"{len(ctx.history)} messages"

    async with connect(turn) as client:
        async with connect(asking(type_)) as other:
            schema = question_of((await other.send("go"))["task"])[1]
        task = (await client.send("go"))["task"]
        assert (state_of(task), question_of(task)) == ("input-required", ("Well?", schema))
        done = (await client.send(say([right[0][0]], taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", "3 messages")


async def test_after_a_returned_question_a_skill_takes_what_its_parameters_say(connect):
    """A message they can't take is refused by name before anything is stored, and the question
    stays open.
    """

    async def plan(trip: Trip):
        return Ask("How many days?", Trip) if trip.days < 2 else f"{trip.days} days in {trip.city}"

    async with connect(plan) as client:
        task = (await client.send(say([{"data": {"city": "Rome"}}])))["task"]
        assert state_of(task) == "input-required"
        refused = await refusal_of(
            client.send(say([{"data": {"city": "Rome", "days": "many"}}], taskId=task["id"]))
        )
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.parts[0].data.days"],
        )
        assert await client.get(task["id"]) == task
        done = (await client.send(say('{"city": "Rome", "days": 3}', taskId=task["id"])))["task"]
        assert text_of(done) == "3 days in Rome"


async def test_a_question_survives_its_server(connect, lasting):
    """Asked before the restart, answered wrong and then right after it: still one question."""
    agent = Agent("Test agent")
    agent.skill(asking(int))
    async with connect(agent, store=lasting) as client:
        task = (await client.send("go"))["task"]
    async with connect(agent, store=lasting) as client:
        task = (await client.send(say("three", taskId=task["id"])))["task"]
        assert question_of(task)[0].startswith("That does not fit: answer")
        done = (await client.send(say("3", taskId=task["id"])))["task"]
        assert (state_of(done), text_of(done)) == ("completed", "3")
