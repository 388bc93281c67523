"""Skills called like functions, and answers as the types one wants."""

import inspect
from dataclasses import dataclass

import pydantic
import pytest

from accord import Agent, Context, InvalidParams, connect, connect_sync
from accord.client import CallFailed
from accord.client.streams.resume import ShownText
from accord.model import InvalidAgentResponse
from accord.net import Http, Request, Response, ResponseBody


@dataclass
class Trip:
    city: str
    days: int


class Wishes(pydantic.BaseModel):
    city: str
    days: int = 2


agent = Agent("Calls")


@agent.skill
async def add(a: int, b: int = 2) -> int:
    return a + b


@agent.skill
async def double(number: int) -> int:
    return 2 * number


@agent.skill
async def plan(wishes: Wishes) -> Trip:
    return Trip(wishes.city, wishes.days)


@agent.skill
async def greet(name: str) -> str:
    return f"Hello {name}"


@agent.skill
async def ask(request: str, ctx: Context) -> str:
    return await ctx.ask("Which one?")


@agent.skill
async def twice(request: str, ctx: Context) -> str:
    return f"{await ctx.ask('Which one?')} {await ctx.ask('And then?')}"


@agent.skill
async def write(request: str):
    for word in ("one ", "two ", "three"):
        yield word


@agent.skill
async def decline(request: str, ctx: Context) -> str:
    ctx.reject("not today")


async def test_a_skill_is_called_like_a_function():
    async with connect(agent) as client:
        assert await client.call("add", a=1, b=5) == 6
        assert await client.call("add", a=1) == 3
        assert await client.call("double", number=4) == 8
        assert await client.call("double", 4) == 8
        assert await client.call("greet", name="Mia") == "Hello Mia"
        assert await client.call("greet", "Mia") == "Hello Mia"


async def test_objects_go_in_and_types_come_out():
    async with connect(agent) as client:
        trip = await client.call("plan", Wishes(city="Rome"), returns=Trip)
        assert trip == Trip("Rome", 2)
        reply = await client.send(Wishes(city="Oslo", days=3), skill="plan")
        assert reply.as_(Trip) == Trip("Oslo", 3)
        with pytest.raises(InvalidAgentResponse, match="answer"):
            reply.as_(list[int])


async def test_what_does_not_fit_is_an_error_of_the_agent():
    async with connect(agent) as client:
        with pytest.raises(InvalidParams, match="expected a whole number, got text"):
            await client.call("add", a="one")
        with pytest.raises(TypeError, match="not both"):
            await client.call("add", 1, b=2)


@pytest.mark.parametrize(
    ("skill", "words"),
    [("ask", "ask is input-required: Which one?"), ("decline", "decline is rejected: not today")],
)
async def test_a_call_without_a_result_says_why(skill, words):
    async with connect(agent) as client:
        with pytest.raises(CallFailed, match=words.replace("?", "[?]")) as error:
            await client.call(skill, "go")
        assert error.value.reply.task_id


@pytest.mark.parametrize(
    ("skill", "ok", "error"),
    [("greet", True, ""), ("ask", False, ""), ("decline", False, "not today")],
)
async def test_a_reply_says_whether_it_went_well_and_why_not(skill, ok, error):
    """A question is neither: the work goes on with its answer."""
    async with connect(agent) as client:
        reply = await client.send("go", skill=skill)
        assert (reply.ok, reply.error) == (ok, error)
        if not error:
            assert reply.raise_for_failure() is reply
            return
        with pytest.raises(
            CallFailed, match=f"task {reply.task_id} is rejected: {error}"
        ) as failed:
            reply.raise_for_failure()
        assert failed.value.reply is reply


