"""Files of earlier messages and tasks: a skill reads them and passes them on, of any size."""

from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Ask, Context, File, Reply, connect
from accord.model import InvalidParams, Message
from tests.files.test_bindings import WAYS, client_of
from tests.files.test_deleting import STORES, store_of
from tests.files.test_files import BOB, MB, MIA, agent_of, pattern, served, upload

SIZES = [0, 1, 64 << 10, (64 << 10) + 1, 4 * MB, 4 * MB + 1, 9 * MB]


def reader() -> Agent:
    agent = Agent("Reader", description="Reads what came before.")

    @agent.skill
    async def history(message: Message, ctx: Context) -> Any:
        """Count the bytes of all files of this task."""
        if len(ctx.history) < 2:
            return Ask("And?")
        found = [file for said in ctx.history for file in ctx.files_of(said)]
        return [f"{file.name} {len(await file.read())}" for file in found]

    @agent.skill
    async def artifacts(message: Message, ctx: Context) -> Any:
        """Give the file of the message, and count the bytes of those of earlier tasks."""
        earlier = await ctx.conversation()
        found = [ctx.files_of(said) for task in earlier for said in task.artifacts]
        found += [ctx.files_of(said) for task in earlier for said in task.history]
        read = [len(await file.read()) for files in found for file in files]
        ctx.artifact(*ctx.files_of(ctx.message))
        return read

    @agent.skill
    async def raw(data: bytes) -> str:
        """Count bytes."""
        return f"{len(data)} bytes"

    @agent.skill
    async def raw_reply(data: bytes) -> Reply:
        """Count bytes, without a task."""
        return Reply(f"{len(data)} bytes")

    return agent


@pytest.mark.parametrize("kind", STORES)
async def test_files_of_the_history_are_read(kind: str, tmp_path: Path) -> None:
    """Also after a restart: the log has references, and no bytes."""
    with store_of(kind, tmp_path) as store:
        files = [File(pattern(size), name=f"{size}") for size in SIZES]
        async with served(reader(), store=store) as (_, url), connect(url) as client:
            asked = await client.send(files, skill="history")
            reply = asked
            if kind == "memory":
                reply = await asked.answer(File(b"x", name="last"))
        if kind != "memory":
            async with served(reader(), store=store) as (_, url), connect(url) as client:
                reply = await client.send(File(b"x", name="last"), task_id=asked.task_id)
        (part,) = reply.task.artifacts[0].parts
        assert part.data == [*(f"{size} {size}" for size in SIZES), "last 1"]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_so_it_is_in_every_version(way: tuple[str, str]) -> None:
    app = reader().app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        asked = await client.send(File(pattern(5 * MB), name="a"), skill="history")
        reply = await asked.answer(File(pattern(100_000), name="b"))
        assert reply.task.artifacts[0].parts[0].data == [f"a {5 * MB}", "b 100000"]


@pytest.mark.parametrize("size", SIZES)
async def test_files_of_earlier_tasks_are_read(size: int) -> None:
    async with served(reader()) as (_, url), connect(url) as client:
        talk = client.conversation()
        await talk.send(File(pattern(size)), skill="artifacts")
        reply = await talk.send(File(b"x"), skill="artifacts")
        assert [part.data for one in reply.task.artifacts for part in one.parts][-1] == [size, size]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("skill", ["raw", "raw_reply"])
async def test_a_parameter_of_bytes_has_all_of_them(skill: str, size: int) -> None:
    async with served(reader()) as (_, url), connect(url) as client:
        reply = await client.send(File(pattern(size)), skill=skill)
        assert reply.text == f"{size} bytes"


@pytest.mark.parametrize("skill", ["raw", "raw_reply"])
async def test_what_is_too_much_for_a_parameter_of_bytes_is_refused(skill: str) -> None:
    async with served(reader()) as (_, url), connect(url) as client:
        with pytest.raises(InvalidParams, match=r"reads files of up to 26214400 bytes for 'data'"):
            await client.send(File(pattern(26 * MB)), skill=skill)


# Passing files on


def passing_on(url: str) -> Agent:
    agent = Agent("Front", description="Has another agent do it.")

    @agent.skill
    async def file(file: File, ctx: Context) -> str:
        """Pass on the file."""
        return (await ctx.delegate(url, file, skill="size")).text

    @agent.skill
    async def message(file: File, ctx: Context) -> str:
        """Pass on the message."""
        message = Message("1", ctx.message.role, ctx.message.parts)
        return (await ctx.delegate(url, message, skill="size")).text

    @agent.skill
    async def several(file: File, ctx: Context) -> str:
        """Pass on several things."""
        return (await ctx.delegate(url, ["look:", *ctx.files_of(ctx.message)], skill="size")).text

    @agent.skill
    async def earlier(file: File, ctx: Context) -> Any:
        """Pass on the file of the first message."""
        if len(ctx.history) < 2:
            return Ask("And?")
        return (await ctx.delegate(url, ctx.files_of(ctx.history[0]), skill="size")).text

    return agent


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("skill", ["file", "message", "several", "earlier"])
async def test_a_file_is_passed_on_to_another_agent(skill: str, size: int) -> None:
    """The other agent gets its bytes, not what our log says of it."""
    async with (
        served(agent_of(auth=False)) as (_, other),
        served(passing_on(other)) as (_, url),
        connect(url) as client,
    ):
        reply = await client.send(File(pattern(size), name="a.bin"), skill=skill)
        if skill == "earlier":
            reply = await reply.answer(File(b"x"))
        assert reply.text.startswith(f"{size} "), reply


async def test_the_file_of_a_stranger_is_not_passed_on() -> None:
    """Who was told an id gets nobody's file by it."""
    agent = agent_of()

    async with served(agent_of(auth=False)) as (_, other):

        @agent.skill
        async def link(text: str, ctx: Context) -> str:
            """Pass on a link."""
            return (await ctx.delegate(other, File(url=text), skill="size")).text

        async with served(agent) as (_, url), connect(url, headers=BOB) as bob:
            place = await upload(url, MIA, pattern(1000))
            text = f"accord-file:{place.rpartition('/')[2]}/0/1000"
            reply = await bob.send(text, skill="link")
            assert not reply.ok
            assert "1000 " not in reply.text
