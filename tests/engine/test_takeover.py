"""A task that changes hands between two processes: nobody who waits for it is forgotten, and
nothing is done or told twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from accord import Agent, Ask, Context
from accord.engine.log import Log
from accord.engine.log.entries import PostRefused
from accord.engine.ownership import SlotState
from accord.engine.reading import remote
from accord.engine.runs import retention as upkeep
from accord.engine.runs.posts import Posted
from accord.model import Message, Part, Role, SendMessageRequest, Unavailable
from accord.protocol.v1 import codec as v1
from accord.store.contract import Can, Namespace, PostKind, Record, Row, Wake
from accord.store.memory import MemoryStore
from tests.engine.processes import (
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


@contextlib.asynccontextmanager
async def serving(agent: Agent, store: MemoryStore) -> AsyncIterator[Process]:
    """A process on one of several handles."""
    app = agent.app(store=store)
    await app.open()
    try:
        yield Process(app)
    finally:
        await app.close()


def said_by_client(task: dict[str, Any]) -> list[str]:
    return [said["parts"][0]["text"] for said in task["history"] if said["role"] == "ROLE_USER"]


def key(name: str) -> dict[str, str]:
    return {"idempotency-key": name}


def chatting(name: str = "Chat") -> tuple[Agent, list[str]]:
    """An agent that says what was said, and what that was."""
    agent, heard = Agent(name), list[str]()

    @agent.skill
    async def chat(text: str, ctx: Context) -> None:
        while True:
            heard.append(text)
            text = await ctx.ask(f"You said {text}. And?")

    return agent, heard


# Another process goes on


class Blind(MemoryStore):
    """A handle that finds no orphans."""

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        return []


async def test_whoever_waits_for_a_task_that_another_process_took_over_is_answered_by_what_that_writes(  # noqa: E501
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sender and a subscriber of the process that has lost it: neither hangs, and neither misses
    or repeats anything.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    base, agent, calls, go_on = MemoryStore(), Agent("Taken"), [], asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        calls.append(text)
        await go_on.wait()
        ctx.status("nearly")
        return "done"

    base.is_shared = True
    async with (
        serving(agent, Blind(base._state)) as loser,
        serving(agent, base.another()) as winner,
    ):
        sending = asyncio.create_task(loser.send(message("go")))
        await until(lambda: calls)
        ((task_id, task),) = base._state.indexes[Namespace("Taken")].tasks.items()
        reading = await loser.subscribed(task_id)
        base._state.give(task.record, 999)  # of a process that is not there
        await until(lambda: len(calls) == 2)
        go_on.set()
        async with asyncio.timeout(10):
            assert text_of(await sending) == "done"
            frames = await reading
        assert text_of(await winner.get(task_id)) == "done"
    assert frames[-1].is_final
    assert [frame.id for frame in frames] == list(range(frames[0].id, frames[0].id + len(frames)))


async def test_a_message_for_what_a_dead_process_left_takes_it_up_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes before anyone has looked for orphans: its sender is answered by the work that goes
    on, not by an empty task.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 60.0)
    place, agent, number, calls = Memory(), Agent("Orphan"), 1, []

    @agent.skill(durable=True)
    async def work(text: str) -> str | Ask:
        calls.append(text)
        if number == 1:
            await asyncio.Event().wait()
        return Ask("And?", takes_waiting=True) if text == "go" else f"go {text}"

    async with place.process(agent) as living:
        async with place.dying(agent) as dead:
            task = await dead.send(message("go", returnImmediately=True))
            await until(lambda: calls)
            number = 2
        async with asyncio.timeout(10):
            task = await living.send(message("more", task_id=task["id"]))
    assert text_of(task) == "go more", told(task)
    assert calls == ["go", "go", "more"]


class SlowReads(MemoryStore):
    """A handle whose reads can be made to wait."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.may_read, self.waiting = asyncio.Event(), 0
        self.may_read.set()

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        self.waiting += 1
        await self.may_read.wait()
        self.waiting -= 1
        return await super().read(after)


