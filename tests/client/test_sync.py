"""The client without `await`: the same names, the same objects, one implementation."""

import inspect
import threading

import pytest

from accord import Agent, Context
from accord.client import Client, Retry, Unreachable, connect_sync
from accord.model import ArtifactUpdate, StatusUpdate, Task, TaskNotFound
from tests.client import stubs


@pytest.fixture
def trip() -> Agent:
    agent = Agent("Trip")

    @agent.skill
    async def plan(request: str, ctx: Context):
        """Plan a trip."""
        days = await ctx.ask("How many days?", int) if request == "ask" else 2
        yield f"{days} days "
        yield "in Rome"

    return agent


def test_everything_waits(trip):
    """Calls return results, streams and lists are iterators, replies can be answered."""
    with connect_sync(trip) as client:
        reply = client.send("go")
        kinds = [type(event) for event in client.stream("go")]
        asked = client.send("ask")
        answered = asked.answer("3")
        listed = [task.id for task in client.list()]
        talk = client.conversation()
        talk.send("ask")
        said = talk.send("4")
    assert reply.text == "2 days in Rome"
    assert kinds == [Task, StatusUpdate, ArtifactUpdate, ArtifactUpdate, StatusUpdate]
    assert (asked.question, answered.text, said.text) == (
        "How many days?",
        "3 days in Rome",
        "4 days in Rome",
    )
    assert answered.task_id in listed


def test_errors_are_the_same(trip):
    """What is raised there is raised here."""
    with connect_sync(trip) as client, pytest.raises(TaskNotFound):
        client.get("nope")
    with pytest.raises(Unreachable):
        connect_sync("http://127.0.0.1:9", retry=Retry(attempts=1))


def test_it_has_every_name_of_the_client(trip):
    """Nothing is kept by hand, so nothing can be missing."""
    names = [
        name
        for name, _ in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_")
    ]
    with connect_sync(trip) as client:
        assert [name for name in names if not callable(getattr(client, name))] == []


def test_a_session_is_of_another_loop():
    """Said at once; and no loop is left running."""
    with pytest.raises(ValueError, match="leave session= out"):
        connect_sync("http://agent.example", session=object())  # type: ignore[call-arg]
    assert not [thread for thread in threading.enumerate() if thread.name == "accord-client"]


def test_its_types_are_what_the_client_says():
    """`make stubs` writes them anew. The docs' programs are checked with them."""
    assert stubs.STUB.read_text() == stubs.stub()
