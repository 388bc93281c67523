"""Agents of other frameworks, wrapped: the same is promised of each of them."""

import asyncio
import base64
import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from accord import Agent, ContentTypeNotSupported, File, Limits, connect
from tests.cli.shell import found
from tests.integrations.frameworks.agents import script
from tests.integrations.frameworks.installed import INSTALLED
from tests.processes import start, until

ROOT = Path(__file__).parents[3]
YES = {"type": "boolean"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
FILES = [
    File(base64.b64decode(PIXEL), name="photo.png"),
    File(b"ID3 sound", name="talk.mp3"),
    File(b"\0\0\0\x18ftypmp42 a film", name="film.mp4"),
    File(b"%PDF-1.4 a page", name="a page, signed.pdf"),
]

# What frameworks warn of in their own code is not ours to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ImportWarning"),
]


@pytest.fixture(params=INSTALLED)
def file(request: pytest.FixtureRequest) -> Path:
    return Path(__file__).parent / "agents" / f"with_{request.param}.py"


@pytest.fixture
def made(file: Path) -> ModuleType:
    """The four agents of a framework."""
    script.booked.clear()
    script.stopped.clear()
    script.seen.clear()
    script.thinking.clear()
    return importlib.import_module(f"tests.integrations.frameworks.agents.{file.stem}")


def answered(*said: str) -> str:
    return "".join(script.answer(list(said))).strip()


def schema_in(reply: Any) -> Any:
    """The schema of the answer a question wants; None if any text will do."""
    parts = reply.task.status.message.parts[1:]
    return parts[0].data if parts else None


async def test_tokens_are_streamed_as_they_come(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.talker)) as client:
        texts = [text async for text in client.stream("hello").text()]
    assert len(texts) > 1
    assert "".join(texts).strip() == answered("hello")


async def test_a_second_turn_remembers_the_first(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.talker)) as client:
        talk = client.conversation()
        await talk.send("I am Ada")
        assert (await talk.send("Who am I?")).text.strip() == answered("I am Ada", "Who am I?")


async def test_two_conversations_at_once_do_not_mix(made: ModuleType) -> None:
    async def converse(client: Any, name: str) -> str:
        talk = client.conversation()
        for n in range(3):
            reply = await talk.send(f"{name} {n}")
        return str(reply.text).strip()

    async with connect(Agent.wrap(made.talker)) as client:
        said = list(await asyncio.gather(converse(client, "a"), converse(client, "b")))
    assert said == [answered(f"{name} 0", f"{name} 1", f"{name} 2") for name in "ab"]


@pytest.mark.parametrize("sent", FILES, ids=lambda file: file.media_type)
async def test_a_file_reaches_the_model_and_stays_in_the_history(
    made: ModuleType, sent: File
) -> None:
    """Or it is refused, where the framework has no form for it. The model saw nothing of it, and
    the task was completed.
    """
    async with connect(Agent.wrap(made.talker)) as client:
        talk = client.conversation()
        if sent.media_type not in getattr(made, "TAKES", [sent.media_type]):
            with pytest.raises(ContentTypeNotSupported, match=sent.media_type):
                await talk.send(["look", sent])
            return
        assert (await talk.send(["look", sent])).text.strip() == answered("look")
        assert script.seen == [sent.data]
        assert (await talk.send("again")).text.strip() == answered("look", "again")
        assert script.seen == [sent.data] * 2


@pytest.mark.parametrize("size", [200_000, 6_000_000], ids=["in the message", "uploaded"])
async def test_a_file_that_lies_outside_of_the_log_reaches_the_model_whole(
    made: ModuleType, size: int
) -> None:
    """One that the message had lies in the file store, and so does one that was uploaded first."""
    sent = File(b"%PDF-1.4 " + b"a page " * (size // 7), name="book.pdf")
    app = Agent.wrap(made.talker).app(limits=Limits(state_size=64 << 20))
    async with app.serving() as url, connect(url) as client:
        if sent.media_type not in getattr(made, "TAKES", [sent.media_type]):
            with pytest.raises(ContentTypeNotSupported, match=sent.media_type):
                await client.send(["look", sent])
            assert script.thinking == []
            return
        assert (await client.send(["look", sent])).text.strip() == answered("look")
    assert script.seen == [sent.data]


async def test_a_file_of_text_is_told_as_text(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.talker)) as client:
        reply = await client.send(["sum it up", File("a;b", name="table.csv")])
    assert answered("sum it up\n\ntable.csv:\na;b") == reply.text.strip()


@pytest.mark.parametrize("card", [{}, {"strict_modes": False}], ids=["as it is", "not strict"])
async def test_a_file_that_can_not_be_passed_on_is_refused(made: ModuleType, card: Any) -> None:
    """It would be lost without a word. Nothing is asked of the model."""
    sent = [File(b"?", media_type="application/octet-stream")]
    if getattr(made, "TAKES", True) == ():
        sent += FILES
    if not card:
        sent.append(File(b"PK", name="all.zip"))
    async with connect(Agent.wrap(made.talker, **card)) as client:
        for file in sent:
            with pytest.raises(ContentTypeNotSupported, match=file.media_type):
                await client.send(["look", file])
    assert script.thinking == []


async def test_a_question_is_not_answered_with_a_file(made: ModuleType) -> None:
    if getattr(made, "ASKS_INSIDE", False):
        pytest.skip("this framework asks by ctx.ask")
    async with connect(Agent.wrap(made.booker)) as client:
        asked = await client.send("book it")
        reply = await client.send(["yes", File("y", name="y.txt")], task_id=asked.task_id)
        assert reply.question.startswith("That does not fit: answer with text, without files")


async def test_twenty_turns_at_once_get_their_own_answers(made: ModuleType) -> None:
    """Frameworks have agents that hold one conversation, and locks against a second one."""
    said = [f"I am caller {n}" for n in range(20)]
    async with connect(Agent.wrap(made.talker)) as client:
        replies = await asyncio.gather(*(client.send(text) for text in said))
    assert [reply.text.strip() for reply in replies] == [answered(text) for text in said]
    assert max(script.thinking) > 1  # else nothing was seen here


async def test_twenty_structured_results_at_once_are_data(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.typed)) as client:
        replies = await asyncio.gather(*(client.send("a trip") for _ in range(20)))
    assert [reply.data for reply in replies] == [{"city": "Rome", "days": 3}] * 20
    assert max(script.thinking) > 1


