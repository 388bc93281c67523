"""Types as people write them, their schemas and a value of each: what forms are tested with.

`python -m tests.console.schemas` writes them anew.
"""

import datetime
import enum
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic

from accord.schema import json_schema, to_builtins

FILE = Path(__file__).parents[2] / "console" / "tests" / "schemas.json"


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Place(msgspec.Struct):
    city: str
    country: str = "Italy"


@dataclass
class Trip:
    place: Place
    days: int = 2
    tags: list[str] = field(default_factory=list)


class Person(pydantic.BaseModel):
    name: str
    age: int | None = None
    mail: str = pydantic.Field(default="", description="Where to write to")


class Team(pydantic.BaseModel):
    people: list[Person]
    lead: Person | None = None


class Flags(TypedDict, total=False):
    fast: bool
    safe: bool


class Node(msgspec.Struct):
    name: str
    below: list["Node"] = []


PLAIN: list[tuple[Any, list[Any]]] = [
    (str, ["", "a", "é\n"]),
    (int, [0, -7, 2**53 - 1]),
    (float, [0.5, -1e-7, 3.0]),
    (bool, [True, False]),
    (datetime.date, [datetime.date(2026, 5, 31)]),
    (datetime.time, [datetime.time(12, 30)]),
    (datetime.datetime, [datetime.datetime(2026, 5, 31, 12, tzinfo=datetime.UTC)]),
    (Color, [Color.RED, Color.BLUE]),
    (Size, [Size.SMALL]),
    (Literal["a", "b"], ["b"]),
    (Literal[1, 2], [2]),
    (Literal["a", 1], [1]),
    (int | None, [3, None]),
    (str | None, ["x", None]),
    (int | str, [3, "x"]),
    (list[int], [[], [1, 2]]),
    (list[str], [["a", "b"]]),
    (list[bool], [[True, False]]),
    (list[list[int]], [[[1], [2, 3]]]),
    (list[Color], [[Color.RED]]),
    (dict[str, int], [{"a": 1}]),
    (dict[str, Any], [{"a": [1, {"b": None}]}]),
    (Any, [1, "a", {"b": []}]),
    (Annotated[int, msgspec.Meta(ge=1, le=9)], [5]),
    (Annotated[str, msgspec.Meta(min_length=1, title="Name")], ["x"]),
    (Place, [Place("Rome"), Place("Oslo", "Norway")]),
    (list[Place], [[Place("Rome")]]),
    (Place | None, [Place("Rome"), None]),
    (dict[str, Place], [{"a": Place("Rome")}]),
    (Trip, [Trip(Place("Rome")), Trip(Place("Oslo"), 3, ["cold"])]),
    (Person, [Person(name="Ada"), Person(name="Ada", age=36, mail="a@b.example")]),
    (Team, [Team(people=[Person(name="Ada")]), Team(people=[], lead=Person(name="Bob"))]),
    (Flags, [{"fast": True}, {}]),
    (Node, [Node("a"), Node("a", [Node("b", [Node("c")])])]),
]


def cases() -> list[dict[str, Any]]:
    found = []
    for type_, values in PLAIN:
        schema = json_schema(type_)
        for value in values:
            name = f"{getattr(type_, '__name__', type_)} {value!r}"
            found.append({"name": name, "schema": schema, "value": to_builtins(value)})
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(cases(), indent=1) + "\n")