async def test_a_process_that_is_declared_dead_while_it_resumes_a_task_leaves_it_to_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It calls no function for a task that is no longer its own, and says nothing of a fault."""
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    base, agent, calls, go_on = MemoryStore(), Agent("Resumed"), list[str](), asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str) -> str:
        calls.append(text)
        await go_on.wait()
        return "done"

    base.is_shared = True
    dead, slow = base.another(), SlowReads(base._state)
    async with serving(agent, slow) as living:
        async with serving(agent, dead) as first:
            task = await first.send(message("go", returnImmediately=True))
            await until(lambda: calls)
            slow.may_read.clear()
            dead.kill()
        await until(lambda: slow.waiting)  # the task is resumed
        number = slow.replica
        slow.kill()
        slow.is_sure = True  # it does not know yet
        with pytest.raises(Refused):
            await living.send(message("it notices"))
        await until(lambda: slow.replica != number)
        slow.may_read.set()
        go_on.set()
        assert (
            state_of(await reaches(living, task["id"], "TASK_STATE_COMPLETED"))
            == "TASK_STATE_COMPLETED"
        )
    assert "can't be resumed" not in caplog.text


# One key, two processes


async def test_one_key_on_both_processes_at_once_is_one_turn(
    place_of_two: tuple[Process, Process, list[str]],
) -> None:
    """Neither finds the key when it looks. One of them is too late, is answered like the other, and
    does not lose the task.
    """
    one, other, heard = place_of_two
    task = await one.send(message("go"))
    params = message("more", task_id=task["id"])
    async with asyncio.timeout(10):
        answers = await asyncio.gather(
            *(process.send(params, key("k")) for process in (other, one))
        )
        assert [told(answer) for answer in answers] == ["You said more. And?"] * 2
        task = await other.send(message("last", task_id=task["id"]))
    assert said_by_client(task) == heard == ["go", "more", "last"]


async def test_one_key_on_both_processes_at_once_makes_one_task() -> None:
    place, agent, calls = Memory(), Agent("Once"), []

    @agent.skill(durable=True)
    async def work(text: str) -> str:
        calls.append(text)
        return "done"

    params = message("go")
    async with place.process(agent) as one, place.process(agent) as other, asyncio.timeout(10):
        answers = await asyncio.gather(
            *(process.send(params, key("k")) for process in (one, other))
        )
        (task,) = (await one.call("ListTasks", {}))["tasks"]
    assert [(answer["id"], text_of(answer)) for answer in answers] == [(task["id"], "done")] * 2
    assert calls == ["go"]


async def test_a_repeated_message_gets_the_answer_of_its_own_turn(
    place_of_two: tuple[Process, Process, list[str]],
) -> None:
    """It was posted to the process that runs the task; repeated, it may come to either, and others
    have been said since.
    """
    one, other, heard = place_of_two
    task = await one.send(message("go"))
    await one.send(message("before", task_id=task["id"]))
    params = message("posted", task_id=task["id"])
    async with asyncio.timeout(10):
        assert told(await other.send(params, key("k"))) == "You said posted. And?"
        for process in (other, one):
            assert told(await process.send(params, key("k"))) == "You said posted. And?"
        await one.send(message("after", task_id=task["id"]))
        for process in (other, one):
            assert told(await process.send(params, key("k"))) == "You said posted. And?"
    assert heard == ["go", "before", "posted", "after"]


@pytest.fixture
async def place_of_two() -> AsyncIterator[tuple[Process, Process, list[str]]]:
    """Two processes with one agent that chats, and what was said to it."""
    place = Memory()
    agent, heard = chatting()
    async with place.process(agent) as one, place.process(agent) as other:
        yield one, other, heard


# Whatever a store raises, the loops go on


class Faulty(MemoryStore):
    """A handle whose next calls of some functions raise these errors."""

    def __init__(self, *args: Any, **errors: list[Exception]) -> None:
        super().__init__(*args)
        self.errors = errors

    def _fail(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    async def rejoin(self) -> None:
        self._fail("rejoin")
        await super().rejoin()

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        if watch:
            self._fail("watch")
        return await super().load(namespace, task_id, watch=watch)

    async def unclaim(self, key: int, pos: int) -> None:
        self._fail("unclaim")
        await super().unclaim(key, pos)


def errors_of(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if about in record.getMessage()]


async def test_a_replica_takes_a_new_number_whatever_kept_it_from_that_at_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would stay out for ever: alive, and with nobody to restart it. What nobody foresaw is
    logged once, with its traceback.
    """
    base, agent = MemoryStore(), Agent("Echo")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    base.is_shared = True
    errors: list[Exception] = [RuntimeError("can't start new thread") for _ in range(3)]
    store = Faulty(base._state, rejoin=[*errors, Unavailable("away")])
    async with asyncio.timeout(10), serving(agent, store) as one:
        store.kill()
        with pytest.raises(Refused):
            await one.send(message("while it is out"))
        await until(lambda: not one.app._engine.tasks.trouble)
        assert store.errors == {"rejoin": []}
        await one.send(message("after it"))
    number = "taking a new replica number"
    assert errors_of(caplog, number) == [
        f"{number}: failed, and is tried again",
        f"{number}: works again",
    ]


