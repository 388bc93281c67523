"""`ctx.sleep`: the time is in the log, and a function that sleeps costs a row, not memory."""

import asyncio
import datetime
import time
from typing import Any

import pytest

from accord import Agent, Ask, Context
from accord.engine.durable import timers
from accord.engine.log import Released, SleepLeft, Slept, Woke
from accord.engine.runs import activity, due
from accord.model import Limits
from accord.store.contract import Namespace
from accord.store.sqlite.store import SqliteStore
from tests.engine.processes import (
    Database,
    Disk,
    Memory,
    Process,
    log_of,
    message,
    reaches,
    state_of,
    text_of,
    told,
    until,
)
from tests.reliability.ways import Refused

Place = Disk | Memory | Database

WORKING, COMPLETED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
CANCELED, FAILED = "TASK_STATE_CANCELED", "TASK_STATE_FAILED"
ASKING = "TASK_STATE_INPUT_REQUIRED"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sleep gives its function up, and what is due is looked for often."""
    monkeypatch.setattr(activity, "AWAKE_MS", 0)
    monkeypatch.setattr(due, "CHECK_S", 0.02)


class Bedroom:
    """Skills that sleep, for as long as a test says."""

    def __init__(self, seconds: float) -> None:
        self.agent = Agent("Bedroom")
        self.seconds = seconds
        self.calls: list[str] = []
        self.slept_s: list[float] = []  # how long, by the first attempt's clock
        self.began = 0.0
        for skill in (self.nap, self.beside, self.then_asks):
            self.agent.skill(skill, durable=True)

    async def nap(self, text: str, ctx: Context) -> str:
        self.calls.append(text)
        self.began = self.began or time.time()
        await ctx.sleep(self.seconds)
        self.slept_s.append(time.time() - self.began)
        return f"{text} is up"

    async def beside(self, text: str, ctx: Context) -> str:
        """A branch sleeps while another asks."""
        self.calls.append(text)

        async def rings() -> str:
            await ctx.sleep(self.seconds)
            return "rung"

        rung, answer = await ctx.gather(rings(), ctx.ask("Coffee?"))
        return f"{rung}, {answer}"

    async def then_asks(self, text: str, ctx: Context) -> str | Ask:
        self.calls.append(text)
        if len(ctx.history) > 1:
            return f"{text} was read"
        await ctx.sleep(self.seconds)
        return Ask("And?", takes_waiting=True)


def runs(process: Process) -> list[Any]:
    found: list[Any] = process.app._engine.runs.running()
    return found


async def asleep(process: Process, room: Bedroom) -> None:
    """The function was called, and given up."""
    await until(lambda: room.calls and not runs(process))
    await process.app._engine.tasks.flush()


async def entries(process: Process, task_id: str) -> list[Any]:
    store = process.app._engine.tasks.store
    return await log_of(store, Namespace("Bedroom", "", ""), task_id)


async def test_a_function_that_sleeps_is_given_up_and_called_again_in_time(
    any_place: Place,
) -> None:
    """It has no owner and no run; the time is never early."""
    room = Bedroom(0.4)
    async with any_place.process(room.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "nap", returnImmediately=True))
        await asleep(process, room)
        record = await process.app._engine.tasks.store.load(
            Namespace("Bedroom", "", ""), task["id"]
        )
        assert record is not None
        assert record.due_ms > 0
        assert state_of(await process.get(task["id"])) == WORKING
        task = await reaches(process, task["id"], COMPLETED)
        assert text_of(task) == "Ada is up"
        assert room.calls == ["Ada", "Ada"]
        assert room.slept_s[0] >= 0.399
        kinds = [type(entry) for entry in await entries(process, task["id"])]
        assert [kind for kind in kinds if kind in (Slept, Woke, Released, SleepLeft)] == [
            Slept,
            Released,
            Woke,
        ]


@pytest.mark.parametrize("awake_ms", [0, 60_000], ids=["given up", "in memory"])
async def test_after_a_death_only_the_rest_is_waited_for(
    any_place: Place, awake_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "AWAKE_MS", awake_ms)
    room = Bedroom(2.0)
    async with any_place.dying(room.agent) as process:
        task = await process.send(message("Ada", "nap", returnImmediately=True))
        await until(lambda: room.calls)
        await process.app._engine.tasks.flush()
    async with any_place.process(room.agent) as process, asyncio.timeout(20):
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "Ada is up"
        found = await entries(process, task["id"])
    assert sum(isinstance(entry, Slept) for entry in found) == 1, "no new time was set"
    assert len(room.slept_s) == 1
    assert room.slept_s[0] >= 1.999


async def test_what_was_due_while_nobody_was_there_goes_on_at_once(any_place: Place) -> None:
    room = Bedroom(0.2)
    async with any_place.dying(room.agent) as process:
        task = await process.send(message("Ada", "nap", returnImmediately=True))
        await asleep(process, room)
    await until(lambda: time.time() > room.began + 0.25)
    async with any_place.process(room.agent) as process, asyncio.timeout(20):
        await reaches(process, task["id"], COMPLETED)


async def test_two_processes_wake_each_task_once(shared_place: Memory | Database) -> None:
    room = Bedroom(0.3)
    async with (
        shared_place.process(room.agent) as one,
        shared_place.process(room.agent) as other,
        asyncio.timeout(30),
    ):
        tasks = [
            await process.send(message(f"{n}", "nap", returnImmediately=True))
            for n in range(10)
            for process in (one, other)
        ]
        for task in tasks:
            await reaches(one, task["id"], COMPLETED)
    assert len(room.slept_s) == len(tasks)


async def test_a_message_to_a_sleeping_task_waits_and_does_not_wake_it(any_place: Place) -> None:
    """It is stored at once, and has its turn when the function has returned."""
    room = Bedroom(0.6)
    async with any_place.process(room.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "then_asks", returnImmediately=True))
        await asleep(process, room)
        sent = await process.send(message("psst", task_id=task["id"], returnImmediately=True))
        assert state_of(sent) == WORKING
        assert [told["parts"][0]["text"] for told in sent["history"]] == ["Ada", "psst"]
        assert room.calls == ["Ada"]
        await until(lambda: not runs(process))
        task = await reaches(process, task["id"], COMPLETED)
        assert text_of(task) == "psst was read"
    assert room.calls == ["Ada", "Ada", "psst"]


async def test_no_more_messages_wait_for_a_sleeping_task_than_for_any(disk: Disk) -> None:
    room = Bedroom(60)
    limits = Limits(waiting_messages=2)
    async with disk.process(room.agent, limits=limits) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "nap", returnImmediately=True))
        await asleep(process, room)
        late = message("psst", task_id=task["id"], returnImmediately=True)
        for _ in range(2):
            await process.send(late)
        with pytest.raises(Refused, match="2 messages already wait"):
            await process.send(late)


async def test_a_cancel_ends_a_sleeping_task_without_calling_its_function(
    any_place: Place,
) -> None:
    room = Bedroom(60)
    async with any_place.process(room.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "nap", returnImmediately=True))
        await asleep(process, room)
        assert state_of(await process.call("CancelTask", {"id": task["id"]})) == CANCELED
        assert room.calls == ["Ada"]
        record = await process.app._engine.tasks.store.load(
            Namespace("Bedroom", "", ""), task["id"]
        )
        assert record is not None
        assert (record.due_ms, record.owner) == (0, 0)


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
async def test_a_branch_sleeps_while_another_asks(any_place: Place, dies: bool) -> None:
    """The timer fires while the question is open, also if the process dies meanwhile."""
    room = Bedroom(0.4)
    async with any_place.dying(room.agent) if dies else any_place.process(room.agent) as process:
        task = await process.send(message("Ada", "beside"))
        assert state_of(task) == ASKING
        if not dies:
            await rings_and_is_answered(process, room, task["id"])
    if dies:
        async with any_place.process(room.agent) as process:
            await rings_and_is_answered(process, room, task["id"])


async def rings_and_is_answered(process: Process, room: Bedroom, task_id: str) -> None:
    async with asyncio.timeout(20):
        found = list[Any]()
        while not any(isinstance(entry, Woke) for entry in found):
            found = await entries(process, task_id)
            await asyncio.sleep(0.01)
        await reaches(process, task_id, ASKING)
        task = await process.send(message("yes", task_id=task_id))
        assert text_of(task) == "rung, yes"


async def test_a_branch_that_is_about_to_ask_does_not_sleep(disk: Disk) -> None:
    """Its question is asked at once, though the other branch has fallen asleep already."""
    agent = Agent("Bedroom")

    @agent.skill(durable=True)
    async def nap(text: str, ctx: Context) -> str:
        _, answer = await ctx.gather(ctx.sleep(600), ctx.ask("Coffee?"))
        return answer

    async with disk.process(agent) as process, asyncio.timeout(20):
        assert told(await process.send(message("Ada"))) == "Coffee?"


async def test_a_skill_that_uses_no_time_pays_nothing_for_it(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one commit more, and nothing more in one."""
    agent, items = Agent("Bedroom"), list[Any]()

    @agent.skill
    async def echo(text: str) -> str:
        return text

    commit = SqliteStore.commit

    async def counted(self: SqliteStore, batch: Any) -> list[bool]:
        items.extend(batch)
        return await commit(self, batch)

    monkeypatch.setattr(SqliteStore, "commit", counted)
    async with disk.process(agent) as process, asyncio.timeout(20):
        await process.send(message("Ada"))
    [item] = items
    assert item.due_ms is None
    lines = [line[:1] for line in item.data.split(b"\n")]
    assert lines == [b"c", b"r", b"w", b"a", b"w"]
    # As many bytes as before there were times in a log.
    assert (len(item.data), len(item.head), len(item.artifacts)) == (667, 381, 54)


