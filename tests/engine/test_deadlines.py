"""Questions with a deadline: it stands in the log, and a late answer never pays."""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Agent, Ask, Context, Expired, Retention
from accord.engine.log import Answered, AskExpired, StepEnded
from accord.engine.runs import due
from accord.engine.runs import retention as upkeep
from accord.model import QUESTION
from accord.store.contract import Namespace
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
from tests.postgres import add
from tests.reliability.ways import Refused

Place = Disk | Memory | Database

WORKING, COMPLETED, FAILED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"
ASKING = "TASK_STATE_INPUT_REQUIRED"
LATE = "could be answered until .* and that has passed"
CLOSED = "the question that your message names is not open"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "CHECK_S", 0.02)


class Till:
    """Skills that ask before they pay."""

    def __init__(self, within: float) -> None:
        self.agent = Agent("Till")
        self.within = within
        self.paid: list[str] = []
        self.go_on = asyncio.Event()
        self.agent.skill(self.pay, durable=True)
        self.agent.skill(self.plain)
        self.agent.skill(self.raises, durable=True)
        self.agent.skill(self.twice, durable=True)
        self.agent.skill(self.chat)

    async def pay(self, text: str, ctx: Context) -> str:
        if await ctx.ask("Pay 4,000?", bool, within=self.within, default=False):
            await ctx.step(self.transfer, text)
            return "paid"
        await self.go_on.wait()
        return "not paid"

    async def plain(self, text: str, ctx: Context) -> str:
        """The same in a skill that is not durable."""
        is_paid = await ctx.ask("Pay 4,000?", bool, within=self.within, default=False)
        await self.go_on.wait()
        return "paid" if is_paid else "not paid"

    async def raises(self, text: str, ctx: Context) -> str:
        try:
            await ctx.ask("Pay 4,000?", bool, within=self.within)
        except Expired as error:
            if text == "caught":
                return f"caught: {error}"
            raise
        return "paid"

    async def twice(self, text: str, ctx: Context) -> str:
        await ctx.ask("Pay 10?", bool, within=self.within, default=False)
        return f"paid 4,000: {await ctx.ask('Pay 4,000?', bool)}"

    async def chat(self, text: str, ctx: Context) -> str | Ask:
        return text if len(ctx.history) > 1 else Ask("And?")

    async def transfer(self, text: str) -> None:
        self.paid.append(text)


