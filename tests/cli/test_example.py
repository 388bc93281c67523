"""The line `accord serve` prints works, whatever the first skill takes."""

import dataclasses
import datetime
import enum
import json
import shlex
import sys
from typing import Annotated, Literal

import msgspec
import pydantic
import pytest

from accord import Agent, Caller, File, Message
from accord.auth import OIDC, ApiKeys, Basic, Credentials, MutualTLS, scheme
from accord.cli.example import credential_words, example_line, example_words
from accord.engine.skills import definition_of
from accord.model import HTTPAuthSecurityScheme, Part, Role, SecurityScheme
from tests.cli.shell import served
from tests.processes import run_sync


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
    definition_of(agent).resolve()
    words = iter(
        shlex.split(example_words(definition_of(agent).default, is_alone=True, file="team.py"))
    )
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
    definition_of(agent).default.binding.values(
        Message(message_id="m", role=Role.USER, parts=parts)
    )


SESSION = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Session"))


@scheme(SESSION)
async def session(request: Credentials) -> Caller | None:
    return None


@pytest.mark.parametrize(("auth", "words"), [
    (ApiKeys(), "--api-key KEY"),
    (OIDC("https://id.example", audience="team") | ApiKeys(), "--bearer TOKEN"),
    (MutualTLS() & ApiKeys(), "--client-cert CERTIFICATE.pem --api-key KEY"),
    (Basic({"ada": "x"}), '--header "Authorization: Basic $(printf USER:PASSWORD | base64)"'),
    (session, '--header "Authorization: Session CREDENTIALS"'),
])  # fmt: skip
def test_the_line_to_try_has_what_the_first_scheme_wants(auth, words):
    assert credential_words(Agent("Team", auth=auth).auth) == words


def test_the_line_to_try_an_agent_with_passwords_works(tmp_path):
    """As it is printed, typed into a shell, with the name and the password in their places."""
    (tmp_path / "team.py").write_text(
        "from accord import Agent\nfrom accord.auth import Basic\n"
        "agent = Agent('Team', auth=Basic({'ada': 'swordfish'}))\n"
        "@agent.skill\nasync def greet(name: str) -> str:\n    return f'Hi {name}'\n"
    )
    with served("team.py", "--store", "memory://", cwd=tmp_path) as (_, url):
        line = f"accord send {url} Ada {credential_words(Basic({'ada': 'x'}))}"
        typed = line.replace("USER:PASSWORD", "ada:swordfish").removeprefix("accord ")
        done = run_sync("sh", "-c", f"{sys.executable} -m accord {typed}", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out == "Hi Ada\n"


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
    definition_of(agent).resolve()
    line = example_line(
        "URL", definition_of(agent).default, is_alone=True, file="team.py", modes=modes
    )
    assert line == f"{source}accord send URL {words}"


def test_the_example_of_a_module_makes_its_file():
    agent = Agent("Team")
    agent.skill(file)
    definition_of(agent).resolve()
    line = example_line("URL", definition_of(agent).default, is_alone=True)
    assert line == "echo Hello | accord send URL --file - --media-type text/plain"
