"""Signatures against messages."""

import socket
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Literal, TypedDict

import msgspec
import pydantic
import pytest

from accord import Agent, Caller, Context, File, Message, Part
from accord.engine.skills import definition_of
from accord.model import ContentTypeNotSupported, InvalidParams, Role


class Order(msgspec.Struct):
    item: str
    count: int = 1


@dataclass
class Point:
    x: int
    y: int


class Person(pydantic.BaseModel):
    name: str
    age: int


class Flags(TypedDict):
    fast: bool


def bound(function, *parts):
    agent = Agent("Test")
    agent.skill(function)
    definition_of(agent).resolve()
    message = Message(message_id="m", role=Role.USER, parts=list(parts))
    return definition_of(agent).skills[function.__name__].binding.values(message)


def test_text_parts_are_joined_with_a_newline():
    def skill(text: str): ...

    assert bound(skill, Part(text="a"), Part(data=1), Part(text="b")) == {"text": "a\nb"}


def test_a_file_a_data_part_and_the_text_may_come_together():
    def skill(text: str, order: Order, file: File, ctx: Context, caller: Caller): ...

    values = bound(
        skill, Part(text="t"), Part(raw=b"x", filename="a.txt"), Part(data={"item": "nut"})
    )
    assert (values["text"], values["order"], values["file"].text, values["file"].name) == (
        "t",
        Order("nut"),
        "x",
        "a.txt",
    )
    assert set(values) == {"text", "order", "file"}


@pytest.mark.parametrize(("type_", "data", "value"), [
    (Order, {"item": "nut", "count": 2}, Order("nut", 2)),
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (Person, {"name": "Ada", "age": 36}, Person(name="Ada", age=36)),
    (Flags, {"fast": True}, {"fast": True}),
    (dict, {"any": [1]}, {"any": [1]}),
    (list[int], [1, 2], [1, 2]),
])  # fmt: skip
def test_data_fits_its_type_from_a_data_part_or_json_text(type_, data, value):
    def skill(order): ...

    skill.__annotations__["order"] = type_
    assert bound(skill, Part(data=data)) == {"order": value}
    assert bound(skill, Part(text=msgspec.json.encode(data).decode())) == {"order": value}


@pytest.mark.parametrize(("type_", "field"), [(Order, "count"), (Person, "age")])
def test_data_that_does_not_fit_names_the_field(type_, field):
    def skill(order): ...

    skill.__annotations__["order"] = type_
    with pytest.raises(InvalidParams) as error:
        bound(
            skill, Part(text="see below"), Part(data={"item": "nut", "name": "Ada", field: "many"})
        )
    assert error.value.violations[0][0] == f"message.parts[1].data.{field}"


@pytest.mark.parametrize(
    ("type_", "what"), [(str, "text"), (File, "a file"), (bytes, "a file"), (Order, "a data part")]
)
def test_a_message_without_the_kind_of_part_is_refused(type_, what):
    def skill(value): ...

    skill.__annotations__["value"] = type_
    part = Part(data=1) if type_ is not Order else Part(raw=b"")
    with pytest.raises(ContentTypeNotSupported, match=f"needs {what}"):
        bound(skill, part)


def test_what_is_optional_may_be_missing():
    def skill(text: str = "none", file: File | None = None): ...

    assert bound(skill, Part(data=1)) == {}


def test_a_url_part_is_a_file_with_its_url_and_no_bytes():
    """Nothing is fetched."""

    def by_file(file: File): ...

    def by_bytes(content: bytes): ...

    part = Part(url="https://files.example/a.pdf", filename="a.pdf")
    assert bound(by_file, part)["file"].url == "https://files.example/a.pdf"
    with pytest.raises(ContentTypeNotSupported, match="not fetched"):
        bound(by_bytes, part)


def test_types_local_to_the_caller_are_found():
    """Annotations are resolved with the names where the decorator stood, also under `from
    __future__ import annotations`.
    """

    class Local(msgspec.Struct):
        x: int

    agent = Agent("Test")

    @agent.skill
    def skill(value: "Local"): ...

    definition_of(agent).resolve()
    message = Message(message_id="m", role=Role.USER, parts=[Part(data={"x": 1})])
    assert definition_of(agent).skills["skill"].binding.values(message) == {"value": Local(1)}


def no_annotation(text): ...


def star(*texts: str): ...


def unannotated_context(ctx, text: str): ...


def two_files(one: File, two: File): ...


