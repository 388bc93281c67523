"""Files in the answers to questions: they come as those of a first message do."""

import asyncio
from pathlib import Path

import pytest

from accord import Agent, Context, File, connect
from accord.model import Message, TaskState
from tests.files.test_files import MB, pattern, served

SIZES = [0, 1, 64 << 10, (64 << 10) + 1, 4 * MB, 4 * MB + 1, 9 * MB]


class Clerk:
    """Asks for a file."""

    def __init__(self) -> None:
        self.agent = Agent("Clerk", description="Asks for a file.")
        self.may_go_on = asyncio.Event()
        for skill in (self.file, self.message, self.authorize):
            self.agent.skill(skill, durable=True)

    async def file(self, text: str, ctx: Context) -> File:
        """Give the file of the answer back."""
        file = await ctx.ask("Which file?", File)
        await self.may_go_on.wait()
        return File(await file.read(), name=file.name)

    async def message(self, text: str, ctx: Context) -> str:
        """Count the bytes of the answer."""
        return counted(await ctx.ask("Which file?", Message), ctx)

    async def authorize(self, text: str, ctx: Context) -> str:
        """Count the bytes of what comes with an authorization."""
        return counted(await ctx.require_auth("Log in"), ctx)


def counted(answer: Message, ctx: Context) -> str:
    assert ctx.message.parts == answer.parts
    (part,) = answer.parts
    return f"{len(part.raw)} bytes" if isinstance(part.raw, bytes) else f"at {part.url}"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_relayed", [False, True], ids=["agent", "relay"])
async def test_a_question_may_ask_for_a_file(is_relayed: bool, size: int) -> None:
    clerk, data = Clerk(), pattern(size)
    clerk.may_go_on.set()
    async with served(clerk.agent) as (_, url):
        if is_relayed:
            relay = await asyncio.to_thread(Agent.proxy, url, name="Relay")
            async with served(relay) as (_, url):
                assert await answered(url, data) == data
        else:
            assert await answered(url, data) == data


async def answered(url: str, data: bytes) -> bytes:
    async with connect(url) as client:
        reply = await client.send("go", skill="file")
        reply = await reply.answer(File(data, name="a.bin"))
        assert reply.ok, reply
        (file,) = reply.files
        assert file.name == "a.bin"
        return await file.read()


@pytest.mark.parametrize("size", [size for size in SIZES if size <= 4 * MB])
@pytest.mark.parametrize("skill", ["message", "authorize"])
async def test_a_message_that_answers_has_the_bytes_of_its_files(skill: str, size: int) -> None:
    """As a first message has: what lies in the file store has no address for a skill."""
    async with served(Clerk().agent) as (_, url), connect(url) as client:
        reply = await client.send("go", skill=skill)
        assert (await reply.answer(File(pattern(size)))).text == f"{size} bytes"


async def test_who_answers_without_a_file_is_asked_again() -> None:
    clerk = Clerk()
    clerk.may_go_on.set()
    async with served(clerk.agent) as (_, url), connect(url) as client:
        reply = await (await client.send("go", skill="file")).answer("none")
        assert reply.state is TaskState.INPUT_REQUIRED
        assert reply.text == "That does not fit: the answer has no file\nWhich file?"
        assert (await reply.answer(File(b"x"))).files[0].data == b"x"


@pytest.mark.parametrize("size", [1, 300_000, 5 * MB])
async def test_the_file_of_an_answer_is_there_after_a_restart(size: int, tmp_path: Path) -> None:
    store, data = f"sqlite:///{tmp_path}/clerk.db", pattern(size)
    async with served(Clerk().agent, store=store) as (_, url), connect(url) as client:
        reply = await client.send("go", skill="file")
        sent = await client.send(File(data), task_id=reply.task_id, wait=False)
        assert sent.state is TaskState.WORKING
    clerk = Clerk()
    clerk.may_go_on.set()
    async with served(clerk.agent, store=store) as (_, url), connect(url) as client:
        reply = await client.wait(reply.task_id)
        assert await reply.files[0].read() == data
