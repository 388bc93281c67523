"""Parameters filled from the parts of a message, by annotation."""

# mypy: disable-error-code="valid-type, attr-defined"
# Parameters are annotated with types that fixtures make.

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from accord import Ask, File, Message
from tests.drive import refusal_of, say, text_of


@dataclass
class Trip:
    city: str
    days: int = 2


@dataclass
class Leg:
    start: str
    end: str


class TripStruct(msgspec.Struct):
    city: str
    days: int = 2


class TripModel(pydantic.BaseModel):
    city: str
    days: int = 2


@pytest.fixture(params=[Trip, TripStruct, TripModel], ids=["dataclass", "msgspec", "pydantic"])
def trip(request):
    return request.param


async def test_text_is_all_text_parts_joined(connect):
    """`str` takes them with a newline between (design, rule 11)."""

    async def join(request: str):
        return repr(request)

    async with connect(join) as client:
        parts: list[Any] = [{"text": "one"}, {"data": 1}, {"text": ""}, {"text": "two"}]
        assert text_of((await client.send(say(parts)))["task"]) == r"'one\n\ntwo'"


async def test_a_message_without_text_is_no_text(connect):
    """ContentTypeNotSupported, and no task is made of it (SND-8; design, rule 11)."""

    async def read(request: str):
        return request

    async with connect(read) as client:
        refused = await refusal_of(client.send(say([{"data": {"a": 1}}])))
        assert (refused.reason, refused.detail) == (
            "CONTENT_TYPE_NOT_SUPPORTED",
            {"parameter": "request"},
        )
        assert (await client.list())["totalSize"] == 0


async def test_a_type_is_read_from_a_data_part(connect, trip):
    """Dataclass, msgspec or pydantic alike."""

    async def plan(wish: trip):
        return f"{type(wish) is trip} {wish.city} {wish.days}"

    async with connect(plan) as client:
        task = (
            await client.send(say([{"text": "please"}, {"data": {"city": "Rome", "days": 3}}]))
        )["task"]
        assert text_of(task) == "True Rome 3"


async def test_a_type_is_read_from_json_text(connect, trip):
    """For people and clients without data parts."""

    async def plan(wish: trip):
        return f"{wish.city} {wish.days}"

    async with connect(plan) as client:
        assert text_of((await client.send('{"city": "Rome"}'))["task"]) == "Rome 2"


async def test_data_that_does_not_fit_names_the_field(connect, trip):
    """InvalidParams with a violation per field (GEN-2, ERR-3; design, rule 11)."""

    async def plan(wish: trip):
        return wish.city

    async with connect(plan) as client:
        refused = await refusal_of(client.send(say([{"data": {"city": "Rome", "days": "many"}}])))
        assert (refused.reason, list(refused.violations)) == (
            "INVALID_PARAMS",
            ["message.parts[0].data.days"],
        )
        refused = await refusal_of(client.send(say([{"text": "x"}, {"data": {"days": 1}}])))
        assert list(refused.violations) == ["message.parts[1].data.city"]
        assert (await client.list())["totalSize"] == 0


async def test_plain_text_is_the_only_field_that_is_required(connect, trip):
    """A type with one text that it needs takes that from people, too."""

    async def plan(wish: trip):
        return f"{wish.city} {wish.days}"

    async with connect(plan) as client:
        assert text_of((await client.send("Rome, please"))["task"]) == "Rome, please 2"


async def test_text_that_is_no_json_is_not_taken_for_data(connect):
    """InvalidParams says what is needed, where it can't be known which field is meant (design, rule
    11).
    """

    async def plan(leg: Leg):
        return leg.start

    async with connect(plan) as client:
        refused = await refusal_of(client.send("Rome, please"))
        assert (refused.reason, list(refused.violations)) == ("INVALID_PARAMS", ["message.parts"])


async def test_text_and_data_go_to_different_parameters(connect):
    """Where one parameter takes the text, JSON in it is just text."""

    async def plan(request: str, wish: Trip | None = None):
        return f"{request} {wish and wish.city}"

    async with connect(plan) as client:
        both: list[Any] = [{"text": "go to"}, {"data": {"city": "Rome"}}]
        assert text_of((await client.send(say(both)))["task"]) == "go to Rome"
        assert text_of((await client.send('{"city": "Rome"}'))["task"]) == '{"city": "Rome"} None'


