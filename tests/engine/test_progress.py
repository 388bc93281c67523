"""`ctx.progress`: how far the work is, as numbers that every client can read."""

import asyncio
import io
import sys
from typing import Any

import pytest

from accord import Agent, Context, connect
from accord.cli import main, progress
from accord.model import PROGRESS, Progress, StatusUpdate


def counter() -> Agent:
    agent = Agent("Counter")

    @agent.skill
    async def count(text: str, ctx: Context) -> str:
        await ctx.progress(3, 10, "rows read")
        await ctx.status("thinking")
        await ctx.progress(0.5)
        await ctx.progress(10, 10)
        return "done"

    return agent


SAID = [
    ("3 of 10 rows read", Progress(3, 10)),
    ("thinking", None),
    ("0.5", Progress(0.5)),
    ("10 of 10", Progress(10, 10)),
]


async def said_by(client: Any) -> list[tuple[str, Progress | None]]:
    return [
        (event.status.message.text, event.progress)
        async for event in client.stream("go")
        if isinstance(event, StatusUpdate) and event.status.message is not None
    ]


WAYS = [
    ("1.0", "JSONRPC"),
    ("1.0", "HTTP+JSON"),
    ("1.0", "GRPC"),
    ("0.3", "JSONRPC"),
    ("0.3", "HTTP+JSON"),
    ("0.3", "GRPC"),
    ("0.2", "JSONRPC"),
    ("0.1", "JSONRPC"),
    ("1.1", "JSONRPC"),
    ("1.1", "HTTP+JSON"),
    ("1.1", "GRPC"),
]


@pytest.mark.parametrize(("version", "binding"), WAYS)
async def test_numbers_are_in_the_stream_and_in_the_task_of_every_version(version, binding):
    """Directly and through a relay; a client that knows nothing of them reads the text."""
    previews: Any = ["1.1"] if version == "1.1" else []
    async with counter().app(grpc_port=0, previews=previews).serving() as url:
        relay = await asyncio.to_thread(Agent.proxy, url)
        async with relay.app(grpc_port=0, previews=previews).serving() as at:
            for place in (url, at):
                async with connect(
                    place, version=version, binding=binding, previews=previews
                ) as client:
                    assert (client.version, client.binding) == (version, binding)
                    assert await said_by(client) == SAID
                    reply = await client.send("go")
                    assert reply.progress == (10, 10)
                    assert (await client.get(reply.task_id)).progress == (10, 10)


async def test_a_delegation_passes_them_on():
    """The client of the first agent sees how far the second one is."""
    first = Agent("First")

    async with counter().app().serving() as url:

        @first.skill
        async def work(text: str, ctx: Context) -> str:
            return (await ctx.delegate(url, text)).text

        async with connect(first) as client:
            assert await said_by(client) == [(f"Counter: {text}", known) for text, known in SAID]


async def test_a_durable_skill_that_goes_on_says_them_once(lasting):
    """As with any status: what is in the log is not said again."""
    agent = Agent("Durable")

    @agent.skill(durable=True)
    async def count(text: str, ctx: Context) -> str:
        ctx.progress(1, 2)
        await ctx.ask("Go on?")
        ctx.progress(2, 2)
        return "done"

    async with agent.app(store=lasting).serving() as url, connect(url) as client:
        asked = await client.send("go")
        assert asked.progress == (1, 2)
    async with agent.app(store=lasting).serving() as url, connect(url) as client:
        reply = await client.send("yes", task_id=asked.task_id)
        assert reply.progress == (2, 2)
        said = [message.text for message in reply.task.history if message.role == "ROLE_AGENT"]
        assert said.count("1 of 2") == 1


@pytest.mark.parametrize("wrong", [(-1,), (float("nan"),), (1, 0), (1, -3), ("3", 10), (True, 2)])
async def test_numbers_that_make_no_sense_are_refused_at_the_call(wrong):
    """A bar could not be drawn of them."""
    agent = Agent("Wrong")

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        with pytest.raises(ValueError, match="number"):
            ctx.progress(*wrong)
        return "refused"

    async with connect(agent) as client:
        assert (await client.send("go")).text == "refused"


@pytest.mark.parametrize(
    ("metadata", "read"),
    [
        (None, None),
        ({PROGRESS: "half"}, None),
        ({PROGRESS: {"done": "3"}}, None),
        ({PROGRESS: {"total": 3}}, None),
        ({PROGRESS: {"done": 3, "total": 0}}, Progress(3)),
        ({PROGRESS: {"done": 12, "total": 10, "more": 1}}, Progress(12, 10)),
    ],
)
def test_what_others_write_there_is_read_as_far_as_it_makes_sense(metadata, read):
    """The metadata of another agent may hold anything."""
    found = Progress.read(metadata)
    assert found == read
    assert found is None or found.share in (None, 1.0)


class Terminal(io.StringIO):
    """A terminal as the command line sees it, which tells when a bar was drawn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drawn: asyncio.Event) -> None:
        super().__init__()
        self._tell = lambda: loop.call_soon_threadsafe(drawn.set)

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "[######..............]" in text:
            self._tell()
        return super().write(text)


@pytest.mark.parametrize("verb", ["send", "task get --wait", "task watch"])
async def test_the_command_line_shows_a_bar_on_a_terminal(verb, monkeypatch, capsys):
    """Where people wait for an answer."""
    drawn = asyncio.Event()
    agent = Agent("Patient")

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        ctx.progress(3, 10, "rows read")
        await drawn.wait()
        return "done"

    terminal = Terminal(asyncio.get_running_loop(), drawn)
    async with asyncio.timeout(60), agent.app().serving() as url, connect(url) as client:
        words = [*verb.split(), url, "go"]
        if verb != "send":
            words[-1] = (await client.send("go", wait=False)).task_id
        monkeypatch.setattr(progress, "AFTER_S", 0.0)
        monkeypatch.setattr(sys, "stderr", terminal)
        await asyncio.to_thread(main.main, words, standalone_mode=False)
    assert "[######..............]  30 %  3 of 10 rows read" in terminal.getvalue()
    assert capsys.readouterr().out == "done\n"
