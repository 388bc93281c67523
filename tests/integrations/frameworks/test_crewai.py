"""What only CrewAI has: crews, flows, and models in threads."""

import asyncio
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai", reason="crewai is not installed here")

from crewai import Agent as Member
from crewai import Crew
from crewai.flow import (
    ConversationConfig,
    ConversationState,
    Flow,
    human_feedback,
    listen,
    start,
)
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.tools import tool
from pydantic import BaseModel

from accord import Agent, InvalidParams, connect
from accord.cli.load import load_agent
from accord.client import Client
from accord.tools import from_agent
from tests.cli.shell import found
from tests.integrations.agents import served, trip_planner
from tests.integrations.frameworks.agents import script
from tests.processes import start as start_process
from tests.processes import until

with warnings.catch_warnings():  # CrewAI's own, when agents are made
    warnings.simplefilter("ignore")
    from tests.integrations.frameworks.agents import crews
    from tests.integrations.frameworks.agents.crews import Scripted, member, task
    from tests.integrations.frameworks.agents.with_crewai import SlowModel

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def statuses(events: list[Any]) -> list[str]:
    return [
        one.status.message.text
        for one in events
        if getattr(one, "status", None) and one.status.message
    ]


async def test_only_the_last_task_of_a_crew_is_streamed() -> None:
    first = member(lambda said: "a draft", role="Drafter")
    second = member(lambda said: "the last word", role="Writer")
    crew = Crew(
        name="Two", agents=[first, second], tasks=[task("Draft", first), task("Write", second)]
    )
    async with connect(Agent.wrap(crew)) as client:
        stream = client.stream("go")
        events = [event async for event in stream]
        texts = [
            str(part.text)
            for event in events
            if getattr(event, "artifact", None)
            for part in event.artifact.parts
        ]
    assert "".join(texts).strip() == stream.reply.text.strip() == "the last word"
    assert len(texts) > 1
    assert statuses(events) == ["Drafter is done with: Draft", "Writer is done with: Write"]


async def test_a_model_that_shall_not_stream_gives_the_result_whole() -> None:
    agent = member(lambda said: "all at once")
    agent.llm.stream = False
    async with connect(Agent.wrap(agent, name="Whole")) as client:
        assert [text async for text in client.stream("go").text()] == ["all at once "]


async def test_what_a_model_thinks_before_its_answer_is_not_shown() -> None:
    """Models without calls of tools are prompted to think in the same text."""

    @tool("weigh")
    def weigh(thing: str) -> str:
        """Weigh a thing."""
        return f"{thing}: 3 kg"

    def says(messages: list[str]) -> str:
        if any("it: 3 kg" in text for text in messages):
            return "Thought: I know it now.\nFinal Answer: It is 3 kg."
        return 'Thought: I have to weigh it.\nAction: weigh\nAction Input: {"thing": "it"}'

    async with connect(Agent.wrap(member(says, tools=[weigh]), name="Scales")) as client:
        stream = client.stream("How heavy is it?")
        events = [event async for event in stream]
    assert stream.reply.text.strip() == "It is 3 kg."
    assert "calls weigh" in statuses(events)


async def test_a_task_with_human_input_asks_until_a_person_says_yes() -> None:
    async with connect(Agent.wrap(crews.reviewed)) as client:
        asked = await client.send("a trip")
        assert asked.question.startswith("two days in Rome")
        asked = await asked.answer("more museums")
        assert asked.question.startswith("two days in museums")
        done = await asked.answer("yes")
    assert (done.state.word, done.text.strip()) == ("completed", "two days in museums")


class AsksOnTheLoop(Flow):
    @start()
    async def ask_once(self) -> str:
        return str(self.ask("Which city?"))


async def test_a_flow_asks_in_the_middle_of_a_method() -> None:
    async with connect(Agent.wrap(crews.asking)) as client:
        asked = await client.send("a trip")
        assert asked.question == "Which city?"
        asked = await asked.answer("Rome")
        assert asked.question == "How many days in Rome?"
        assert (await asked.answer("3")).text == "3 days in Rome"


async def test_a_flow_that_waits_for_an_answer_is_cancelled() -> None:
    """Its thread ends too."""
    ended = threading.Event()

    class Waits(Flow):
        @start()
        def wait(self) -> None:
            try:
                self.ask("Which city?")
            finally:
                ended.set()

    async with connect(Agent.wrap(Waits())) as client:
        asked = await client.send("a trip")
        assert (await client.cancel(asked.task_id)).state.word == "canceled"
        await until(ended.is_set)


