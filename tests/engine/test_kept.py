"""What a step may give: the same in every life, or an error in the first."""

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import pathlib
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.codec import v1
from accord.engine.durable.step import Step, StepFailed, do_step, value_of
from accord.engine.skills.schema import Shape
from accord.engine.threads import Threads

UTC = datetime.UTC


@dataclasses.dataclass
class Flight:
    number: str
    price: float = 0.0
    seats: dict[int, str] = dataclasses.field(default_factory=dict)
    extra: Any = None


@dataclasses.dataclass
class Delayed(Flight):
    minutes: int = 0


@dataclasses.dataclass(eq=False, frozen=True, slots=True)
class Ticket:
    code: str


class Hotel(msgspec.Struct, rename="camel"):
    stars: int
    room_key: bytes = b""


class Price(pydantic.BaseModel):
    amount: decimal.Decimal
    currency: str = pydantic.Field(default="EUR", alias="currencyCode")
    note: str = pydantic.Field(default="", serialization_alias="remark")


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime.datetime
    tags: set[str] = set()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Spot(NamedTuple):
    x: int
    y: int


class Name(str):
    """Not built in, though a kind of text."""


class Receipt:
    """What no JSON can be made of."""


class Life(NamedTuple):
    """What a step gave to its function, or how it failed."""

    value: Any
    error: str = ""


