"""Results of steps: written as JSON, and read back as what they were."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import gc
import pathlib
import uuid
import weakref
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from accord.engine.durable.values import _results, result_type

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


@dataclasses.dataclass
class Node:
    name: str
    below: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(eq=False)
class Same:
    n: int


class Pair(NamedTuple):
    one: int
    two: str


class Form(TypedDict):
    name: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    age: int


class Guest(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str = pydantic.Field(alias="fullName")
    born: datetime.date


class Hidden(pydantic.BaseModel):
    secret: str = pydantic.Field(default="", exclude=True)


class Color(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Foreign:
    pass


MOMENT = datetime.datetime(
    2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone(datetime.timedelta(hours=2))
)
ANN = Guest(fullName="Ann", born=datetime.date(2000, 2, 29))


def f() -> Any: ...


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (str, "é 🙂"),
        (int, -5),
        (type(None), None),
        (bool, True),
        (float, 1.5),
        (list, [1, {"a": None}]),
        (dict[str, Any], {"a": [1, "x", None, 1.5, True]}),
        (Node, Node("a", [Node("b")])),
        (list[Same], [Same(1), Same(2)]),
        (Same, Same(3)),
        (Pair, Pair(1, "x")),
        (Form, {"name": "x"}),
        (Cat | Dog, Dog(3)),
        (Guest, ANN),
        (dict[str, list[Guest]], {"a": [ANN]}),
        (Guest | None, ANN),
        (Node | None, None),
        (bytes, b"\x00\xff"),
        (datetime.datetime, MOMENT),
        (datetime.date, MOMENT.date()),
        (datetime.time, MOMENT.time()),
        (datetime.timedelta, datetime.timedelta(days=-1, microseconds=3)),
        (uuid.UUID, uuid.UUID(int=7)),
        (decimal.Decimal, decimal.Decimal("1.10")),
        (Color, Color.RED),
        (tuple[int, ...], (1, 2)),
        (tuple[int, Color], (1, Color.RED)),
        (set[str], {"a", "b"}),
        (frozenset[int], frozenset({1})),
        (dict[int, str], {1: "a"}),
        (dict[Color, int], {Color.RED: 1}),
        (int | str | None, "x"),
        (Literal["a", "b"], "a"),
    ],
)
def test_a_value_comes_back_the_same_by_its_type(type_: Any, value: Any) -> None:
    result = result_type(f, type_)
    raw, back = result.encode(value)
    for found in (back, result.decode(raw)):
        assert type(found) is type(value)
        assert found == value or repr(found) == repr(value)  # some are equal only to themselves


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**64 - 1,
        1.5,
        "",
        "é",
        [],
        {},
        [1, [2, {"a": None}]],
        {"a": {"b": [1.0]}},
    ],
)
def test_json_needs_no_type(value: Any) -> None:
    result = result_type(f)
    raw, back = result.encode(value)
    assert (back, type(back)) == (value, type(value))
    assert result.decode(raw) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            Node("a"),
            "gave a Node, which can't be read back from JSON without its type; write def "
            "f(...) -> Node",
        ),
        (
            [Node("a")],
            "gave a list with a Node, which can't be read back from JSON without its type; "
            "write def f(...) -> list[...]",
        ),
        ({"a": [ANN]}, "gave a dict with a Guest"),
        ((1, 2), "gave a tuple"),
        ([(1, 2)], "a list with a tuple"),
        ({1}, "gave a set"),
        (b"x", "returns=bytes"),
        (MOMENT, "gave a datetime"),
        (Color.RED, "gave a Color"),
        (Text("x"), "gave a Text"),
        ({1: "a"}, "a dict with an int"),
        (Foreign(), "gave a Foreign"),
        (float("nan"), "floats have to be finite"),
        ([float("inf")], "floats have to be finite"),
        ("\ud800", "valid Unicode"),
        (iter([]), "gave a list_iterator"),
    ],
)
def test_what_is_no_json_needs_a_type(value: Any, said: str) -> None:
    with pytest.raises(TypeError) as error:
        result_type(f).encode(value)
    assert "step 'f'" in str(error.value)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (str, 5),
        (int, "5"),
        (int, 1.5),
        (type(None), 0),
        (Node, Guest.model_construct(name="x")),
        (Node, {"name": "x"}),
        (list[Any], [(1, 2)]),
        (dict[str, Any], {"a": MOMENT}),
        (Cat | Dog, Node("x")),
        (Hidden, Hidden(secret="lost")),
        (float, float("nan")),
        (list[Same], [Foreign()]),
    ],
)
def test_a_value_that_its_type_does_not_bring_back_is_refused(type_: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="step 'f' gave"):
        result_type(f, type_).encode(value)


@pytest.mark.parametrize(
    "type_",
    [
        Foreign,
        list[Foreign],
        dict[str, tuple[Foreign, ...]],
        pathlib.Path,
        complex,
        uuid.UUID | str,
        Node | Guest,
        AsyncIterator[str],
    ],
)
def test_a_type_that_cant_be_read_back_is_refused_before_the_call(type_: Any) -> None:
    with pytest.raises(TypeError, match=r"step 'f' can't be read back as its type.*returns=Type"):
        result_type(f, type_)


# Where the type comes from


async def gives_node() -> Node: ...
async def gives_unknown() -> Unknown: ...
def takes_unknown(_: Unknown) -> Color: ...
def gives_later() -> Awaitable[Color]: ...
async def chunks() -> AsyncIterator[str]:
    yield ""


@functools.wraps(takes_unknown)
def wrapper(*args: Any) -> Any: ...


class Object:
    def method(self) -> Color: ...

    @classmethod
    def class_method(cls) -> Color: ...

    def __call__(self) -> Color: ...


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (gives_node, Node("x")),
        (takes_unknown, Color.RED),
        (gives_later, Color.RED),
        (wrapper, Color.RED),
        (chunks, "text"),
        (functools.partial(functools.partial(takes_unknown), 1), Color.RED),
        (Object().method, Color.RED),
        (Object.class_method, Color.RED),
        (Object(), Color.RED),
        (Node, Node("x")),
        (asyncio.sleep, None),
        (len, 5),
    ],
)
def test_the_annotation_says_the_type(function: Any, value: Any) -> None:
    raw, back = result_type(function).encode(value)
    assert back == value
    assert result_type(function).decode(raw) == value


def test_a_local_class_is_found_if_the_function_uses_it() -> None:
    @dataclasses.dataclass
    class Local:
        n: int

    def make() -> Local:
        return Local(1)

    assert result_type(make).encode(Local(1))[1] == Local(1)


def test_an_annotation_that_cant_be_resolved_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"step 'gives_unknown' can't be resolved .*returns=Type"):
        result_type(gives_unknown)
    assert result_type(gives_unknown, Color).encode(Color.RED)[1] is Color.RED


def test_an_object_whose_equality_fails_is_refused_in_words() -> None:
    class Odd(msgspec.Struct):
        n: int

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

    with pytest.raises(TypeError, match="gave an Odd, which can't be read back"):
        result_type(f, Odd).encode(Odd(1))


def test_looked_at_once_and_not_kept_alive() -> None:
    def once() -> Node: ...

    assert result_type(once) is result_type(once)
    assert result_type(Object().method) is result_type(Object().method)
    gone = weakref.ref(once)
    del once
    gc.collect()
    assert gone() is None
    assert all(key is not None for key in _results)
