"""What people see of objects and of a wrong address: short, and enough to go on with."""

import pytest

from accord import Agent, Artifact, Message, Part, Task, connect
from accord.client import NO_RETRY, Unreachable
from accord.model import ArtifactUpdate, Role, StatusUpdate, TaskState, TaskStatus
from tests.cli.shell import accord, found, served

LONG = "pear " * 100


def said(*parts: Part) -> Message:
    return Message(message_id="m", role=Role.AGENT, parts=list(parts))


@pytest.mark.parametrize(("value", "shown"), [
    (Part(text="hello"), "Part('hello')"),
    (Part(data={"fruit": "pear"}), "Part(data={'fruit': 'pear'})"),
    (Part(raw=b"x", filename="a.csv", media_type="text/csv"),
     "Part(file a.csv of 1 byte, text/csv)"),
    (Part(url="https://files.example/a"), "Part(file at https://files.example/a)"),
    (said(Part(text="hi"), Part(raw=b"xy")), "Message(agent, 'hi', file of 2 bytes)"),
    (Artifact(artifact_id="a", name="list", parts=[Part(text="x")]), "Artifact('list', 'x')"),
    (TaskStatus(state=TaskState.WORKING, message=said(Part(text="hm"))),
     "TaskStatus(working, 'hm')"),
    (Task(id="t1", status=TaskStatus(state=TaskState.COMPLETED),
          artifacts=[Artifact(artifact_id="a", parts=[Part(text="made")])]),
     "Task(t1, completed, 'made')"),
    (StatusUpdate(task_id="t1", context_id="c", status=TaskStatus(state=TaskState.FAILED)),
     "StatusUpdate(failed, task=t1)"),
    (ArtifactUpdate(task_id="t1", context_id="c", append=True,
                    artifact=Artifact(artifact_id="a", parts=[Part(text="more")])),
     "ArtifactUpdate('more', artifact='a' append, task=t1)"),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_objects_are_shown_in_a_line(value, shown):
    assert repr(value) == str(value) == shown


def test_what_is_long_is_cut():
    task = Task(
        id="t1",
        status=TaskStatus(state=TaskState.COMPLETED, message=said(Part(text=LONG))),
        artifacts=[Artifact(artifact_id="a", parts=[Part(data=[LONG] * 100)] * 50)] * 50,
        history=[said(Part(text=LONG))] * 50,
    )
    assert len(repr(task)) < 500
    assert "50 artifacts" in repr(task)


async def test_a_client_s_answer_and_a_card_are_short_too():
    agent = Agent("Fruit", version="1.2")

    @agent.skill
    async def count(what: str) -> str:
        return LONG

    async with connect(agent) as client:
        assert repr(await client.send("pears")).startswith("ClientReply(completed, 'pear pear")
        assert repr(client.card).startswith("AgentCard('Fruit' 1.2, skills 'count', at ")


async def test_a_card_that_names_a_place_where_nothing_answers():
    agent = Agent("Fruit")

    @agent.skill
    async def count(what: str) -> str:
        return "42"

    app = agent.app(url="http://127.0.0.1:9")
    async with app.serving() as url, connect(url, retry=NO_RETRY) as client:
        with pytest.raises(Unreachable) as caught:
            await client.send("pears")
        with pytest.raises(Unreachable, match="the card of"):
            await anext(client.stream("pears").text())
    assert f"the card of {url} names http://127.0.0.1:9, where nothing answers" in str(caught.value)
    assert f"--url {url}" in str(caught.value)


def test_the_command_line_says_so_too(tmp_path):
    (tmp_path / "team.py").write_text(
        "from accord import Agent\nagent = Agent('Team')\n@agent.skill\n"
        "async def greet(name: str) -> str:\n    return name\n"
    )
    words = ("team.py", "--store", "memory://", "--url", "http://127.0.0.1:9")
    with served(*words, cwd=tmp_path) as (process, _):
        bound = found(r"listens +(http\S+)", process.line_sync())
        done = accord("send", bound, "Ada", "--retry-max-time", "0")
    assert done.code == 3
    assert f"the card of {bound} names http://127.0.0.1:9, where nothing answers" in done.err
    assert "accord serve FILE" not in done.err