def same(one: Any, other: Any) -> bool:
    """Whether two values are of the same types and content throughout: NaN is NaN, and a time has its zone."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(map(same, one.items(), other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    if isinstance(one, (float, complex, decimal.Decimal, datetime.datetime, datetime.time)):
        return repr(one) == repr(other)
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    if isinstance(one, msgspec.Struct):
        return same(msgspec.structs.asdict(one), msgspec.structs.asdict(other))
    if isinstance(one, pydantic.BaseModel):
        return same(one.__dict__, other.__dict__)
    return bool(one == other)


async def two_lives(function: Callable[..., Any]) -> tuple[Life, Life]:
    """What a step gives when it is done, and what the log gives back of it."""
    threads, step = Threads(1), Step("look", 1)
    try:
        first = Life(await do_step(step, function, (), 0, threads))
        line = v1.encode(step)
        return Life(None, step.error) if step.error else first, _again(line, function)
    finally:
        threads.close()


def _again(line: bytes, function: Callable[..., Any]) -> Life:
    try:
        return Life(value_of(msgspec.json.decode(line, type=Step), function))
    except StepFailed as error:
        return Life(None, str(error))


def giving(value: Any, *annotation: Any) -> Callable[..., Any]:
    async def look() -> Any:
        return value

    look.__annotations__ = {"return": annotation[0]} if annotation else {}
    return look


# Every kind of value there is JSON or a tag for

KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.floats(), st.binary(), st.dates(), st.uuids())
ZONES = st.one_of(st.none(), st.just(UTC), st.timezones(), st.just(datetime.timezone(datetime.timedelta(seconds=-4321))))
BUILT_IN = st.recursive(
    st.one_of(
        KEYS,
        st.text(st.characters()),
        st.integers(min_value=-(10**400), max_value=10**400),
        st.complex_numbers(),
        st.binary().map(bytearray),
        st.datetimes(timezones=ZONES),
        st.times(timezones=st.sampled_from([None, UTC])),
        st.timedeltas(),
        st.decimals(),
        st.sampled_from([pathlib.Path("a/b"), "$", {"$": 1}, {"$": "tuple", "of": []}, "\ud800", {"\udfff": 1}]),
    ),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(KEYS, inner),
        st.dictionaries(st.text(), inner),
        st.sets(KEYS),
        st.frozensets(KEYS),
        st.dictionaries(KEYS, inner).map(collections.OrderedDict),
    ),
    max_leaves=12,
)
ANNOTATIONS: list[Any] = [
    int,
    str,
    float,
    bool,
    bytes,
    None,
    dict,
    list,
    tuple,
    dict[int, str],
    Flight | None,
    Any,
    "int",
    "Nothing",
]


@settings(deadline=None)
@given(value=BUILT_IN, annotation=st.sampled_from([(), *((found,) for found in ANNOTATIONS)]))
async def test_a_built_in_value_comes_back_as_it_was_whatever_the_annotation_says(value: Any, annotation: tuple[Any, ...]) -> None:
    """Rule 17: what is given in the first life is given in every other, to the last type inside."""
    first, second = await two_lives(giving(value, *annotation))
    assert not first.error
    assert same(first.value, value)
    assert same(second.value, value)


# Every kind of class, in every kind of place

FLIGHTS = st.builds(Flight, st.text(), st.floats(), st.dictionaries(st.integers(), st.text()), BUILT_IN)
OBJECTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Flight, FLIGHTS),
    (Flight, st.builds(Delayed, st.text(), minutes=st.integers())),
    (Ticket, st.builds(Ticket, st.text())),
    (Hotel, st.builds(Hotel, st.integers(), st.binary())),
    (Price, st.builds(Price, amount=st.decimals(allow_nan=False, allow_infinity=False), currencyCode=st.text())),
    (Strict, st.builds(Strict, at=st.datetimes(timezones=ZONES), tags=st.sets(st.text()))),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Spot, st.builds(Spot, st.integers(), st.integers())),
    (Name, st.text().map(Name)),
    (pathlib.Path, st.just(pathlib.Path("a"))),
]
T = cast(Any, TypeVar("T"))
LIST, TUPLE, DICT = cast(Any, list), cast(Any, tuple), cast(Any, dict)  # a type checker would take list[T] for an annotation
PLACES: list[tuple[Any, Callable[[Any], Any]]] = [
    (T, lambda value: value),
    (T | None, lambda value: value),
    (T | str | list[int], lambda value: value),
    (LIST[T], lambda value: [value, value]),
    (LIST[T | None], lambda value: [value, None]),
    (TUPLE[T, ...], lambda value: (value,)),
    (TUPLE[int, T], lambda value: (1, value)),
    (DICT[str, T], lambda value: {"a": value}),
    (DICT[int, LIST[T]], lambda value: {1: [value]}),
    (dict[str, Any], lambda value: {"a": value}),
    (Any, lambda value: value),
    (int, lambda value: value),
]


def filled(annotation: Any, class_: Any) -> Any:
    if annotation is T:
        return class_
    return annotation[class_] if getattr(annotation, "__parameters__", ()) else annotation


@settings(deadline=None)
@given(data=st.data())
async def test_an_object_is_the_same_in_every_life_or_refused_in_the_first(data: st.DataObject) -> None:
    """Rule 17: a type that does not survive is noticed when it is given, not after a crash."""
    class_, values = data.draw(st.sampled_from(OBJECTS))
    annotation, place = data.draw(st.sampled_from(PLACES))
    first, second = await two_lives(giving(place(data.draw(values)), filled(annotation, class_)))
    assert first.error == second.error
    assert same(first.value, second.value)
    assert bool(first.error) == first.error.startswith("step 'look' was done, but gave a")


AT = datetime.datetime(2026, 3, 1, 9, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Rome"))
KEPT: list[tuple[Any, Any]] = [
    (Flight, Flight("AZ 1", math.nan, {1: "A"}, (1, b"x"))),
    (Flight | None, Flight("AZ 1")),
    (list[Flight], [Flight("AZ 1", math.inf)]),
    (Flight | Hotel | Price, Hotel(5)),
    (Flight | Hotel | Price, Price(amount=decimal.Decimal("1.50"))),
    (Flight | dict[str, int], {"number": 1}),
    (Flight | dict[str, int], Flight("AZ 1")),
    (Ticket, Ticket("x")),
    (Hotel, Hotel(5, b"\xff")),
    (Price | None, Price(amount=decimal.Decimal("1.50"), currencyCode="USD", note="net")),
    (list[Price], [Price(amount=decimal.Decimal(1))]),
    (dict[str, Price], {"a": Price(amount=decimal.Decimal(1))}),
    (dict[int, tuple[Price, int]], {1: (Price(amount=decimal.Decimal(1)), 2)}),
    (Strict, Strict(at=AT.replace(tzinfo=None), tags={"a"})),
    (Colour, Colour.RED),
    (dict[Colour, Level], {Colour.RED: Level.LOW}),
    (Spot, Spot(1, 2)),
    (Name, Name("Ada")),
    (dict[str, int], collections.Counter("aab")),
    (datetime.datetime, AT),
    (int, True),
    (float, 1),
    (str, None),
    (None, (1, 2)),
]


@pytest.mark.parametrize(("annotation", "value"), KEPT, ids=str)
async def test_what_an_annotation_names_comes_back_as_it_was(annotation: Any, value: Any) -> None:
    first, second = await two_lives(giving(value, annotation))
    assert (first.error, second.error) == ("", "")
    assert same(first.value, value)
    assert same(second.value, value)


def generator() -> Iterator[int]:
    yield 1


REFUSED: list[tuple[tuple[Any, ...], Any, str]] = [
    ((), Receipt(), "a Receipt, which can't be written as JSON"),
    ((Receipt,), [Receipt()], "a list with a Receipt in it, which can't be written as JSON"),
    ((), Flight("AZ 1"), "a Flight, and the function does not say so: give it a return annotation"),
    ((Any,), [Flight("AZ 1")], r"a list with a Flight in it, .* a return annotation"),
    (("Nothing",), Flight("AZ 1"), "its annotation 'Nothing' can't be resolved: name 'Nothing' is not defined"),
    ((Flight,), Delayed("AZ 1", minutes=5), "a Delayed, which does not come back the same by its annotation Flight"),
    ((Hotel,), Flight("AZ 1"), "a Flight, which its annotation Hotel can't read back"),
    ((list[Flight | Delayed],), [Flight("AZ 1")], "more than one dataclass"),
    ((), generator(), "a generator, which can't be written as JSON"),
]


@pytest.mark.parametrize(("annotation", "value", "reason"), REFUSED, ids=[reason for *_, reason in REFUSED])
async def test_what_does_not_survive_is_refused_in_the_first_life_and_says_why(
    annotation: tuple[Any, ...], value: Any, reason: str
) -> None:
    first, second = await two_lives(giving(value, *annotation))
    assert first == second
    with pytest.raises(StepFailed, match=f"step 'look' was done, but gave .*{reason}"):
        raise StepFailed(first.error)


async def test_a_value_does_not_change_with_the_object_it_was_given_from() -> None:
    """The function goes on with what was read back: in the next life there is nothing else."""
    cache: list[Any] = [1]
    first, second = await two_lives(giving(cache, list[int]))
    cache.append(2)
    assert first.value == second.value == [1]


class Looks:
    """Callables whose annotation is not their own."""

    def __call__(self) -> Flight:
        return Flight("AZ 1")

    async def look(self) -> "Flight":
        return Flight("AZ 1")


async def look(number: str) -> Flight:
    return Flight(number)


@pytest.mark.parametrize(
    "function",
    [Looks(), Looks().look, functools.partial(look, "AZ 1"), functools.partial(Flight, "AZ 1"), functools.partial(Looks().look)],
    ids=["object", "method", "partial", "class", "partial method"],
)
async def test_the_annotation_is_found_behind_every_callable(function: Callable[..., Any]) -> None:
    first, second = await two_lives(function)
    assert first == second == Life(Flight("AZ 1"))


async def test_a_plain_callable_that_gives_an_awaitable_is_awaited() -> None:
    """`ctx.step(lambda: fetch(x))` is what people write; awaited on the loop, not in the thread that called it."""

    async def fetch(text: str) -> str:
        return text.upper()

    first, second = await two_lives(lambda: fetch("a"))
    assert first == second == Life("A")


async def test_the_text_of_an_error_is_always_kept() -> None:
    """An error that could not be written would be forgotten, and its step done again."""

    def fail() -> None:
        raise OSError("no file \udcff" + "x" * 1_000_000)

    first, second = await two_lives(fail)
    assert first.error.startswith("OSError: no file ?x")
    assert len(first.error) == 10_000
    assert second.error == first.error.removeprefix("OSError: ")  # the class says it


async def test_results_of_earlier_releases_are_read_by_the_annotation() -> None:
    """D9: what is in a log stays readable."""
    old = b'{"name":"look","n":1,"value":{"number":"AZ 1","seats":{"1":"A"}}}'
    assert _again(old, giving(None, Flight)) == Life(Flight("AZ 1", seats={1: "A"}))
    assert _again(b'{"name":"look","n":1,"value":[1,"a"]}', giving(None)) == Life([1, "a"])


async def test_a_class_that_got_a_field_reads_what_was_kept_without_it() -> None:
    """Code changes while a task waits: a field with a default is no reason to fail."""
    first, _ = await two_lives(giving(Ticket("x"), Ticket))

    @dataclasses.dataclass
    class Wider:
        code: str
        seat: str = "any"

    assert first.value.code == "x"
    assert _again(b'{"name":"look","n":1,"value":{"code":"x"},"form":"as"}', giving(None, Wider)) == Life(Wider("x"))
    assert "does not fit" in _again(b'{"name":"look","n":1,"value":{"code":"x"},"form":"as"}', giving(None, Hotel)).error


def test_models_inside_containers_are_read_from_messages_too() -> None:
    found = Shape(list[Price] | None).read([{"amount": "1.5", "currencyCode": "USD"}], "answer")
    assert found == [Price(amount=decimal.Decimal("1.5"), currencyCode="USD")]