def foreign(connection: socket.socket): ...


@pytest.mark.parametrize(("function", "what"), [
    (no_annotation, "say what 'text' is"),
    (star, "named parameters"),
    (unannotated_context, "ctx: Context"),
    (two_files, "both take the file"),
    (foreign, "no message can hold the type of 'connection'"),
])  # fmt: skip
def test_a_signature_that_cannot_be_filled_is_told_at_start(function, what):
    agent = Agent("Test")
    agent.skill(function)
    with pytest.raises(TypeError, match=what):
        agent.app()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def add(a: int, b: int = 2): ...


@pytest.mark.parametrize("part", [
    Part(data={"a": 1, "b": 3}),
    Part(text='{"a": 1, "b": 3}'),
])  # fmt: skip
def test_several_parameters_are_the_fields_of_an_object(part):
    assert bound(add, part) == {"a": 1, "b": 3}


def test_a_field_with_a_default_may_be_left_out():
    assert bound(add, Part(data={"a": 1})) == {"a": 1}


def test_fields_may_be_of_any_type_and_stand_beside_files():
    def skill(who: Person, tags: list[str], day: date, color: Color, file: File): ...

    values = bound(
        skill,
        Part(raw=b"x"),
        Part(
            data={
                "who": {"name": "Ada", "age": 36},
                "tags": ["a"],
                "day": "2026-05-31",
                "color": "red",
            }
        ),
    )
    assert values.pop("file").data == b"x"
    assert values == {
        "who": Person(name="Ada", age=36),
        "tags": ["a"],
        "day": date(2026, 5, 31),
        "color": Color.RED,
    }


@pytest.mark.parametrize(("type_", "text", "value"), [
    (int, "16", 16),
    (float, "1.5", 1.5),
    (bool, "yes", True),
    (date, "2026-05-31", date(2026, 5, 31)),
    (Color, "blue", Color.BLUE),
    (Literal["a", "b"], "b", "b"),
    (list[int], "[1, 2]", [1, 2]),
    (int | None, "16", 16),
])  # fmt: skip
def test_a_lone_plain_parameter_is_the_bare_text_or_a_field(type_, text, value):
    def skill(given): ...

    skill.__annotations__["given"] = type_
    assert bound(skill, Part(text=text)) == {"given": value}
    data = msgspec.to_builtins(value)
    assert bound(skill, Part(data={"given": data})) == {"given": value}
    assert bound(skill, Part(data=data)) == {"given": value}


def test_a_lone_text_may_come_as_a_field():
    def skill(name: str): ...

    assert bound(skill, Part(data={"name": "Mia"})) == {"name": "Mia"}


def test_what_does_not_fit_is_named_in_the_words_of_users():
    with pytest.raises(InvalidParams, match=r"data\.b: expected a whole number, got text"):
        bound(add, Part(data={"a": 1, "b": "two"}))
    with pytest.raises(InvalidParams, match=r"data\.a"):
        bound(add, Part(data={}))
    with pytest.raises(
        InvalidParams,
        match=r"a \(a whole number\), b \(a whole number, optional\).*{\"a\": 1}",
    ):
        bound(add, Part(text="one and two"))
    with pytest.raises(InvalidParams, match="got a list; this skill needs the fields a"):
        bound(add, Part(data=[1, 2]))
    with pytest.raises(ContentTypeNotSupported, match="needs the fields a"):
        bound(add, Part(raw=b"x"))


def test_the_schema_has_fields_defaults_and_descriptions():
    def skill(
        city: Annotated[str, "Where to go"],
        days: Annotated[int, msgspec.Meta(ge=1)] = 3,
        mood: Literal["calm", "wild"] | None = None,
    ): ...

    agent = Agent("Test")
    agent.skill(skill)
    definition_of(agent).resolve()
    assert definition_of(agent).skills["skill"].binding.schema() == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to go"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
            "mood": {"anyOf": [{"enum": ["calm", "wild"]}, {"type": "null"}]},
        },
        "required": ["city"],
    }
    with pytest.raises(InvalidParams, match="days"):
        bound(skill, Part(data={"city": "Rome", "days": 0}))


def test_schemas_have_no_reference_at_the_top():
    """Forms and models read the top: it says what the value is."""

    def skill(order: Order): ...

    agent = Agent("Test")
    agent.skill(skill)
    definition_of(agent).resolve()
    schema = definition_of(agent).skills["skill"].binding.schema()
    assert schema is not None
    assert "$ref" not in schema
    assert schema["required"] == ["item"]


