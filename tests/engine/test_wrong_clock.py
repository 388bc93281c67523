"""A replica with a wrong clock harms nothing that others can see: the database's clock counts."""

import asyncio
import time

import pytest

from accord import Agent, Ask
from accord.engine.runs import retention as upkeep
from tests.engine.processes import Database, message, state_of, text_of, until
from tests.reliability.ways import Refused

DAYS_S = 40 * 24 * 3600.0


@pytest.mark.parametrize("off_s", [DAYS_S, -DAYS_S], ids=["ahead", "behind"])
async def test_it_is_not_ready_says_so_and_deletes_nothing(
    database: Database,
    off_s: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By it every finished task would be older than it may get, and every open question would have
    waited too long.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    monkeypatch.setattr(upkeep, "PURGE_S", 0.0)
    agent = Agent("Clock")

    @agent.skill
    async def work(text: str) -> str | Ask:
        return Ask("Which?") if text == "ask" else text

    real, real_ns = time.time, time.time_ns
    async with asyncio.timeout(60):
        async with database.process(agent) as right:
            done = await right.send(message("done"))
            asked = await right.send(message("ask"))
        with monkeypatch.context() as wrong_time:
            wrong_time.setattr(time, "time", lambda: real() + off_s)
            wrong_time.setattr(time, "time_ns", lambda: real_ns() + int(off_s * 1e9))
            async with database.process(agent) as wrong:
                tasks = wrong.app._engine.tasks
                await until(lambda: "the clock of this machine is 3,456,000 s" in caplog.text)
                assert "the clock of this machine" in tasks.trouble
                assert ("ahead of" if off_s > 0 else "behind") in tasks.trouble
                with pytest.raises(Refused, match="clock"):
                    await wrong.send(message("more"))
                for _ in range(3):
                    await wrong.app._engine._upkeep.tend()
                assert text_of(await wrong.get(done["id"])) == "done"
        async with database.process(agent) as right:
            assert text_of(await right.get(done["id"])) == "done"
            answered = await right.send(message("that", task_id=asked["id"]))
            assert state_of(answered) == "TASK_STATE_COMPLETED"
    assert caplog.text.count("until then no work is taken") == 1


async def test_a_clock_that_is_set_right_is_used_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    monkeypatch.setattr(upkeep, "BEAT_S", 0.05)
    agent = Agent("Clock")

    @agent.skill
    async def work(text: str) -> str:
        return text

    real_ns = time.time_ns
    async with asyncio.timeout(60), database.process(agent) as process:
        with monkeypatch.context() as wrong_time:
            wrong_time.setattr(time, "time_ns", lambda: real_ns() + 90_000_000_000)
            await until(lambda: process.app._engine.tasks.trouble)
        await until(lambda: not process.app._engine.tasks.trouble)
        assert text_of(await process.send(message("hi"))) == "hi"