def question_of(task: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = task["status"]["message"]["metadata"][QUESTION]
    return found


def naming(text: str, task: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer that names the question a task has asked."""
    sent = message(text, task_id=task["id"], **more)
    sent["message"]["metadata"] = {QUESTION: {"id": question_of(task)["id"]}}
    return sent


async def passed(task: dict[str, Any]) -> None:
    """The deadline of the question that a task has asked is over."""
    expires = time.mktime(time.strptime(question_of(task)["expiresAt"][:19], "%Y-%m-%dT%H:%M:%S"))
    expires += float(question_of(task)["expiresAt"][19:-1]) - time.timezone
    await until(lambda: time.time() > expires + 0.01)


async def entries(process: Process, task_id: str) -> list[Any]:
    store = process.app._engine.tasks.store
    return await log_of(store, Namespace("Till", "", ""), task_id)


@pytest.mark.parametrize("skill", ["pay", "plain"])
async def test_when_the_deadline_passes_the_default_is_taken(any_place: Place, skill: str) -> None:
    till = Till(0.3)
    till.go_on.set()
    async with any_place.process(till.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", skill))
        assert state_of(task) == ASKING
        assert set(question_of(task)) == {"id", "expiresAt"}
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "not paid"
        found = await entries(process, task["id"])
        assert sum(isinstance(entry, AskExpired) for entry in found) == 1


@pytest.mark.parametrize("skill", ["pay", "plain"])
async def test_an_answer_in_time_is_taken_also_after_a_death(any_place: Place, skill: str) -> None:
    till = Till(30)
    till.go_on.set()
    async with any_place.dying(till.agent) as process:
        task = await process.send(message("Ada", skill))
    async with any_place.process(till.agent) as process, asyncio.timeout(20):
        done = await process.send(naming("true", task))
        assert text_of(done) == "paid"
        record = await process.app._engine.tasks.store.load(Namespace("Till", "", ""), task["id"])
        assert record is not None
        assert record.due_ms == 0


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "not named"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["after it was due", "before"])
async def test_a_late_answer_after_a_death_pays_nothing(
    any_place: Place, is_named: bool, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the next process has looked for what is due, or the answer comes first."""
    if not is_seen:
        monkeypatch.setattr(due, "CHECK_S", 60.0)
        monkeypatch.setattr(due.DueTasks, "_take", _nothing)
    till = Till(0.4)
    async with any_place.dying(till.agent) as process:
        task = await process.send(message("Ada", "pay"))
        assert state_of(task) == ASKING
    await passed(task)
    async with any_place.process(till.agent) as process, asyncio.timeout(20):
        if is_seen:
            await reaches(process, task["id"], WORKING)
        late = naming("true", task) if is_named else message("true", task_id=task["id"])
        with pytest.raises(Refused, match=LATE) as refused:
            await process.send(late)
        assert refused.value.reason == "UNSUPPORTED_OPERATION"
        assert len((await process.get(task["id"]))["history"]) == 2, "refused before it is stored"
        till.go_on.set()
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "not paid"
    assert till.paid == []


async def _nothing(self: Any) -> bool:
    return False


async def test_without_a_default_it_raises_expired(disk: Disk) -> None:
    """Which is a TimeoutError; uncaught, it fails the task in words for the client."""
    assert issubclass(Expired, TimeoutError)
    till = Till(0.1)
    async with disk.process(till.agent) as process, asyncio.timeout(20):
        task = await process.send(message("uncaught", "raises"))
        task = await reaches(process, task["id"], FAILED)
        assert told(task).startswith("nobody has given an answer before 20")
        task = await process.send(message("caught", "raises"))
        task = await reaches(process, task["id"], COMPLETED)
        assert text_of(task).startswith("caught: nobody has given an answer before 20")


async def test_an_answer_that_names_a_closed_question_is_refused(any_place: Place) -> None:
    """It was meant for another one: whatever is asked now, it does not answer that."""
    till = Till(0.2)
    async with any_place.process(till.agent) as process, asyncio.timeout(20):
        first = await process.send(message("Ada", "twice"))
        await passed(first)
        await until_asked(process, first["id"], "Pay 4,000?")
        with pytest.raises(Refused, match=CLOSED):
            await process.send(naming("true", first))
        second = await reaches(process, first["id"], ASKING)
        assert question_of(second)["id"] != question_of(first)["id"]
        assert text_of(await process.send(naming("false", second))) == "paid 4,000: False"


async def until_asked(process: Process, task_id: str, text: str) -> None:
    async with asyncio.timeout(20):
        while told(await process.get(task_id)) != text:  # noqa: ASYNC110  as a client without a stream
            await asyncio.sleep(0.01)


async def test_branches_with_deadlines_go_on_after_a_death(any_place: Place) -> None:
    """The deadline of one passed while nobody was there; the next one is asked then, and a branch
    that slept has slept. Every step is done once.
    """
    agent, done = Agent("Till"), list[str]()

    async def pay(what: str) -> str:
        done.append(what)
        return what

    @agent.skill(durable=True)
    async def buy(text: str, ctx: Context) -> str:
        async def one(what: str, within: float) -> str:
            is_paid = await ctx.ask(f"Pay {what}?", bool, within=within, default=False)
            return await ctx.step(pay, f"{what} {is_paid}")

        async def rest() -> str:
            await ctx.sleep(0.1)
            return await ctx.step(pay, "slept")

        return ", ".join(await ctx.gather(one("10", 0.4), one("20", 60), rest()))

    async with any_place.dying(agent) as process:
        first = await process.send(message("go"))
        async with asyncio.timeout(20):
            while not any(isinstance(e, StepEnded) for e in await entries(process, first["id"])):  # noqa: ASYNC110  a log tells nobody that it grew
                await asyncio.sleep(0.01)
    await passed(first)
    async with any_place.process(agent) as process, asyncio.timeout(20):
        await until_asked(process, first["id"], "Pay 20?")
        with pytest.raises(Refused, match=CLOSED):
            await process.send(naming("true", first))
        second = await process.get(first["id"])
        task = await process.send(naming("true", second))
    assert text_of(task) == "10 False, 20 True, slept"
    assert sorted(done) == ["10 False", "20 True", "slept"]


async def test_every_question_has_an_id_that_an_answer_may_name(disk: Disk) -> None:
    till = Till(30)
    async with disk.process(till.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "chat"))
        assert set(question_of(task)) == {"id"}
        wrong = naming("x", task)
        wrong["message"]["metadata"][QUESTION]["id"] = "another"
        with pytest.raises(Refused, match=CLOSED):
            await process.send(wrong)
        assert text_of(await process.send(naming("Bob", task))) == "Bob"


async def test_a_wrong_answer_is_asked_again_under_the_same_id_and_deadline(disk: Disk) -> None:
    till = Till(30)
    async with disk.process(till.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "pay"))
        again = await process.send(naming("perhaps", task))
        assert told(again).startswith("That does not fit")
        assert question_of(again) == question_of(task)
        assert text_of(await process.send(naming("true", again))) == "paid"


