"""What is large is encoded once, and every answer shows it as it is."""

import base64
import json

import pytest

from accord import Agent, Artifact, Context, File, Message, Part
from tests.drive import say

FILE = bytes(range(256)) * 400
TEXT = base64.b64encode(FILE).decode()


def files_of(said):
    return [part["raw"] for part in said["parts"] if "raw" in part]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_files_that_come_and_go_are_the_same_in_every_answer(connect_rpc, tmp_path, store):
    """The answer, the stored task, the same with part of its history, and the list."""
    agent = Agent("Copier")

    @agent.skill
    async def copy(file: File, ctx: Context) -> File:
        ctx.write(Artifact(artifact_id="long", parts=[Part(text="x" * 70_000)]))
        ctx.write(Artifact(artifact_id="twice", parts=[Part(raw=FILE)]))
        ctx.write(Artifact(artifact_id="twice", parts=[Part(raw=FILE[::-1])]))
        return file

    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/tasks.db"
    async with connect_rpc(agent, store=url) as client:
        task = (await client.send(say([{"raw": TEXT, "filename": "a.bin"}, {"text": "here"}])))["task"]
        assert files_of(task["history"][0]) == [TEXT]
        assert [(a["artifactId"], files_of(a)) for a in task["artifacts"]] == [
            ("long", []),
            ("twice", [base64.b64encode(FILE[::-1]).decode()]),
            ("artifact-1", [TEXT]),
        ]
        assert await client.get(task["id"]) == task
        assert await client.get(task["id"], historyLength=1) == task
        without = await client.get(task["id"], historyLength=0)
        assert without == {key: value for key, value in task.items() if key != "history"}


async def test_chunks_make_a_large_artifact_another_one(connect_rpc):
    agent = Agent("Writer")

    @agent.skill
    async def write(request: str, ctx: Context) -> None:
        ctx.write("x" * 70_000)
        ctx.write("y")

    async with connect_rpc(agent) as client:
        task = (await client.send("go"))["task"]
    assert [part["text"] for part in task["artifacts"][0]["parts"]] == ["x" * 70_000, "y"]


async def test_a_conversation_with_files_shows_all_of_them(connect_rpc):
    """Messages that come later are in their place, with the agent's words between them."""
    agent = Agent("Collector")

    @agent.skill
    async def collect(first: Message, ctx: Context) -> str:
        second = await ctx.ask("And?", Message)
        return str(len(first.parts[0].raw) + len(second.parts[0].raw))

    async with connect_rpc(agent) as client:
        parts = [{"raw": TEXT}]
        task = (await client.send(say(parts)))["task"]
        task = (await client.send(say(parts, taskId=task["id"])))["task"]
    assert [json.dumps(m["parts"]) for m in task["history"]] == [
        json.dumps(parts),
        json.dumps([{"text": "And?"}]),
        json.dumps(parts),
    ]