async def test_a_task_that_was_lost_is_read_on_whatever_kept_it_from_being_watched_at_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its readers would never see what the next owner writes. A second task that was lost with it
    is watched at once.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    monkeypatch.setattr(remote, "RETRY_S", 0.01)
    base, agent, calls, go_on = MemoryStore(), Agent("Taken"), [], asyncio.Event()

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        calls.append(text)
        await go_on.wait()
        return f"{text} done"

    class Sightless(Faulty, Blind):
        """It finds no orphans either."""

    base.is_shared = True
    loser_store = Sightless(base._state)
    async with (
        asyncio.timeout(20),
        serving(agent, loser_store) as loser,
        serving(agent, base.another()),
    ):
        sending = [asyncio.create_task(loser.send(message(text))) for text in ("one", "other")]
        await until(lambda: len(calls) == 2)
        loser_store.errors["watch"] = [KeyError("row"), KeyError("row"), Unavailable("away")]
        for task in list(base._state.indexes[Namespace("Taken")].tasks.values()):
            base._state.give(task.record, 999)  # of a process that is not there
        await until(lambda: len(calls) == 4)
        go_on.set()
        assert [text_of(task) for task in await asyncio.gather(*sending)] == [
            "one done",
            "other done",
        ]
    watch = "beginning to watch tasks"
    assert errors_of(caplog, watch) == [
        f"{watch}: failed, and is tried again",
        f"{watch}: works again",
    ]


async def test_a_task_that_can_not_be_given_back_is_found_by_the_audit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would stay ours in the store, and nothing would happen to it here."""
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    base, agent, me = MemoryStore(), Agent("Asks"), Namespace("Asks")

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("More?")

    base.is_shared = True
    store = Faulty(base._state)
    async with asyncio.timeout(10), serving(agent, store) as one:
        task_id = (await one.send(message("go")))["id"]
        tasks, record = one.app._engine.tasks, base._state.find(me, task_id).record
        slot = tasks.directory.slot(record.key)
        await until(lambda: (record.owner, slot.state) == (0, SlotState.IDLE))
        store.errors["unclaim"] = [KeyError("row")]
        log = await tasks.own(me, task_id)
        assert isinstance(log, Log)
        tasks.directory.release(log)
        await until(lambda: not store.errors["unclaim"] and not record.owner)
    assert len(errors_of(caplog, "can't be given up")) == 1


# What goes between processes


class Late(MemoryStore):
    """A handle that hears late of what others have written."""

    is_late = False

    async def open(self, wake: Wake) -> None:
        await super().open(lambda tasks: None if self.is_late else wake(tasks))


async def test_a_task_that_cannot_be_read_costs_no_other_its_readers() -> None:
    """Several tasks are read in one go. Who reads another of them gets what its owner wrote."""
    base, agent, go_on = MemoryStore(), Agent("Works"), asyncio.Event()

    @agent.skill
    async def work(text: str) -> str:
        await go_on.wait()
        return text

    base.is_shared = True
    late = Late(base._state)
    async with (
        asyncio.timeout(10),
        serving(agent, base.another()) as one,
        serving(agent, late) as other,
    ):
        made = [
            await one.send(message(text, returnImmediately=True)) for text in ("damaged", "good")
        ]
        damaged, good = [await other.subscribed(task["id"]) for task in made]
        late.is_late = True
        go_on.set()
        for task in made:
            await reaches(one, task["id"], "TASK_STATE_COMPLETED")
        (row,) = [task for task in base._state.tasks.values() if task.record.id == made[0]["id"]]
        row.log[-1] = msgspec.structs.replace(row.log[-1], data=b"x")
        late.is_late = False
        late._wake(list(base._state.tasks))
        assert (await good)[-1].is_final
        damaged.cancel()


class SlowAnswers(MemoryStore):
    """A handle whose answers come when a test lets them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gates = {name: asyncio.Event() for name in ("read", "load")}
        self.held: set[str] = set()
        for gate in self.gates.values():
            gate.set()

    async def _answer(self, name: str) -> None:
        if not self.gates[name].is_set():
            self.held.add(name)
            await self.gates[name].wait()

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        rows = await super().read(after)
        await self._answer("read")
        return rows

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        record = await super().load(namespace, task_id, watch=watch)
        await self._answer("load")
        return record