async def test_many_sleeping_tasks_leave_no_run_in_memory(disk: Disk) -> None:
    room = Bedroom(600)
    async with disk.process(room.agent) as process, asyncio.timeout(30):
        for n in range(100):
            await process.send(message(f"{n}", "nap", returnImmediately=True))
        await until(lambda: len(room.calls) == 100 and not runs(process))
        assert len(process.app._engine.tasks.working) == 0


async def test_sleeping_is_neither_work_nor_silence(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A skill may sleep for longer than it may work or be silent."""
    monkeypatch.setattr(activity, "AWAKE_MS", 60_000)
    agent = Agent("Bedroom")

    @agent.skill(durable=True, run_s=0.5, idle_s=0.5)
    async def nap(text: str, ctx: Context) -> str:
        await ctx.sleep(2.5)
        return text

    async with disk.process(agent) as process, asyncio.timeout(20):
        assert text_of(await process.send(message("Ada"))) == "Ada"


async def test_in_a_skill_that_is_not_durable_it_is_an_ordinary_sleep(disk: Disk) -> None:
    agent, calls = Agent("Bedroom"), list[str]()

    @agent.skill
    async def nap(text: str, ctx: Context) -> str:
        calls.append(text)
        await ctx.sleep(datetime.timedelta(milliseconds=50))
        await ctx.sleep(until=datetime.datetime.now(datetime.UTC))
        return text

    async with disk.process(agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada"))
        assert text_of(task) == "Ada"
        assert calls == ["Ada"]
        assert not any(isinstance(entry, Slept) for entry in await entries(process, task["id"]))


async def test_a_sleep_that_is_left_is_left_again(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By asyncio.timeout, whose time begins anew after a restart: a warning says so."""
    monkeypatch.setattr(activity, "AWAKE_MS", 60_000)
    agent = Agent("Bedroom")

    @agent.skill(durable=True)
    async def nap(text: str, ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                await ctx.sleep(30)
        except TimeoutError:
            return "woken"
        return "slept"

    async with disk.process(agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada"))
        assert text_of(task) == "woken"
        assert SleepLeft("", 1) in await entries(process, task["id"])
    assert "it stopped waiting in ctx.sleep (sleep 1); if that was asyncio.timeout" in caplog.text
    assert "within=" in caplog.text


NOW = 1_000_000
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("duration", "until_", "due_ms"),
    [
        (1, None, NOW + 1000),
        (0.0001, None, NOW + 1),
        (0, None, NOW),
        (datetime.timedelta(days=2), None, NOW + 172_800_000),
        (None, datetime.datetime(1970, 1, 1, 0, 20, tzinfo=UTC), 1_200_000),
        (None, datetime.datetime(1970, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_when_a_sleep_ends(duration: Any, until_: Any, due_ms: int) -> None:
    assert timers.end_of_sleep(NOW, duration, until_) == due_ms


@pytest.mark.parametrize(
    ("duration", "until_", "error", "text"),
    [
        (None, None, TypeError, "say how long"),
        (1, datetime.datetime.now(UTC), TypeError, "say how long"),
        (None, datetime.datetime(2030, 1, 1), ValueError, "time zone"),
        (None, 5, TypeError, "takes a datetime, not int"),
        ("1", None, TypeError, "a timedelta or a number of seconds, not str"),
        (True, None, TypeError, "not bool"),
        (-1, None, ValueError, "0 seconds or more"),
        (float("nan"), None, ValueError, "0 seconds or more"),
        (float("inf"), None, ValueError, "no more than a century"),
    ],
)
def test_what_is_no_time_is_refused(
    duration: Any, until_: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        timers.end_of_sleep(NOW, duration, until_)


async def test_where_it_can_not_be_found_again_it_is_refused(disk: Disk) -> None:
    agent = Agent("Bedroom")

    @agent.skill(durable=True)
    async def nap(text: str, ctx: Context) -> str:
        async def inside() -> str:
            await ctx.sleep(1)
            return ""

        try:
            if text == "step":
                return str(await ctx.step(inside))
            return await asyncio.create_task(inside())
        except Exception as error:
            return str(error)

    async with disk.process(agent) as process, asyncio.timeout(20):
        task = await process.send(message("step"))
        assert "ctx.sleep was called within step 'inside'" in text_of(task)
        task = await process.send(message("task"))
        assert "ctx.sleep was called in a task of your own" in text_of(task)
        assert told(task) == ""
