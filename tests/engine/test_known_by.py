"""What a step was called with tells it from others of its name, whatever classes that is made of."""

import asyncio
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pydantic
import pytest

from accord import Context
from accord.engine.durable.replay import Past, is_vague
from accord.engine.durable.step import Step
from accord.engine.durable.steps import _fingerprint, _written
from accord.model import Message, Role
from tests.engine.lives import Lives
from tests.reliability.harness import text_of


class Trip(pydantic.BaseModel):
    """With what JSON does not know, what has no order of its own, and what is never the same."""

    city: str
    site: pydantic.HttpUrl = pydantic.HttpUrl("https://trips.example")
    people: set[str] = pydantic.Field(default={"Ada", "Bob", "Eve"}, alias="with")
    folder: Path = Path("trips")

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def looked_at(self) -> int:
        return time.perf_counter_ns()


@dataclasses.dataclass
class Plan:
    name: str
    trips: list[Trip]


class Town(str):
    """A kind of text."""


def trip(city: str) -> Trip:
    return Trip(city=city)


def plan(city: str) -> Plan:
    return Plan("holidays", [trip(city)])


@pytest.mark.parametrize("given", [trip, plan, Town, Path], ids=lambda given: given.__name__)
async def test_steps_beside_each_other_keep_their_results_whatever_they_are_called_with(tmp_path: Path, given: Any) -> None:
    """Known by their order alone, two that come the other way round in the next life would have their results swapped."""
    lives = Lives(tmp_path / "tasks.db")

    async def book(where: Any) -> str:
        where = where.trips[0] if isinstance(where, Plan) else where
        city = str(where.city if isinstance(where, Trip) else where)
        lives.done.append(city)
        return f"ticket to {city}"

    @lives.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def one(city: str, pause_s: float) -> str:
            await asyncio.sleep(pause_s if lives.is_first else 0.1 - pause_s)
            return f"{city}: {await ctx.step(book, given(city))}"

        found = await asyncio.gather(one("Rome", 0.1), one("Oslo", 0.0))
        await lives.die()
        return ", ".join(found)

    _, after = await lives.live()
    assert text_of(after) == "Rome: ticket to Rome, Oslo: ticket to Oslo"
    assert sorted(lives.done) == ["Oslo", "Rome"]


class Cat(pydantic.BaseModel):
    name: str
    key: pydantic.SecretStr = pydantic.SecretStr("miaow")


class Dog(Cat):
    pass


class Odd(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: object


class Broken(pydantic.BaseModel):
    @pydantic.model_serializer
    def whole(self) -> dict[str, Any]:
        raise LookupError("not now")


def test_models_are_told_apart_by_class_and_fields() -> None:
    """The same in every life: made anew, they are the same again."""
    kinds = [Cat(name="x"), Cat(name="y"), Dog(name="x"), [Cat(name="x")], {"pet": Cat(name="x")}]
    again = [Cat(name="x"), Cat(name="y"), Dog(name="x"), [Cat(name="x")], {"pet": Cat(name="x")}]
    assert len({_fingerprint(None, (kind,)) for kind in kinds}) == len(kinds)
    assert [_fingerprint(None, (kind,)) for kind in kinds] == [_fingerprint(None, (kind,)) for kind in again]


@pytest.mark.parametrize("given", [object(), Cat, print, Odd(thing=object()), Broken()], ids=repr)
def test_what_can_not_be_told_from_one_life_to_the_next_is_left_out_of_the_fingerprint(given: Any) -> None:
    """What differs only in where it lies in memory would be another step in every life; and a step is not failed for it."""
    assert is_vague(_fingerprint(None, (given,)))
    assert _fingerprint(None, (given, "Rome")) != _fingerprint(None, (given, "Oslo"))


class Client:
    def book(self, city: str) -> str:
        return city


@dataclasses.dataclass
class City:
    name: str

    def book(self) -> str:
        return self.name


def book(city: str) -> str:
    return city


def closure(city: str) -> Callable[[], str]:
    return lambda: city


CARRIES: dict[str, Callable[[str], Callable[..., Any]]] = {
    "partial": lambda city: functools.partial(book, city),
    "keyword": lambda city: functools.partial(book, city=city),
    "method": lambda city: City(city).book,
    "partial of a method": lambda city: functools.partial(Client().book, city),
    "closure": closure,
    "default": lambda city: lambda at=city: at,
}


@pytest.mark.parametrize("make", CARRIES.values(), ids=CARRIES)
def test_a_function_is_told_by_what_it_carries_along(make: Callable[[str], Callable[..., Any]]) -> None:
    assert _fingerprint(make("Rome"), ()) == _fingerprint(make("Rome"), ()) != _fingerprint(make("Oslo"), ())


def test_lambdas_are_told_by_what_is_written_in_them() -> None:
    assert _fingerprint(lambda: book("Rome"), ()) != _fingerprint(lambda: book("Oslo"), ())


WRITTEN: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda: book("Rome"), ("Rome",)),
    (lambda: (5, book("Rome"), 5, 5.0, True, 300), (5, "Rome", 5.0, True, 300)),
    (lambda: [book(city + "!") for city in ["Rome", book("Oslo")] if city != "Bern"], ("Rome", "Oslo", "Bern", "!")),
    (lambda: {n: [m + 1 for m in range(n + 2)] for n in range(3)}, (3, 2, 1)),
    (lambda: {book(f"{n:{n}}") for n in [m * 6 for m in range(7)]}, (7, 6)),
    (lambda: [sum(m * 9 for m in range(n + 4)) for n in range(8)], (8, 4)),
    (lambda: sorted([n + 1 for n in range(2)], key=lambda n: n + 9), (2, 1)),
]


@pytest.mark.parametrize(("function", "values"), WRITTEN)
def test_every_python_finds_the_same_in_a_lambda(function: FunctionType, values: tuple[Any, ...]) -> None:
    """A task begun under one version goes on under the next: what was done is not done again because it is compiled otherwise."""
    found = _written(function.__code__)
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]


def test_a_step_logged_before_models_were_told_apart_is_found_by_its_order() -> None:
    """The log of an earlier release has none of these fingerprints."""
    past = Past(Message(message_id="m", role=Role.USER, parts=[]), 0)
    past.take(b"s", b'{"name":"book","n":1,"value":"first"}')
    past.take(b"s", b'{"name":"book","n":2,"value":"second"}')
    calls = [Step("book", n, args=_fingerprint(None, (trip(city),))) for n, city in ((1, "Rome"), (2, "Oslo"))]
    found = [past.step(call, is_main=True) for call in calls]
    assert [step.value for step in found if step is not None] == ["first", "second"]