async def test_after_a_while_the_function_is_given_up(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs a row until its deadline. Without one it stays, unless there are too many."""
    monkeypatch.setattr(upkeep, "WAITING_S", 0.05)
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    till = Till(1.5)
    till.go_on.set()
    async with any_place.process(till.agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "pay"))
        await until(lambda: not process.app._engine.runs.running())
        assert state_of(await process.get(task["id"])) == ASKING
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "not paid"


async def test_of_many_the_oldest_are_given_up_at_once(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand questions of a minute must not stay in memory for that minute. Answers reach
    those that were given up too.
    """
    monkeypatch.setattr(upkeep, "MAX_WITH_DEADLINE", 2)
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    till = Till(600)
    async with disk.process(till.agent) as process, asyncio.timeout(20):
        tasks = [await process.send(message(f"{n}", "pay")) for n in range(6)]
        plain = await process.send(message("plain", "plain"))
        await until(lambda: len(process.app._engine.runs.running()) == 3)
        left = {run.task_id for run in process.app._engine.runs.running()}
        assert left == {tasks[4]["id"], tasks[5]["id"], plain["id"]}
        for task in (tasks[0], tasks[5]):
            assert text_of(await process.send(naming("true", task))) == "paid"


async def test_a_plain_function_is_not_given_up_for_its_deadline(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did before it asked is not recorded, and would be done again."""
    monkeypatch.setattr(upkeep, "WAITING_S", 0.05)
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    agent, mails = Agent("Till"), list[str]()

    @agent.skill
    async def remind(text: str, ctx: Context) -> str:
        mails.append(text)
        return str(await ctx.ask("Pay?", bool, within=1.0, default=False))

    async with disk.process(agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada"))
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "False"
    assert mails == ["Ada"]


async def test_a_question_with_a_deadline_is_not_failed_for_being_open_for_long(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.02)
    monkeypatch.setattr(upkeep, "PURGE_S", 0.0)
    till = Till(1.0)
    till.go_on.set()
    retention = Retention(unanswered_s=0.1)
    async with disk.process(till.agent, retention=retention) as process, asyncio.timeout(20):
        task = await process.send(message("Ada", "pay"))
        other = await process.send(message("Ada", "chat"))
        assert told(await reaches(process, other["id"], FAILED)).startswith("no answer")
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "not paid"


async def test_a_timeout_around_a_question_is_warned_of(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not survive a restart, as a deadline does."""
    agent = Agent("Till")

    @agent.skill(durable=True)
    async def pay(text: str, ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                return await ctx.ask("Pay?")
        except TimeoutError:
            return "nobody"

    async with disk.process(agent) as process, asyncio.timeout(20):
        task = await process.send(message("Ada"))
        assert text_of(await reaches(process, task["id"], COMPLETED)) == "nobody"
    assert "it stopped waiting in ctx.ask (question 1)" in caplog.text
    assert "ctx.ask(..., within=...)" in caplog.text


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"default": False}, "give within= too"),
        ({"within": "soon"}, "takes a timedelta or a number of seconds, not str"),
        ({"within": -1}, "takes 0 seconds or more"),
    ],
)
async def test_what_is_no_deadline_is_refused(
    disk: Disk, options: dict[str, Any], error: str
) -> None:
    agent = Agent("Till")

    @agent.skill
    async def pay(text: str, ctx: Context) -> str:
        try:
            return await ctx.ask("Pay?", **options)
        except (TypeError, ValueError) as wrong:
            return str(wrong)

    async with disk.process(agent) as process, asyncio.timeout(20):
        assert error in text_of(await process.send(message("Ada")))