async def test_who_begins_to_read_as_the_last_reader_leaves_misses_nothing() -> None:
    """The store wakes once for what it has written: no second wake-up tells the next reader."""
    base, agent, go_on = MemoryStore(), Agent("Works"), asyncio.Event()

    @agent.skill
    async def work(text: str) -> str:
        await go_on.wait()
        return text

    base.is_shared = True
    slow = SlowAnswers(base._state)
    async with (
        asyncio.timeout(10),
        serving(agent, base.another()) as one,
        serving(agent, slow) as other,
    ):
        task_id = (await one.send(message("go", returnImmediately=True)))["id"]
        first = await other.subscribed(task_id)
        slow.gates["load"].clear()
        second = asyncio.create_task(other.subscribed(task_id))
        await until(lambda: "load" in slow.held)  # the task as it was before its end
        slow.gates["read"].clear()
        go_on.set()
        await until(lambda: "read" in slow.held)
        first.cancel()
        views = other.app._engine.tasks.views
        await until(lambda: views.open == 0)
        slow.gates["load"].set()
        reading = await second
        slow.gates["read"].set()
        assert (await reading)[-1].is_final


async def test_who_sends_again_is_answered_if_turn_and_answer_are_read_at_once() -> None:
    """What it had found of the task is older than both, and the store wakes nobody twice."""
    base, (agent, heard) = MemoryStore(), chatting("Again")
    base.is_shared = True
    owning, repeating = Late(base._state), Late(base._state)
    async with (
        asyncio.timeout(10),
        serving(agent, owning) as owner,
        serving(agent, base.another()) as other,
        serving(agent, repeating) as third,
    ):
        task = await owner.send(message("go"))
        owning.is_late = repeating.is_late = True
        params = message("more", task_id=task["id"])
        first = asyncio.create_task(other.send(params, key("k")))
        await until(lambda: base._state.keys)
        again = asyncio.create_task(third.send(params, key("k")))
        await until(lambda: third.app._engine.tasks.views.open)
        owning.is_late = False
        owning._wake(None)
        await first
        repeating.is_late = False
        repeating._wake(list(base._state.tasks))
        assert told(await again) == "You said more. And?"
    assert heard == ["go", "more"]


async def test_a_subscriber_that_is_behind_when_its_process_claims_the_task_misses_and_repeats_nothing() -> (  # noqa: E501
    None
):
    """What others wrote last has not been read yet: it comes from the store, before what is written
    here now.
    """
    base, agent = MemoryStore(), Agent("Counting")

    @agent.skill
    async def count(text: str, ctx: Context) -> Ask | str:
        for n in range(4):
            ctx.status(f"{text} {n}")
            await asyncio.sleep(0)
        return "done" if text == "last" else Ask("Next?")

    base.is_shared = True
    late = Late(base._state)
    async with serving(agent, base.another()) as one, serving(agent, late) as behind:
        task = await one.send(message("one"))
        reading = await behind.subscribed(task["id"])
        await one.send(message("two", task_id=task["id"]))
        late.is_late = True
        await one.send(message("three", task_id=task["id"]))
        await behind.send(message("four", task_id=task["id"]))
        late.is_late = False
        await behind.send(message("last", task_id=task["id"]))
        async with asyncio.timeout(10):
            frames = await reading
    assert [frame.id for frame in frames] == list(range(frames[0].id, frames[0].id + len(frames)))
    said = [told(frame.event["statusUpdate"]) for frame in frames if "statusUpdate" in frame.event]
    assert [text for text in said if text not in ("", "Next?")] == [
        f"{text} {n}" for text in ("two", "three", "four", "last") for n in range(4)
    ]