async def test_twenty_questions_at_once_get_their_own_answers(made: ModuleType) -> None:
    allowed = [n % 2 == 0 for n in range(20)]
    async with connect(Agent.wrap(made.booker)) as client:
        asked = await asyncio.gather(*(client.send("book it") for _ in allowed))
        assert {reply.question for reply in asked} == {'Allow book(city="Rome")?'}
        ended = [one.answer(is_yes) for one, is_yes in zip(asked, allowed, strict=True)]
        replies = await asyncio.gather(*ended)
    assert ["booked Rome" in reply.text for reply in replies] == allowed
    assert script.booked == ["Rome"] * 10
    assert max(script.thinking) > 1


@pytest.mark.parametrize("is_yes", [True, False])
async def test_a_tool_that_needs_a_person_asks_and_goes_on_with_the_answer(
    made: ModuleType, is_yes: bool
) -> None:
    """What is called is told as status; what was asked is part of the conversation."""
    async with connect(Agent.wrap(made.booker)) as client:
        await client.send("hello", context_id="c")
        stream = client.stream("book it", context_id="c")
        statuses = [
            event.status.message.text
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        assert "calls book" in statuses
        assert stream.reply.question == 'Allow book(city="Rome")?'
        assert schema_in(stream.reply) == getattr(made, "SCHEMA", YES)
        assert script.booked == []
        reply = await stream.reply.answer(is_yes)
        assert reply.state.word == "completed"
        assert reply.text.startswith("Done: ")
        assert script.booked == (["Rome"] if is_yes else [])
        assert ("booked Rome" in reply.text) is is_yes
        last = await client.send("thanks", context_id="c")
        assert last.text.strip() == answered("hello", "book it", "thanks")


async def test_an_answer_that_is_neither_yes_nor_no_is_asked_again(made: ModuleType) -> None:
    if getattr(made, "SCHEMA", YES) is None:
        pytest.skip("this framework takes any answer")
    async with connect(Agent.wrap(made.booker)) as client:
        reply = await client.send("book it")
        reply = await reply.answer("perhaps")
        assert reply.question.startswith("That does not fit: ")
        assert reply.question.endswith('Allow book(city="Rome")?')
        assert "booked Rome" in (await reply.answer("yes")).text


async def test_another_task_of_the_conversation_is_no_answer(made: ModuleType) -> None:
    """The question stays open, and what it is about is not part of the other task's history."""
    async with connect(Agent.wrap(made.booker)) as client:
        await client.send("hello", context_id="c")
        asked = await client.send("book it", context_id="c")
        other = await client.send("yes", context_id="c")
        assert other.text.strip() == answered("hello", "yes")
        assert "booked Rome" in (await asked.answer(True)).text


async def test_cancel_stops_the_model(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.slow)) as client:
        stream = client.stream("hello")
        async for text in stream.text():
            assert text.strip() == "Well,"
            await client.cancel(stream.reply.task_id)
            break
        await until(lambda: script.stopped == ["stopped"])


async def test_a_structured_result_is_data(made: ModuleType) -> None:
    async with connect(Agent.wrap(made.typed)) as client:
        reply = await client.send("a trip")
        assert reply.data == {"city": "Rome", "days": 3}
        assert reply.text == ""


async def test_the_card_names_the_agent(made: ModuleType) -> None:
    agent = Agent.wrap(made.talker, description="Talks.")
    async with connect(agent) as client:
        card = client.card
    assert (card.name, card.description) == ("Talker", "Talks.")
    assert [skill.id for skill in card.skills] == ["ask"]


async def test_a_question_is_answered_after_kill_9(
    made: ModuleType, file: Path, tmp_path: Path
) -> None:
    """Served as a user would, by its variable; the conversation is remembered too."""
    store = f"sqlite:///{tmp_path}/t.db"
    command = [sys.executable, "-m", "accord", "serve", f"{file}:booker", "--port", "0"]

    async def served() -> AsyncIterator[Any]:
        with start(*command, "--store", store, cwd=ROOT) as process:
            async with connect(found(r"http://[\d.:]+", await process.line(120))) as client:
                yield client
            process.kill()

    async for client in served():
        await client.send("hello", context_id="c")
        task_id = (await client.send("book it", context_id="c")).task_id
    async for client in served():
        reply = await client.send("yes", task_id=task_id)
        assert reply.text.strip() == "Done: booked Rome"
        last = await client.send("thanks", context_id="c")
        assert last.text.strip() == answered("hello", "book it", "thanks")
