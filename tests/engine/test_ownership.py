"""Whose a task is, as its slot knows it."""

import asyncio

import pytest

from accord import Agent, Ask
from accord.engine.log import Log
from accord.engine.ownership import SlotState
from accord.engine.ownership.state import TRANSITIONS, SlotMove
from accord.store.contract import Namespace
from tests.engine.processes import Memory, message, until

ME = Namespace("Asks")


def asks() -> Agent:
    agent = Agent("Asks")

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("More?")

    return agent


async def test_a_task_is_idle_while_its_client_is_asked_and_a_claim_for_nothing_is_undone() -> None:
    """Else no other process could take its next message."""
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        tasks = process.app._engine.tasks
        record = tasks.store._state.find(ME, task_id).record
        slot = tasks.directory.slot(record.key)
        await until(lambda: (record.owner, slot.state) == (0, SlotState.IDLE))
        log = await tasks.own(ME, task_id)
        assert isinstance(log, Log)
        assert (slot.state, record.owner) == (SlotState.OWNED, tasks.store.replica)
        tasks.directory.release(log)
        assert slot.state is SlotState.RELEASING
        await until(lambda: (record.owner, slot.state) == (0, SlotState.IDLE))


async def test_a_log_that_is_pinned_is_not_given_up() -> None:
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        tasks = process.app._engine.tasks
        log = await tasks.own(ME, task_id)
        assert isinstance(log, Log)
        with log.slot.pinned():
            tasks.directory.release(log)
            assert log.slot.is_owned
        tasks.directory.release(log)
        assert not log.slot.is_owned


async def test_what_is_lost_stays_so() -> None:
    """Whatever its run still does, another process goes on with the task."""
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        tasks = process.app._engine.tasks
        log = await tasks.own(ME, task_id)
        assert isinstance(log, Log)
        slot = log.slot
        log.lose()
        slot.free()
        slot.keep()
        assert log.commits.is_lost
        assert (slot.state, slot.log) == (SlotState.ABSENT, None)
        assert tasks.directory.log(slot.place) is None


async def test_what_is_not_in_the_table_does_not_happen() -> None:
    async with Memory().process(asks()) as process, asyncio.timeout(10):
        task_id = (await process.send(message("go")))["id"]
        log = await process.app._engine.tasks.own(ME, task_id)
        assert isinstance(log, Log)
        with pytest.raises(RuntimeError, match="is owned, so it can't grant"):
            log.slot.move(SlotMove.GRANT)


def test_every_state_can_be_reached_and_left() -> None:
    """From nothing, and back to it: else tasks would stay behind in memory."""
    reached, new = set[SlotState](), {SlotState.ABSENT}
    while new:
        reached |= new
        new = {to for state in new for to in TRANSITIONS[state].values()} - reached
    assert reached == set(SlotState)
    back, more = set[SlotState](), {SlotState.ABSENT}
    while more:
        back |= more
        more = {one for one in SlotState if back & set(TRANSITIONS[one].values())} - back
    assert back == set(SlotState)