async def test_a_post_that_can_not_be_read_is_refused_and_those_after_it_are_read() -> None:
    """A process of a newer release may have written it: it must not stand in the way of all others
    for ever.
    """
    place, agent = Memory(), Agent("Posts")

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        return await ctx.ask("Name?")

    async with place.process(agent) as owner, place.process(agent) as other, asyncio.timeout(10):
        task = await owner.send(message("go"))
        tasks = other.app._engine.tasks
        record = await tasks.store.load(Namespace("Posts"), task["id"])
        post, stored = tasks.post(record, PostKind.MESSAGE, b'{"broken":1}')
        assert await stored
        assert text_of(await other.send(message("Ada", task_id=task["id"]))) == "Ada"
        await reaches(owner, task["id"], "TASK_STATE_COMPLETED")
        log = await log_of(tasks.store, Namespace("Posts"), task["id"])
    assert [entry.post for entry in log if isinstance(entry, PostRefused)] == [post]


@pytest.mark.parametrize("skill", ["ask", "hold"])
async def test_a_post_that_a_dead_process_did_not_read_is_read_by_the_next_owner(
    monkeypatch: pytest.MonkeyPatch, skill: str
) -> None:
    """Its sender was told that it is stored. A task that waited is answered, and not failed for
    want of an answer; one that was worked on goes on, and hears it.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    place, agent, calls, go_on = Memory(), Agent("Posts"), [], asyncio.Event()

    @agent.skill(durable=True)
    async def ask(text: str, ctx: Context) -> str:
        calls.append(text)
        return f"Hello {await ctx.ask('Name?')}"

    @agent.skill(durable=True)
    async def hold(text: str) -> str | Ask:
        calls.append(text)
        await go_on.wait()
        return Ask("Name?", takes_waiting=True) if text == "go" else f"Hello {text}"

    async with place.process(agent) as living, asyncio.timeout(20):
        async with place.dying(agent) as dead:
            task = await dead.send(message("go", skill, returnImmediately=True))
            await until(lambda: calls)
            dead.app._engine.tasks.on_posts = lambda tasks: None  # it reads no more posts
            tasks = living.app._engine.tasks
            if skill == "ask":
                await reaches(dead, task["id"], "TASK_STATE_INPUT_REQUIRED")
            sending = asyncio.create_task(living.send(message("Ada", task_id=task["id"])))
            record = tasks.store._state.indexes[Namespace("Posts")].tasks[task["id"]].record
            await until(lambda: record.posts)
        go_on.set()
        await reaches(living, task["id"], "TASK_STATE_COMPLETED")
        assert text_of(await sending) == "Hello Ada"
    assert calls == ["go", "go", *(["Ada"] if skill == "hold" else [])]


async def test_a_posted_message_that_reopens_a_task_outlives_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner had claimed a task that has ended, and died before it read the post: who takes the
    task up begins it anew.
    """
    monkeypatch.setattr(upkeep, "CHECK_S", 0.01)
    place, agent, calls = Memory(), Agent("Posts"), []

    @agent.skill
    async def work(text: str) -> str:
        calls.append(text)
        return text

    async with place.process(agent) as living, asyncio.timeout(20):
        async with place.dying(agent) as dead:
            task = await dead.send(message("one"))
            store = dead.app._engine.tasks.store
            dead.app._engine.tasks.on_posts = lambda tasks: None  # it reads no more posts
            record = await store.claim(Namespace("Posts"), task["id"], reopen=True)
            said = Message(
                message_id="m2", role=Role.USER, parts=[Part(text="two")], task_id=task["id"]
            )
            body = v1.encode(Posted(SendMessageRequest(message=said)))
            _, stored = living.app._engine.tasks.post(record, PostKind.REOPEN, body)
            assert await stored
        await until(lambda: len(calls) == 2)
        task = await reaches(living, task["id"], "TASK_STATE_COMPLETED")
    assert calls == ["one", "two"]