async def test_a_file_arrives_with_name_type_and_content(connect):
    """`File` takes the first file part."""

    async def look(file: File):
        return f"{file.name} {file.media_type} {file.text}"

    async with connect(look) as client:
        part = {"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/x-note"}
        assert text_of((await client.send(say([part])))["task"]) == "a.txt text/x-note hello"


async def test_files_arrive_as_a_list(connect):
    """`list[File]` takes them all, in order."""

    async def look(files: list[File]):
        return " ".join(file.name for file in files)

    async with connect(look) as client:
        parts = [
            {"raw": "", "filename": "a"},
            {"text": "and"},
            {"url": "https://x.example/b", "filename": "b"},
        ]
        assert text_of((await client.send(say(parts)))["task"]) == "a b"


async def test_a_url_is_handed_over_and_not_fetched(connect):
    """The File has its .url and no content: nobody makes the server call an address (OPS-3)."""

    async def look(file: File):
        return f"{file.url} {file.data!r}"

    async with connect(look) as client:
        assert (
            text_of((await client.send(say([{"url": "http://10.0.0.1/secret"}])))["task"])
            == "http://10.0.0.1/secret None"
        )


async def test_bytes_are_the_content_of_a_file(connect):
    """And a url has none: it is refused, not fetched."""

    async def size(content: bytes):
        return str(len(content))

    async with connect(size) as client:
        assert text_of((await client.send(say([{"raw": "aGVsbG8="}])))["task"]) == "5"
        for parts in ([{"url": "https://x.example/a"}], [{"text": "hello"}]):
            assert (
                await refusal_of(client.send(say(parts)))
            ).reason == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_a_missing_file_is_refused_unless_it_may_be_missing(connect):
    """A default or `| None` makes a parameter optional (design, rule 11)."""

    async def look(request: str, file: File | None = None):
        return f"{request} {file}"

    async with connect(look) as client:
        assert text_of((await client.send("hi"))["task"]) == "hi None"

    async def must(file: File):
        return file

    async with connect(must) as client:
        assert (await refusal_of(client.send("hi"))).reason == "CONTENT_TYPE_NOT_SUPPORTED"


async def test_a_message_arrives_whole(connect):
    """`Message` is the message as it was sent."""

    async def look(request: Message):
        return (
            f"{request.message_id} {[bool(p.media_type) for p in request.parts]} {request.metadata}"
        )

    async with connect(look) as client:
        sent = say(
            [{"text": "a", "mediaType": "text/markdown"}, {"data": None}],
            messageId="m-x",
            metadata={"k": [1, None]},
        )
        assert text_of((await client.send(sent))["task"]) == "m-x [True, False] {'k': [1, None]}"


async def test_any_dict_is_data(connect):
    """Where no type is wanted."""

    async def look(data: dict):
        return ",".join(data)

    async with connect(look) as client:
        assert text_of((await client.send(say([{"data": {"a": 1, "b": 2}}])))["task"]) == "a,b"


async def test_an_answer_that_cannot_be_bound_leaves_the_task_as_it_is(connect):
    """Binding comes before anything is stored, for later messages too (design, rule 11)."""

    async def plan(leg: Leg):
        return Ask("From where?") if leg.start == "?" else leg.start

    async with connect(plan) as client:
        asked = (await client.send('{"start": "?", "end": "Oslo"}'))["task"]
        assert (
            await refusal_of(client.send(say("Rome", taskId=asked["id"])))
        ).reason == "INVALID_PARAMS"
        assert await client.get(asked["id"]) == asked
        answer = say('{"start": "Rome", "end": "Oslo"}', taskId=asked["id"])
        assert text_of((await client.send(answer))["task"]) == "Rome"


async def test_odd_media_types_are_taken_as_they_come(connect):
    """Parts are not refused for what they say they are, unless told to be strict (design, rule
    11).
    """

    async def read(request: str):
        return request

    async with connect(read) as client:
        sent = say([{"text": "hi", "mediaType": "application/x-odd"}])
        assert text_of((await client.send(sent))["task"]) == "hi"