# Answer and deadline at once


async def race(answering: Process, till: Till, task: dict[str, Any], early_s: float) -> str:
    """Send an answer at about the deadline. Return what its sender was told."""
    expires = time.mktime(time.strptime(question_of(task)["expiresAt"][:19], "%Y-%m-%dT%H:%M:%S"))
    expires += float(question_of(task)["expiresAt"][19:-1]) - time.timezone
    await asyncio.sleep(max(expires - early_s - time.time(), 0))
    try:
        done = await answering.send(message("true", task_id=task["id"]))
    except Refused as refused:
        if "that has passed" not in str(refused):
            raise
        return "not paid"
    return text_of(done)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_of_an_answer_and_a_deadline_exactly_one_wins(
    any_place: Place, replicas: int
) -> None:
    """And both sides are told the same: the sender, and the function."""
    if replicas == 2 and isinstance(any_place, Disk):
        pytest.skip("a file is used by one process")
    if isinstance(any_place, Database):
        # Nobody dies here. With the short lease of tests, a heartbeat that gets no turn for 0.7 s
        # on a busy machine would have messages refused (503), which is no outcome of a race.
        any_place = Database(add(any_place.url, beat_s=5, lease_s=15))
    count = int(os.environ.get("ACCORD_RACES", "24"))
    till = Till(0.25)
    outcomes: list[str] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(60 + count))
        processes = [
            await stack.enter_async_context(any_place.process(till.agent)) for _ in range(replicas)
        ]
        for start in range(0, count, 24):
            tasks = [
                await processes[0].send(message(f"{start + n}", "pay"))
                for n in range(min(24, count - start))
            ]
            said = await asyncio.gather(
                *(
                    race(processes[-1], till, task, (n - 12) * 0.0015)
                    for n, task in enumerate(tasks)
                )
            )
            till.go_on.set()
            for n, (task, word) in enumerate(zip(tasks, said, strict=True)):
                task = await reaches(processes[0], task["id"], COMPLETED)
                assert text_of(task) == word
                assert (f"{start + n}" in till.paid) == (word == "paid")
                found = await entries(processes[0], task["id"])
                ends = [entry for entry in found if isinstance(entry, AskExpired | Answered)]
                assert len(ends) == 1
            till.go_on.clear()
            outcomes += said
    assert len(set(till.paid)) == len(till.paid) == outcomes.count("paid")
    print(f"{outcomes.count('paid')} of {count} answers won")
