"""The line `accord serve` prints works, whatever the first skill takes."""

import dataclasses
import datetime
import enum
import json
import shlex
from typing import Annotated, Literal

import msgspec
import pydantic
import pytest

from accord import Agent, File, Message
from accord.auth import ApiKeys
from accord.cli.example import credential_words, example_line, example_words
from accord.model import Part, Role


@dataclasses.dataclass
class Order:
    name: str
    crates: int


class Fruit(enum.Enum):
    PEAR = "pear"


class Crate(pydantic.BaseModel):
    weight: int = pydantic.Field(ge=5)
    packed: datetime.date
    fruit: Fruit


async def text(x: str) -> str: ...
async def whole(x: int) -> str: ...
async def fields(x: int, y: str = "q") -> str: ...
async def a_dataclass(x: Order) -> str: ...
async def a_model(x: Crate) -> str: ...
async def file(x: File) -> str: ...
async def files_and_text(x: list[File], q: str) -> str: ...
async def raw(x: bytes) -> str: ...
async def choice(x: Fruit) -> str: ...
async def literal(x: Literal["u", "v"]) -> str: ...
async def day(x: datetime.date) -> str: ...
async def moment(x: float, at: datetime.datetime, fruit: Fruit) -> str: ...
async def duration(x: datetime.timedelta) -> str: ...
async def nothing() -> str: ...
async def message(x: Message) -> str: ...
async def text_and_data(q: str, order: Order) -> str: ...
async def numbers(x: Annotated[list[int], msgspec.Meta(min_length=2)]) -> str: ...
async def optional(x: Order | None = None) -> str: ...
async def optional_file(x: File | None = None) -> str: ...
async def limits(
    x: Annotated[int, msgspec.Meta(gt=3, multiple_of=5)],
    y: Annotated[str, msgspec.Meta(min_length=10)],
) -> str: ...


SKILLS = [
    text, whole, fields, a_dataclass, a_model, file, files_and_text, raw, choice, literal, day,
    moment, duration, nothing, message, text_and_data, numbers, optional, optional_file, limits,
]  # fmt: skip


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.__name__)
def test_the_example_fits_the_skill(skill):
    agent = Agent("Team")
    agent.skill(skill)
    agent.resolve()
    words = iter(shlex.split(example_words(agent.default, is_alone=True, file="team.py")))
    parts = []
    for word in words:
        match word:
            case "--file":
                parts.append(Part(raw=b"x", filename=next(words)))
            case "--data":
                parts.append(Part(data=json.loads(next(words))))
            case _:
                parts.append(Part(text=word))
    assert parts
    agent.default.binding.values(Message(message_id="m", role=Role.USER, parts=parts))


def test_an_agent_with_keys_says_where_the_key_goes():
    assert credential_words(Agent("Team", auth=ApiKeys()).auth) == "--api-key KEY"


@pytest.mark.parametrize(("modes", "source", "words"), [
    ([], "", "--file team.py"),
    (["text/*"], "", "--file team.py"),
    (["text/csv"], "printf 'name,value\\nA,3\\nB,5\\n' | ", "--file - --media-type text/csv"),
    (["application/pdf", "text/html"], "echo '<p>Hello</p>' | ", "--file - --media-type text/html"),
    (["application/pdf"], "", "--file FILE.pdf"),
    (["made/up"], "", "--file FILE"),
])  # fmt: skip
def test_the_file_of_an_example_is_one_the_skill_takes(modes, source, words):
    """The file that is served, one made on the way, or a name that says what is needed."""
    agent = Agent("Team")
    agent.skill(file)
    agent.resolve()
    line = example_line("URL", agent.default, is_alone=True, file="team.py", modes=modes)
    assert line == f"{source}accord send URL {words}"


def test_the_example_of_a_module_makes_its_file():
    agent = Agent("Team")
    agent.skill(file)
    agent.resolve()
    line = example_line("URL", agent.default, is_alone=True)
    assert line == "echo Hello | accord send URL --file - --media-type text/plain"
