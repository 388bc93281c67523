"""A process that is cut off from the database, and others that take up its tasks: who may work side
by side, and who may not.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Context
from accord.store.postgres import PostgresStore
from tests.engine.processes import Process, message, reaches, state_of, text_of, until
from tests.postgres import schema_url
from tests.proxy import proxied

BEAT_S, LEASE_S = 1.5, 4.5  # others begin a beat after the first is stopped, at the earliest
SECONDS = 30


class Works:
    """An agent, and which of its functions are called now."""

    def __init__(self) -> None:
        self.agent = Agent("Works")
        self.calls: list[str] = []
        self.now: list[str] = []
        self.most = 0
        self.unsure: list[str] = []
        self.go_on = asyncio.Event()
        self.agent.skill(durable=True, alone=True, id="lone")(self.work)
        self.agent.skill(durable=True, id="shared")(self.work)
        self.agent.skill(alone=True, id="once")(self.work)

    async def work(self, text: str, ctx: Context) -> str:
        self.calls.append(text)
        self.now.append(text)
        self.most = max(self.most, self.now.count(text))
        try:
            while not self.go_on.is_set():
                if not ctx.is_sure and text not in self.unsure:
                    self.unsure.append(text)
                await asyncio.sleep(0.02)
            return f"{text} done"
        finally:
            self.now.remove(text)

    @asynccontextmanager
    async def process(self, url: str) -> AsyncIterator[Process]:
        app = self.agent.app(store=PostgresStore(url))
        await app.open()
        try:
            yield Process(app)
        finally:
            await app.close(0)


@pytest.fixture
def url() -> Any:
    with schema_url(beat_s=BEAT_S, lease_s=LEASE_S) as url:
        yield url


def to(skill: str) -> dict[str, Any]:
    params = message(skill, returnImmediately=True)
    params["message"]["metadata"] = {"skill": skill}
    return params


async def test_who_must_be_alone_is_stopped_before_others_begin(url: str) -> None:
    """The others are not: they may be repeated, and can ask whether they are."""
    works = Works()
    async with (
        proxied(url) as proxy,
        works.process(url) as other,
        works.process(proxy.url) as cut_off,
    ):
        tasks = {skill: await cut_off.send(to(skill)) for skill in ("lone", "shared", "once")}
        await until(lambda: len(works.now) == 3)
        proxy.stall()
        await until(lambda: "lone" not in works.now, seconds=SECONDS)
        assert works.calls.count("lone") == 1, "stopped before anybody else began"
        assert "once" not in works.now
        await until(lambda: "shared" in works.unsure)
        await until(lambda: works.calls.count("lone") == 2, seconds=SECONDS)
        await until(lambda: works.now.count("shared") == 2, seconds=SECONDS)
        failed = await reaches(other, tasks["once"]["id"], "TASK_STATE_FAILED", seconds=SECONDS)
        assert "may still be working" in failed["status"]["message"]["parts"][0]["text"]
        works.go_on.set()
        for skill in ("lone", "shared"):
            done = await reaches(other, tasks[skill]["id"], "TASK_STATE_COMPLETED", seconds=SECONDS)
            assert text_of(done) == f"{skill} done"
        proxy.resume()
    assert works.calls.count("lone") == 2
    assert works.calls.count("once") == 1


async def test_an_outage_of_the_whole_database_stops_nobody_else(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody takes anything then. Who must be alone can't know that: it goes on when the database
    is back, on the process that had it. Each process logs one line when it begins and one when it
    ends.
    """
    works = Works()
    async with proxied(url) as proxy, works.process(proxy.url) as one, works.process(proxy.url):
        tasks = {skill: await one.send(to(skill)) for skill in ("lone", "shared", "once")}
        await until(lambda: len(works.now) == 3)
        caplog.clear()
        proxy.stall()
        await until(lambda: "lone" not in works.now, seconds=SECONDS)
        await asyncio.sleep(LEASE_S)  # others would have begun by now
        assert works.now == ["shared"]
        proxy.resume()
        proxy.cut_all()
        await until(lambda: "lone" in works.now, seconds=SECONDS)
        works.go_on.set()
        for skill in ("lone", "shared"):
            done = await reaches(one, tasks[skill]["id"], "TASK_STATE_COMPLETED", seconds=SECONDS)
            assert text_of(done) == f"{skill} done"
        failed = await reaches(one, tasks["once"]["id"], "TASK_STATE_FAILED", seconds=SECONDS)
        assert state_of(failed) == "TASK_STATE_FAILED"
    assert works.calls.count("shared") == 1
    assert works.most == 1
    logged = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    begins = [line for line in logged if line.startswith("the store can't be written; trying")]
    ends = [line for line in logged if line.startswith("the store works again; it had failed for")]
    assert (len(begins), len(ends), len(logged)) == (2, 2, 4), logged


def test_who_must_be_alone_can_be_stopped() -> None:
    agent = Agent("Threads")

    @agent.skill(alone=True)
    def pay(text: str) -> str:
        return text

    with pytest.raises(TypeError, match="a thread can't be stopped"):
        agent.app(store="memory://")
