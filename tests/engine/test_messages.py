"""Messages that come while a function is busy."""

import asyncio
from typing import Any

import pytest

from accord import Agent, Ask, Context, File, Message, Part
from accord.engine.log.entries import NOBODY
from accord.engine.log.log import Log
from accord.model import Role, SendMessageRequest, TaskState, new_id
from accord.store.contract import Namespace
from tests.engine.processes import Disk, Memory, Process, message, reaches, state_of, told, until
from tests.reliability.ways import Refused


class Copier:
    """A skill that takes files, and is busy until it is told to go on."""

    def __init__(self) -> None:
        self.agent = Agent("Copier")
        self.go_on = asyncio.Event()
        self.calls: list[str] = []
        self.agent.skill(self.copy, durable=True)

    async def copy(self, file: File, ctx: Context) -> Ask:
        self.calls.append(file.name)
        await self.go_on.wait()
        return Ask("Another?", takes_waiting=True)


def file(name: str, **more: Any) -> dict[str, Any]:
    params = message("", **more)
    params["message"]["parts"] = [{"raw": "YQ==", "filename": name}]
    return params


def inbox(process: Process) -> int:
    return sum(len(log.inbox) for log in process.app._engine.tasks.directory.live())


@pytest.mark.parametrize("how", ["send", "stream"])
async def test_a_message_that_waited_is_refused_with_its_own_error(
    place: Disk | Memory, how: str
) -> None:
    """What is wrong with it is found when it gets its turn: its sender is told just that, and
    nobody else's message suffers.
    """
    copier = Copier()
    async with place.process(copier.agent) as process:
        task = await process.send(file("one", returnImmediately=True))
        await until(lambda: copier.calls)
        text = message("no file", task_id=task["id"])
        sending: Any = (
            process.send(text) if how == "send" else process.stream("SendStreamingMessage", text)
        )
        wrong = asyncio.create_task(sending)
        await until(lambda: inbox(process) == 1)
        right = asyncio.create_task(process.send(file("two", task_id=task["id"])))
        await until(lambda: inbox(process) == 2)
        copier.go_on.set()
        async with asyncio.timeout(10):
            with pytest.raises(Refused, match="file") as refused:
                await wrong
            done = await right
    assert refused.value.reason == "CONTENT_TYPE_NOT_SUPPORTED"
    assert (state_of(done), told(done)) == ("TASK_STATE_INPUT_REQUIRED", "Another?")
    assert copier.calls == ["one", "two"]


async def test_it_holds_up_nobody_in_the_next_process_either(place: Disk | Memory) -> None:
    """Accepted by a process that is gone, it is refused by the next, and the message after it gets
    its turn.
    """
    copier = Copier()
    async with place.dying(copier.agent) as process:
        task = await process.send(file("one", returnImmediately=True))
        await until(lambda: copier.calls)
        await process.send(message("no file", task_id=task["id"], returnImmediately=True))
        await process.send(file("two", task_id=task["id"], returnImmediately=True))
    copier.calls.clear()
    copier.go_on.set()
    async with place.process(copier.agent) as process:
        await until(lambda: copier.calls == ["one", "two"])
        task = await reaches(process, task["id"], "TASK_STATE_INPUT_REQUIRED")
    assert told(task) == "Another?"


async def test_messages_that_waited_are_refused_when_the_task_ends_first(
    place: Disk | Memory,
) -> None:
    copier = Copier()
    async with place.process(copier.agent) as process:
        task = await process.send(file("one", returnImmediately=True))
        await until(lambda: copier.calls)
        waiting = asyncio.create_task(process.send(file("two", task_id=task["id"])))
        await until(lambda: inbox(process) == 1)
        await process.cancel(task["id"])
        async with asyncio.timeout(10):
            with pytest.raises(Refused, match="became canceled before it took your message"):
                await waiting


async def test_a_message_that_reopens_its_task_is_not_refused_because_the_task_ended_first(
    place: Disk | Memory,
) -> None:
    """0.1 knows no end of a task that a message could come too late for: whoever is faster, both
    get their turn.
    """
    agent, go_on = Agent("Old"), asyncio.Event()

    @agent.skill
    async def echo(text: str) -> str:
        await go_on.wait()
        return text

    async with place.process(agent) as process:
        engine = process.app._engine
        (agent,) = engine.runs.agents.values()
        first = engine.runs.start(agent.default, _request("one"), Namespace("Old"), NOBODY).receipt
        assert isinstance(first.task, Log)
        await first.stored()
        second = await engine.resume(
            _request("two", first.task.ids.task_id), Namespace("Old"), NOBODY, reopen=True
        )
        go_on.set()
        async with asyncio.timeout(10):
            answer = await second.answer()
        first.close()
        second.close()
    assert answer.state is TaskState.COMPLETED
    assert [artifact.text for artifact in answer.task.artifacts] == ["one", "two"]


def _request(text: str, task_id: str = "") -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(
            message_id=new_id(), role=Role.USER, parts=[Part(text=text)], task_id=task_id
        )
    )