async def test_a_flow_asks_in_an_async_method() -> None:
    """It stops the loop of its own thread, and not that of the server."""
    async with connect(Agent.wrap(AsksOnTheLoop())) as client:
        asked = await client.send("a trip")
        assert asked.question == "Which city?"
        assert (await asked.answer("Rome")).text == "Rome"


async def test_what_blocks_the_event_loop_of_a_turn_does_not_block_the_server() -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Blocks(Flow):
        @start()
        async def block(self) -> str:
            begun.set()
            return f"was told: {may_end.wait(60)}"

    async with connect(Agent.wrap(Blocks())) as client:
        task_id = (await client.send("go", wait=False)).task_id
        await until(begun.is_set)
        assert (await client.get(task_id)).state.word == "working"
        may_end.set()
        assert (await client.wait(task_id)).text == "was told: True"


async def test_feedback_that_chooses_names_the_choices_and_what_it_is_about() -> None:
    class Review(Flow):
        @start()
        @human_feedback(
            message="Publish this?",
            emit=["publish", "discard"],
            llm=Scripted(model="fake", says=lambda said: "publish"),
        )
        def write(self) -> str:
            return "An article."

        @listen("publish")
        def send(self) -> str:
            return "published"

    async with connect(Agent.wrap(Review())) as client:
        asked = await client.send("go")
        assert asked.question == "Publish this?\nAn article.\nOne of: publish, discard"


class Counted(BaseModel):
    text: str = ""
    count: int = 0


class Counter(Flow[Counted]):
    @start()
    def count(self) -> str:
        self.state.count += 1
        return f"{self.state.text}: {self.state.count}"


async def test_a_flow_keeps_its_state_where_its_own_persistence_is(tmp_path: Path) -> None:
    """By caller and conversation, as ours does."""
    from crewai.flow import persist

    store = SQLiteFlowPersistence(f"{tmp_path}/flows.db")
    flow = persist(store)(Counter)()
    said = []
    for _ in range(2):
        async with connect(Agent.wrap(flow)) as client:
            said.append((await client.send({"text": "here"}, context_id="c")).text)
            assert (await client.send({"text": "there"})).text == "there: 1"
    assert said == ["here: 1", "here: 2"]


async def test_text_for_a_flow_with_several_fields_is_refused_with_their_names() -> None:
    async with connect(Agent.wrap(Counter())) as client:
        with pytest.raises(InvalidParams, match="a data part with fields of text, count"):
            await client.send("here")


async def test_what_several_models_of_a_flow_say_is_apart_and_its_result_comes_last() -> None:
    class Writes(Flow):
        @start()
        def write(self) -> str:
            for text in ("a draft", "better"):
                llm = Scripted(model="fake", says=lambda said, text=text: text, stream=True)
                llm.call([{"role": "user", "content": "write"}])
            return "the last word"

    async with connect(Agent.wrap(Writes())) as client:
        assert (await client.send("go")).text == "a draft \n\nbetter \n\nthe last word"


async def test_a_conversational_flow_streams_and_remembers() -> None:
    def says(messages: list[str]) -> str:
        return f"I know: {', '.join(messages[1:])}"

    @ConversationConfig(llm=Scripted(model="fake", says=says))
    class Chat(Flow[ConversationState]):
        pass

    async with connect(Agent.wrap(Chat())) as client:
        talk = client.conversation()
        await talk.send("I am Ada")
        texts = [text async for text in talk.stream("Who am I?").text()]
    assert "".join(texts).strip().startswith("I know: I am Ada, ")
    assert "Who am I?" in "".join(texts)
    assert len(texts) > 1


