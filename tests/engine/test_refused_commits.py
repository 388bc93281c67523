"""A message whose commit is refused, because its task has another owner by then, is never taken for
stored: its sender is told, whatever it waits for.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.engine.ownership import audit
from accord.store.postgres import PostgresStore
from tests.engine.processes import Memory, Process, message, reaches, text_of, until
from tests.postgres import execute, schema_url
from tests.reliability.ways import Refused

SECONDS = 20


def talks() -> Agent:
    agent = Agent("Talks")

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask('More?')}"

    return agent


class Shared:
    """A store that several processes use, and a way to take a task from its owner."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._memory = Memory()

    @asynccontextmanager
    async def process(self, agent: Agent) -> AsyncIterator[Process]:
        if not self._url:
            async with self._memory.process(agent) as process:
                yield process
            return
        app = agent.app(store=PostgresStore(self._url))
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(0)

    @asynccontextmanager
    async def two(self, agent: Agent) -> AsyncIterator[tuple[Process, Process]]:
        async with (
            asyncio.timeout(SECONDS),
            self.process(agent) as one,
            self.process(agent) as two,
        ):
            yield one, two

    def take_away(self, process: Process, task_id: str) -> None:
        """Nobody owns the task any more, and its owner does not know."""
        store = process.app._engine.tasks.store
        if self._url:
            schema = store.options.schema
            execute(f"UPDATE {schema}.tasks SET owner = NULL WHERE id = $1", task_id)
        else:
            (task,) = (t for t in store._state.tasks.values() if t.record.id == task_id)
            store._state.give(task.record, 0)


@pytest.fixture(params=["memory", "postgres"])
def shared(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield Shared("")
        return
    with schema_url(lease_s=15, beat_s=1) as url:
        yield Shared(url)


@pytest.mark.parametrize("how", ["blocking", "quick", "stream"])
async def test_a_message_whose_commit_is_refused_is_refused(shared: Shared, how: str) -> None:
    """Without an idempotency key too. Else its sender would hang, and then get the answer to
    somebody else's message as its own.
    """
    async with shared.two(talks()) as (owner, other):
        task_id = (await owner.send(message("one")))["id"]
        shared.take_away(owner, task_id)
        lost = message("lost", task_id=task_id, returnImmediately=how == "quick")
        method = "SendStreamingMessage" if how == "stream" else "SendMessage"
        send = owner.stream if how == "stream" else owner.call
        with pytest.raises(Refused, match="another process has taken over"):
            await send(method, lost)
        answered = await other.send(message("two", task_id=task_id))
        assert text_of(answered) == "one two"
        texts = [one["parts"][0]["text"] for one in answered["history"]]
        assert "lost" not in texts


async def test_who_waits_for_a_stored_message_reads_on_when_the_task_gets_another_owner(
    shared: Shared,
) -> None:
    """Its message is stored: it is answered by whoever goes on."""
    agent, go_on = Agent("Talks"), asyncio.Event()

    @agent.skill(durable=True)
    async def talk(text: str, ctx: Context) -> str:
        await go_on.wait()
        return text

    async with shared.two(agent) as (owner, other):
        sending = asyncio.create_task(owner.send(message("one")))
        tasks = owner.app._engine.tasks
        await until(lambda: [log for log in tasks.directory.live() if log.commits.is_stored])
        (log,) = tasks.directory.live()
        shared.take_away(owner, log.ids.task_id)
        claimed = await other.app._engine.tasks.own(log.namespace, log.ids.task_id)
        go_on.set()
        await other.app._engine._recovery.take_up(claimed, died=False)
        assert text_of(await sending) == "one"


@pytest.mark.parametrize("is_durable", [True, False])
async def test_a_task_that_nobody_owns_after_a_refused_commit_is_gone_on_with(
    shared: Shared, is_durable: bool
) -> None:
    """Somebody has taken it from its owner, and not for himself: by SQL, or by restoring a table.
    Who lost it looks whether it has another owner, and takes it up if it has none. Else it would
    work for ever, and its sender wait as long.
    """
    agent, go_on = Agent("Talks"), asyncio.Event()

    @agent.skill(durable=is_durable)
    async def talk(text: str) -> str:
        await go_on.wait()
        return text

    async with shared.two(agent) as (owner, _):
        sending = asyncio.create_task(owner.send(message("one")))
        tasks = owner.app._engine.tasks
        await until(lambda: [log for log in tasks.directory.live() if log.commits.is_stored])
        (log,) = tasks.directory.live()
        shared.take_away(owner, log.ids.task_id)
        go_on.set()
        state = "TASK_STATE_COMPLETED" if is_durable else "TASK_STATE_FAILED"
        assert (await sending)["status"]["state"] == state


@pytest.mark.parametrize("its_process", ["stops", "believes that it owns it"])
async def test_a_task_that_is_worked_on_and_has_no_owner_is_found_by_an_audit(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, its_process: str
) -> None:
    """Nobody's death shows it, and no commit of its former owner is refused."""
    monkeypatch.setattr(audit, "AUDIT_S", 0.2)
    agent, calls = Agent("Talks"), list[str]()

    @agent.skill(durable=True)
    async def talk(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return f"{text} done"

    async with asyncio.timeout(SECONDS), shared.process(agent) as other:
        async with shared.process(agent) as owner:
            task_id = (await owner.send(message("one", returnImmediately=True)))["id"]
            await until(lambda: calls)
            await owner.app._engine.tasks.flush()
            shared.take_away(owner, task_id)
            if its_process != "stops":
                await until(lambda: len(calls) == 2)
        assert text_of(await reaches(other, task_id, "TASK_STATE_COMPLETED")) == "one done"