# Bare texts and values, and fields that are misspelt


class Query(msgspec.Struct):
    words: str
    limit: int = 10


class Wish(pydantic.BaseModel):
    city: str = "Rome"
    days: int = 2


def search(query: str, limit: int = 10, ctx: Context | None = None): ...


def order(item: Order, rush: bool = False): ...


def greet(name: str = "you", loud: bool = False): ...


def ask(query: Query): ...


def wish(what: Wish): ...


def root(numbers: pydantic.RootModel[list[int]]): ...


@pytest.mark.parametrize(
    ("skill", "part", "values"),
    [
        (search, Part(text="a laptop for Ada"), {"query": "a laptop for Ada"}),
        (search, Part(text="16"), {"query": "16"}),
        (search, Part(text='"quoted"'), {"query": '"quoted"'}),
        (search, Part(text='{"some": "document"}'), {"query": '{"some": "document"}'}),
        (search, Part(text='{"query": "x", "limit": 3}'), {"query": "x", "limit": 3}),
        (search, Part(data="a laptop"), {"query": "a laptop"}),
        (search, Part(data={"query": "x"}), {"query": "x"}),
        (add, Part(text="5"), {"a": 5}),
        (add, Part(data=5), {"a": 5}),
        (order, Part(data={"item": "nut"}), None),
        (order, Part(data={"count": 3}), None),
        (order, Part(data={"item": {"item": "nut"}, "rush": True}), {"rush": True}),
        (greet, Part(text="Mia"), {"name": "Mia"}),
        (ask, Part(text="who orders laptops?"), {"query": Query("who orders laptops?")}),
        (ask, Part(text="16"), {"query": Query("16")}),
        (ask, Part(data="laptops"), {"query": Query("laptops")}),
        (ask, Part(text='{"words": "x", "limit": 1}'), {"query": Query("x", 1)}),
        (wish, Part(text="Oslo"), {"what": Wish(city="Oslo")}),
        (root, Part(text="[1, 2]"), {"numbers": pydantic.RootModel[list[int]]([1, 2])}),
    ],
)
def test_a_bare_text_or_value_is_the_only_parameter_that_is_required(skill, part, values):
    """Parameters that may be left out change nothing for who sends plain text; nor does it matter
    whether the field is a parameter or stands in a type.
    """
    if values is None:
        with pytest.raises(InvalidParams, match="item"):
            bound(skill, part)
        return
    found = bound(skill, part)
    assert {name: found[name] for name in values} == values


def test_an_object_is_the_only_parameter_that_is_required():
    """As a bare value; its fields are not those of the skill."""

    def plan(point: Point, scale: float = 1.0): ...

    assert bound(plan, Part(data={"x": 1, "y": 2})) == {"point": Point(1, 2)}
    given = {"point": {"x": 1, "y": 2}, "scale": 2.0}
    assert bound(plan, Part(data=given)) == {"point": Point(1, 2), "scale": 2.0}


def test_a_text_and_the_data_beside_it_are_read_together():
    """The text is the parameter that is required, the data has the others."""
    found = bound(search, Part(text="a laptop"), Part(data={"limit": 3}))
    assert found == {"query": "a laptop", "limit": 3}


def test_two_parameters_that_are_required_are_not_guessed():
    def skill(city: str, days: int): ...

    with pytest.raises(InvalidParams, match="needs the fields city"):
        bound(skill, Part(text="Rome"))


@pytest.mark.parametrize(
    ("skill", "good"), [(search, {"query": "x"}), (ask, {"words": "x"}), (wish, {"city": "Oslo"})]
)
def test_an_unknown_field_is_ignored_and_logged_once(skill, good, caplog):
    """Once per skill and name, however often it comes, and not without end."""
    agent = Agent("Test")
    agent.skill(skill)
    definition_of(agent).resolve()
    binding = definition_of(agent).skills[skill.__name__].binding

    def take(part: Part) -> None:
        binding.values(Message(message_id="m", role=Role.USER, parts=[part]))

    for _ in range(3):
        take(Part(data=good | {"limmit": 3}))
        take(Part(text=msgspec.json.encode(good | {"limmit": 3}).decode()))
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [f"the skill {skill.__name__} has no field 'limmit'; it is ignored"]
    for i in range(300):
        take(Part(data=good | {f"x{i}": 1}))
    assert len(caplog.records) == 100
