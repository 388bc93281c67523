"""accord task list: the table for people, on every store and through every binding."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.shell import accord, found, served
from tests.postgres import schema_url
from tests.processes import free_port

pytestmark = pytest.mark.usefixtures("alone")

AGENT = """
from accord import Agent, Artifact, Context, Part

agent = Agent("Clerk")

@agent.skill
async def think(text: str, ctx: Context) -> str:
    '''Think, then answer.'''
    await ctx.status("thinking")
    return f"\\n  Forty-two: {text}\\nand more"

@agent.skill
async def pay(text: str, ctx: Context) -> str:
    '''Ask, then answer.'''
    return "Paid" if await ctx.ask("Pay INV1?") == "yes" else "Not paid"

@agent.skill
async def fail(text: str, ctx: Context) -> str:
    '''Fail.'''
    await ctx.status("thinking")
    ctx.fail("The printer burns")

@agent.skill
async def count(text: str) -> dict[str, int]:
    '''Answer with data.'''
    return {"crates": 42}

@agent.skill
async def chart(text: str) -> Artifact:
    '''Answer with a file.'''
    part = Part(raw=b"a", filename="饼图.csv", media_type="text/csv")
    return Artifact(artifact_id="chart", name="chart", parts=[part])
"""
# The skill, what is sent after the first message, and what the table shows.
SHOWN = [
    ("think", "", "completed", "Forty-two: x"),
    ("pay", "", "input-required", "Pay INV1?"),
    ("pay", "yes", "completed", "Paid"),
    ("fail", "", "failed", "The printer burns"),
    ("count", "", "completed", '{"crates":42}'),
    ("chart", "", "completed", "饼图.csv"),
]


@contextmanager
def store_of(kind: str) -> Iterator[str]:
    if kind == "postgres":
        with schema_url() as url:
            yield url
    else:
        yield {"memory": "memory://", "sqlite": "sqlite:///tasks.db"}[kind]


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
def test_a_task_shows_the_message_of_its_state_or_the_first_line_of_its_answer(store, tmp_path):
    """A completed task showed "thinking", or the question that had been answered: both are the last
    message of its history.
    """
    (tmp_path / "clerk.py").write_text(AGENT)
    with store_of(store) as place:
        words = ("clerk.py", "--store", place, "--grpc-port", str(free_port()))
        with served(*words, cwd=tmp_path) as (_, url):
            expected = {}
            for skill, answer, state, message in SHOWN:
                sent = accord("send", url, "x", "--skill", skill, "-o", "text").out
                task = found(r"Task: (\S+)", sent)
                if answer:
                    accord("send", url, answer, "--task-id", task)
                expected[task] = (state, message)
            for binding in ("jsonrpc", "rest", "grpc"):
                rows = accord("task", "list", url, "--transport", binding).out.splitlines()[1:]
                shown = [row.split(maxsplit=3) for row in rows]
                assert {task: (state, text) for task, state, _, text in shown} == expected, binding


def test_one_name_of_the_command_that_follows_a_task_says_that_it_is_another_name():
    follow, same = (accord("task", name, "--help").out for name in ("subscribe", "watch"))
    assert "Follow task TASK_ID" in follow
    assert "another name of accord task subscribe" in same
    assert follow.partition("Options:")[2] == same.partition("Options:")[2]
