"""Whose a task is, as its log knows it: claimed, owned, resting, lost."""

import asyncio

from accord import Agent, Ask
from accord.engine.log import Log
from accord.engine.log.log import Ownership
from accord.store.contract import Namespace
from tests.engine.processes import Memory, message, until

ME = Namespace("Asks")


def asks() -> Agent:
    agent = Agent("Asks")

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("More?")

    return agent


async def test_a_task_rests_while_its_client_is_asked_and_a_claim_that_comes_to_nothing_is_undone():
    """Else no other process could take its next message."""
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        tasks = process.app._engine.tasks
        record = tasks.store._state.find(ME, task_id).record
        await until(lambda: record.owner == 0)
        log = await tasks.own(ME, task_id)
        assert isinstance(log, Log)
        assert (log.ownership, record.owner) == (Ownership.CLAIMED, tasks.store.replica)
        tasks.release(log)
        assert log.is_resting
        await until(lambda: record.owner == 0)


async def test_a_log_that_somebody_holds_is_not_forgotten():
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        tasks = process.app._engine.tasks
        log = await tasks.own(ME, task_id)
        assert isinstance(log, Log)
        with log.held():
            tasks.release(log)
            assert tasks.live_log(log.key) is log
        tasks.release(log)
        assert tasks.live_log(log.key) is None


async def test_what_is_lost_stays_so():
    """Whatever its run still does, another process goes on with the task."""
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        log = await process.app._engine.tasks.own(ME, task_id)
        assert isinstance(log, Log)
        log.lose()
        log.rest()
        log.wake()
        assert log.is_lost