class Recorder:
    """Remembers the headers of what is sent."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.headers: list[dict[str, str]] = []

    async def fetch(self, request: Request, *, limit: int) -> Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        return await self._http.fetch(request, limit=limit)

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        return await self._http.open(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._http.close()


async def test_send_activates_an_extension_for_one_message_as_stream_does():
    """`send` has every option that `stream` has."""
    made: list[Recorder] = []

    def record(http: Http) -> Http:
        made.append(Recorder(http))
        return made[-1]

    async with connect(agent, wrap=record) as client:
        await client.send("Mia", skill="greet", extensions=["urn:example:mood"])
        await client.send("Mia", skill="greet")
        async for _ in client.stream("Mia", skill="greet", extensions=["urn:example:mood"]):
            pass
        options = inspect.signature(client.send).parameters
        assert set(inspect.signature(client.stream).parameters) <= set(options)
    sent = [headers.get("a2a-extensions", "") for one in made for headers in one.headers]
    assert ["urn:example:mood" in one for one in sent[-3:]] == [True, False, True]


async def test_a_question_met_by_a_call_can_be_answered():
    async with connect(agent) as client:
        with pytest.raises(CallFailed) as error:
            await client.call("ask", "go")
        assert (await error.value.reply.answer("the red one")).text == "the red one"


async def test_the_text_of_a_stream_as_it_comes():
    async with connect(agent) as client:
        texts = [text async for text in client.stream("go", skill="write").text()]
        assert "".join(texts) == "one two three"
        assert len(texts) > 1
        asked = [text async for text in client.stream("go", skill="ask").text()]
        assert asked == ["Which one?"]


async def test_a_conversation_names_a_skill_for_new_tasks_only():
    async with connect(agent) as client:
        talk = client.conversation()
        reply = await talk.send("go", skill="ask")
        assert reply.question == "Which one?"
        reply = await talk.send("blue", skill="ask")
        assert reply.text == "blue"
        assert (await talk.send("Mia", skill="greet")).text == "Hello Mia"


async def test_a_field_that_is_misspelt_is_noticed():
    """Before anything is sent, with the name that was meant: agents ignore fields they don't
    know.
    """
    async with connect(agent) as client:
        assert await client.call("add", a=1, b=2) == 3
        with pytest.raises(TypeError, match=r"'add' has no field 'bb'; did you mean 'b'\?.*a, b"):
            await client.call("add", a=1, bb=2)
        with pytest.raises(TypeError, match=r"has no field 'quantity' \(it takes a, b\)"):
            await client.call("add", a=1, quantity=2)


@pytest.mark.parametrize("asked_by", ["send", "stream"])
async def test_a_conversation_knows_of_answers_given_to_a_reply(asked_by):
    """Ask, answer, send again: the question is not open any more, whoever answered it."""
    async with connect(agent) as client:
        talk = client.conversation()
        if asked_by == "send":
            reply = await talk.send("go", skill="twice")
        else:
            stream = talk.stream("go", skill="twice")
            async for _ in stream:
                pass
            reply = stream.reply
        assert reply.question == "Which one?"
        reply = await reply.answer("blue")
        assert reply.question == "And then?"
        assert talk.last is reply
        reply = await reply.answer("red")
        assert reply.text == "blue red"
        assert talk.last is reply
        again = await talk.send("Mia", skill="greet")
        assert (again.text, again.context_id) == ("Hello Mia", reply.context_id)
        assert again.task_id != reply.task_id


def test_a_conversation_without_a_loop_knows_of_answers_too():
    """`connect_sync` wraps both."""
    with connect_sync(agent) as client:
        talk = client.conversation()
        assert talk.send("go", skill="ask").answer("blue").text == "blue"
        assert talk.send("Mia", skill="greet").text == "Hello Mia"


async def test_texts_of_a_task_that_failed_end_with_an_error():
    agent = Agent("Teller")

    @agent.skill
    async def tell(text: str):
        yield "Once upon a time"
        raise RuntimeError("the end")

    async with connect(agent) as client:
        texts = client.stream("go").text()
        assert await anext(texts) == "Once upon a time"
        with pytest.raises(CallFailed, match="Teller is failed"):
            await anext(texts)


def test_an_answer_that_is_written_again_is_shown_once():
    """A durable run goes on after a restart, and what it has said comes again first."""
    shown = ShownText()
    whole = [("You ", True), ("said ", False), ("You ", True), ("said ", False), ("yes", False)]
    assert "".join(shown.add(text, is_whole=is_whole) for text, is_whole in whole) == "You said yes"
    assert shown.add("Something else", is_whole=True) == "\nSomething else"
    assert shown.add("!", is_whole=False) == "!"


async def test_a_conversation_knows_what_was_streamed():
    agent = Agent("Chat")

    @agent.skill
    async def chat(text: str, ctx: Context):
        yield f"{len(ctx.state.setdefault('said', []))} before"
        ctx.state["said"].append(text)

    async with connect(agent) as client:
        talk = client.conversation()
        assert [text async for text in talk.stream("one").text()] == ["0 before"]
        assert talk.last is not None
        assert talk.last.text == "0 before"
        again = client.conversation(talk.context_id)
        assert (await again.send("two")).text == "1 before"