async def test_a_cancelled_flow_calls_no_further_model() -> None:
    """The call under way ends by itself, since it does not stream."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    calls = []

    @tool("weigh")
    def weigh(thing: str) -> str:
        """Weigh a thing."""
        return f"{thing}: 3 kg"

    def says(messages: list[str]) -> str:
        calls.append(messages)
        begun.set()
        assert may_end.wait(60)
        return 'Thought: I have to weigh it.\nAction: weigh\nAction Input: {"thing": "it"}'

    class Runs(Flow):
        @start()
        def run(self) -> str:
            try:
                return str(member(says, tools=[weigh]).kickoff("How heavy is it?"))
            finally:
                ended.set()

    async with connect(Agent.wrap(Runs())) as client:
        task = await client.send("hello", wait=False)
        await until(begun.is_set)
        await client.cancel(task.task_id)
        may_end.set()
        await until(ended.is_set)
    assert len(calls) == 1


async def test_cancel_stops_a_model_that_a_flow_calls_in_a_thread() -> None:
    class Runs(Flow):
        @start()
        def run(self) -> str:
            llm = SlowModel(model="fake", stream=True)
            slow = Member(role="Slow", goal="talk", backstory="-", llm=llm)
            crew = Crew(agents=[slow], tasks=[task("Talk", slow)])
            return str(crew.kickoff())

    script.stopped.clear()
    async with connect(Agent.wrap(Runs())) as client:
        stream = client.stream("hello")
        async for text in stream.text():
            assert text.strip() == "Well,"
            await client.cancel(stream.reply.task_id)
            break
        await until(lambda: script.stopped == ["stopped"])


async def test_a_remote_agent_is_a_tool_and_its_question_goes_to_the_user() -> None:
    """The tool is called in a thread with a loop of its own; the model sees the result only."""

    def says(messages: list[str]) -> str:
        if any("That is Rome." in text for text in messages):
            return "Thought: I know it now.\nFinal Answer: Done"
        return 'Thought: I ask.\nAction: trip_planner\nAction Input: {"message": "Rome"}'

    async with served(trip_planner()) as url:
        remote = await asyncio.to_thread(from_agent, url)
        outer = member(says, tools=[tool(remote.__name__)(remote)])
        async with connect(Agent.wrap(outer, name="Outer")) as user:
            asked = await user.send("A weekend in Rome")
            assert asked.question == "How many days do you have?"
            assert (await asked.answer("2")).text.strip() == "Done"


async def test_cancel_ends_the_thread_of_a_remote_agent_that_asks() -> None:
    """And the remote task."""
    ended = threading.Event()
    async with served(trip_planner()) as url, connect(url) as there:
        remote = await asyncio.to_thread(from_agent, url)

        @tool("trip_planner")
        async def planner(message: str) -> str:
            """Plan a trip."""
            try:
                return await remote(message)
            finally:
                ended.set()

        outer = member(
            lambda said: 'Thought: I ask.\nAction: trip_planner\nAction Input: {"message": "Rome"}',
            tools=[planner],
        )
        async with connect(Agent.wrap(outer, name="Outer")) as user:
            asked = await user.send("A weekend in Rome")
            await user.cancel(asked.task_id)
            await until(ended.is_set)
            [remote_task] = [one async for one in there.list()]
            assert (await there.wait(remote_task.id)).state.word == "canceled"


async def test_the_example_of_a_flow_asks_and_has_at_most_fifteen_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))  # its folder is added
    file = ROOT / "examples" / "frameworks" / "crewai_flow.py"
    assert len([line for line in file.read_text().splitlines() if line.strip()]) <= 15
    async with connect(load_agent(str(file))) as client:
        asked = await client.send("Rome")
        assert asked.question == "Book this hotel?\nA hotel in Rome"
        assert (await asked.answer("yes")).text == "A hotel in Rome: booked."


@pytest.mark.parametrize(
    ("variable", "answers"),
    [("reviewed", ["more museums", "yes"]), ("asking", ["Rome", "3"])],
)
async def test_a_question_inside_of_a_run_is_answered_after_kill_9(
    variable: str, answers: list[str], tmp_path: Path
) -> None:
    """The run begins anew, and finds the answers it had."""
    command = [
        sys.executable,
        "-m",
        "accord",
        "serve",
        f"{crews.__file__}:{variable}",
        "--port",
        "0",
    ]
    store = f"sqlite:///{tmp_path}/t.db"

    async def process() -> AsyncIterator[Client]:
        with start_process(*command, "--store", store, cwd=ROOT) as served:
            async with connect(found(r"http://[\d.:]+", await served.line(120))) as client:
                yield client
            served.kill()

    async for client in process():
        task_id = (await client.send("a trip")).task_id
        reply = await client.send(answers[0], task_id=task_id)
        assert reply.question
    async for client in process():
        reply = await client.send(answers[1], task_id=task_id)
        expected = {"reviewed": "two days in museums", "asking": "3 days in Rome"}
        assert reply.text.strip() == expected[variable]
