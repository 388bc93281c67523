"""Forking a task: a new task begins with what another had recorded up to one of its events."""

import asyncio
import datetime
import uuid
from typing import Any

import pytest

from accord import Agent, Ask, Context
from accord.engine.log import Created, Delegated, MessageAdded, PostRefused, StepEnded
from accord.engine.log.entries import Visible
from accord.engine.runs import activity, due, recovery
from accord.model import FORK, QUESTION, Message
from accord.store.contract import Namespace
from accord.testing import Clock, FakeAgent
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
    until,
)
from tests.reliability.ways import Refused

Place = Disk | Memory | Database

ACTIVATED = {"a2a-extensions": FORK}
WORKING, COMPLETED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
FAILED, ASKING = "TASK_STATE_FAILED", "TASK_STATE_INPUT_REQUIRED"


def forking(task: Any, at: int, text: str = "", **fields: Any) -> dict[str, Any]:
    """What asks for a fork."""
    task_id = task if isinstance(task, str) else task["id"]
    parts = [{"text": text}] if text else []
    metadata = {FORK: {"taskId": task_id, "at": at, **fields}}
    return {
        "message": {
            "messageId": uuid.uuid4().hex,
            "role": "ROLE_USER",
            "parts": parts,
            "metadata": metadata,
        }
    }


async def fork(process: Process, task: Any, at: int, text: str = "", **fields: Any) -> Any:
    return await process.send(forking(task, at, text, **fields), ACTIVATED)


async def events(process: Process, task_id: str) -> list[dict[str, Any]]:
    """All events of a task that has ended."""
    frames = await process.stream(
        "SubscribeToTask",
        {"id": task_id},
        {"a2a-extensions": "urn:accord:resume:1", "last-event-id": "0"},
    )
    return [frame.event for frame in frames]


def made(task: dict[str, Any]) -> list[str]:
    return ["".join(p["text"] for p in one["parts"]) for one in task.get("artifacts", [])]


class Shop:
    """Skills that record something, and a list of what really happened."""

    def __init__(self, **options: Any) -> None:
        self.agent = Agent("Shop", **options)
        self.done: list[str] = []
        self.keys: list[str] = []
        self.is_broken = True
        self.held: asyncio.Event | None = None
        self.paid = asyncio.Event()  # its step is stored
        for skill in (self.buy, self.both, self.fails, self.streams, self.waits, self.chats):
            self.agent.skill(skill, durable=True)
        self.agent.skill(self.plain)

    async def act(self, what: str, ctx: Context) -> str:
        self.done.append(what)
        self.keys.append(ctx.step_key)
        return what

    async def buy(self, text: str, ctx: Context) -> str:
        """Events: 1 submitted, 2 working, 3 asks, 4 working, 5 the artifact, 6 completed."""
        await ctx.step(self.act, f"price of {text}", ctx, name="price")
        answer = await ctx.ask("Pay?")
        if answer != "yes":
            return f"left {text}"
        await ctx.step(self.act, f"pay {text}", ctx, name="pay")
        self.paid.set()
        if self.held is not None:
            await self.held.wait()
        return f"bought {text}"

    async def both(self, text: str, ctx: Context) -> str:
        async def one(n: int) -> str:
            first = await ctx.step(self.act, f"{n}a", ctx, name="first")
            if n == 1:
                await ctx.status("one of them")
            return first + await ctx.step(self.act, f"{n}b", ctx, name="second")

        return " ".join(await ctx.gather(one(0), one(1)))

    async def fails(self, text: str, ctx: Context) -> str:
        await ctx.step(self.act, "before", ctx, name="before")
        return await ctx.step(self.breaks, ctx, name="breaks")

    async def breaks(self, ctx: Context) -> str:
        self.done.append("breaks")
        if self.is_broken:
            raise ConnectionError("away")
        return "mended"

    async def streams(self, text: str, ctx: Context) -> None:
        for n in range(4):
            await ctx.write(f"{n} ")
            if n == 1:
                await ctx.step(self.act, "between", ctx, name="between")

    async def waits(self, text: str, ctx: Context) -> str:
        within = datetime.timedelta(hours=1)
        return await ctx.ask("Well?", within=within, default="nothing")

    async def plain(self, text: str, ctx: Context) -> str:
        answer = await ctx.ask("And?")
        await ctx.status("thinking")
        return f"{text} and {answer}"

    async def chats(self, text: str, ctx: Context) -> str | Ask:
        said = ctx.state.setdefault("said", [])
        said.append(text)
        return "bye " + ",".join(said) if text == "bye" else Ask("More?")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def to(skill: str, text: str = "tea", **fields: Any) -> dict[str, Any]:
    return message(text, skill, **fields)


async def bought(process: Process) -> dict[str, Any]:
    """A task that asked, was answered with yes, and has ended."""
    asked = await process.send(to("buy"))
    assert state_of(asked) == ASKING
    task = await process.send(message("yes", task_id=asked["id"]))
    assert made(task) == ["bought tea"]
    return task


async def test_a_question_is_answered_otherwise(any_place: Place, shop: Shop):
    """What was recorded before is not done again; what comes after it is."""
    async with any_place.process(shop.agent) as process:
        task = await bought(process)
        assert shop.done == ["price of tea", "pay tea"]
        other = await fork(process, task, 3, "no")
        assert made(other) == ["left tea"]
        assert state_of(other) == COMPLETED
        assert shop.done == ["price of tea", "pay tea"]
        same = await fork(process, task, 3, "yes")
        assert made(same) == ["bought tea"]
        assert shop.done == ["price of tea", "pay tea", "pay tea"]
        assert len(set(shop.keys)) == 3  # a step that happens again has a key of its own
        assert await process.get(task["id"]) == task


async def test_it_refers_to_the_task_it_was_forked_from(place: Disk | Memory, shop: Shop):
    async with place.process(shop.agent) as process:
        task = await bought(process)
        other = await fork(process, task, 3, "no")
        assert other["id"] != task["id"]
        assert other["contextId"] == task["contextId"]
        assert other["metadata"] == {FORK: {"taskId": task["id"], "at": 3}}
        mine = [one for one in other["history"] if one["role"] == "ROLE_USER"]
        assert [one["referenceTaskIds"] for one in mine] == [[task["id"]], [task["id"]]]
        assert {one["taskId"] for one in other["history"]} == {other["id"]}
        assert FORK not in mine[1].get("metadata", {})
        again = await fork(process, other, 3, "yes")
        assert again["history"][0]["referenceTaskIds"] == [task["id"], other["id"]]
        assert again["metadata"] == {FORK: {"taskId": other["id"], "at": 3}}
        assert made(again) == ["bought tea"]


async def test_without_a_message_it_stands_as_the_task_did(any_place: Place, shop: Shop):
    """At a question it waits for an answer, by the id that the question has there."""
    async with any_place.process(shop.agent) as process:
        task = await bought(process)
        waiting = await fork(process, task, 3)
        assert state_of(waiting) == ASKING
        asked = waiting["status"]["message"]
        first = next(one for one in task["history"] if one["role"] == "ROLE_AGENT")
        assert asked["parts"] == first["parts"]
        assert asked["metadata"][QUESTION]["id"] != first["metadata"][QUESTION]["id"]
        answer = message("no", task_id=waiting["id"])
        answer["message"]["metadata"] = {QUESTION: {"id": asked["metadata"][QUESTION]["id"]}}
        assert made(await process.send(answer)) == ["left tea"]


async def test_the_answer_may_name_the_question_of_either_task(place: Disk | Memory, shop: Shop):
    async with place.process(shop.agent) as process:
        asked = await process.send(to("buy"))
        named = asked["status"]["message"]["metadata"][QUESTION]
        request = forking(asked, 3, "no", isAnswer=True)
        request["message"]["metadata"][QUESTION] = named
        assert made(await process.send(request, ACTIVATED)) == ["left tea"]
        request = forking(asked, 3, "no")
        request["message"]["metadata"][QUESTION] = {"id": "another"}
        with pytest.raises(Refused, match="is not open"):
            await process.send(request, ACTIVATED)


async def test_the_function_goes_on_live_from_an_event_behind_the_answer(
    any_place: Place, shop: Shop
):
    """The recorded answer stands; the step after the event happens again."""
    async with any_place.process(shop.agent) as process:
        task = await bought(process)
        other = await fork(process, task, 1)
        assert state_of(other) == ASKING  # nothing was done at event 1
        assert shop.done == ["price of tea", "pay tea", "price of tea"]
        later = await fork(process, task, 4)
        assert made(later) == ["bought tea"]
        assert shop.done[3:] == []  # its result was stored before event 5


async def test_a_stream_of_the_fork_has_all_its_events(place: Disk | Memory, shop: Shop):
    async with place.process(shop.agent) as process:
        task = await bought(process)
        before = await events(process, task["id"])
        frames = await process.stream("SendStreamingMessage", forking(task, 3, "no"), ACTIVATED)
        assert [frame.id for frame in frames] == [1, 2, 3, 4, 5, 6]
        shown = [frame.event for frame in frames]
        assert [list(one) for one in shown] == [list(one) for one in before]
        ids = {one.get("taskId", one.get("id")) for event in shown for one in event.values()}
        assert len(ids) == 1
        assert ids != {task["id"]}


async def test_branches_of_a_gather_go_on_each_from_its_own_record(any_place: Place, shop: Shop):
    async with any_place.process(shop.agent) as process:
        task = await process.send(to("both"))
        assert made(task) == ["0a0b 1a1b"]
        shop.done.clear()
        other = await fork(process, task, 3)  # "one of them" was said
        assert made(other) == ["0a0b 1a1b"]
        assert "1a" not in shop.done
        assert len(shop.done) < 4
        shop.done.clear()
        assert made(await fork(process, task, 2)) == ["0a0b 1a1b"]
        assert "1b" in shop.done


async def test_a_step_whose_failure_ended_the_task_is_done_again(any_place: Place, shop: Shop):
    async with any_place.process(shop.agent) as process:
        task = await process.send(to("fails"))
        assert state_of(task) == FAILED
        again = await fork(process, task, 2)
        assert state_of(again) == FAILED
        shop.is_broken = False
        mended = await fork(process, task, 2)
        assert made(mended) == ["mended"]
        assert shop.done == ["before", "breaks", "breaks", "breaks"]


async def test_output_in_chunks_is_whole_at_the_end(any_place: Place, shop: Shop):
    async with any_place.process(shop.agent) as process:
        task = await process.send(to("streams"))
        assert made(task) == ["0 1 2 3 "]
        for at in range(1, 6):
            assert made(await fork(process, task, at)) == ["0 1 2 3 "]


async def test_a_deadline_begins_anew(shop: Shop):
    """As long as it was open then, it is open in the fork, also if it has passed since."""
    clock = Clock()
    async with clock.connect(shop.agent) as client:
        asked = await client.send("tea", skill="waits")
        assert asked.task is not None
        then = asked.questions[0].expires_at
        assert then is not None
        clock.advance(2 * 3600)
        ended = await client.wait(asked.task.id)
        assert ended.text == "nothing"
        waiting = await client.fork(asked.task.id, at=3)
        now = waiting.questions[0].expires_at
        assert now is not None
        assert now - then == datetime.timedelta(hours=2)
        assert (await waiting.answer("in time")).text == "in time"
        assert waiting.task is not None
        clock.advance(2 * 3600)
        again = await client.fork(waiting.task.id, at=3)  # a fork of a fork
        assert (await again.answer("in time too")).text == "in time too"
        late = await client.fork(asked.task.id, at=3)
        assert late.task is not None
        clock.advance(3600)
        assert (await client.wait(late.task.id)).text == "nothing"


async def test_a_sleep_lasts_as_long_as_it_was_to_last(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Its end is that of the record: a fork after it goes on at once, one before it sleeps too."""
    monkeypatch.setattr(activity, "AWAKE_MS", 0)
    monkeypatch.setattr(due, "CHECK_S", 0.02)
    agent, hours = Agent("Naps"), [0.0]

    @agent.skill(durable=True)
    async def nap(text: str, ctx: Context) -> str:
        await ctx.sleep(hours[0])
        return "up"

    async with any_place.process(agent) as process:
        task = await process.send(message("go"))
        assert text_of(await fork(process, task, 2)) == "up"
        hours[0] = 3600
        sleeping = await process.send(message("go", returnImmediately=True))
        other = await process.send(
            forking(sleeping, 2) | {"configuration": {"returnImmediately": True}}, ACTIVATED
        )
        app = process.app
        namespace = Namespace("Naps", "", "")
        store = app.engine.tasks.store

        async def due_of(task_id: str) -> int:
            record = await store.load(namespace, task_id)
            assert record is not None
            return record.due_ms

        while not (await due_of(sleeping["id"]) and await due_of(other["id"])):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert abs(await due_of(sleeping["id"]) - await due_of(other["id"])) < 60_000


async def test_a_delegation_under_way_is_sent_again(place: Disk | Memory):
    def answered(asked: Message) -> Any:
        return Ask("Which?") if asked.text == "go" else f"took {asked.text}"

    async with FakeAgent(answered) as other:
        agent = Agent("Boss")

        @agent.skill(durable=True)
        async def boss(text: str, ctx: Context) -> str:
            reply = await ctx.delegate(other.url, text)
            return f"they say {reply.text}"

        async with place.process(agent) as process:
            asked = await process.send(message("go"))
            assert state_of(asked) == ASKING
            assert asked["status"]["message"]["parts"][0]["text"] == "Which?"
            copy = await fork(process, asked, 3, "this")
            assert made(copy) == ["they say took this"]
            assert [one.text for one in other.messages] == ["go", "go", "this"]
            store = process.app.engine.tasks.store
            entries = await log_of(store, Namespace("Boss", "", ""), copy["id"])
            mine = [one.task_id for one in entries if isinstance(one, Delegated)]
            theirs = await log_of(store, Namespace("Boss", "", ""), asked["id"])
            assert mine
            assert mine != [one.task_id for one in theirs if isinstance(one, Delegated)]


async def test_the_state_of_the_conversation_is_read_as_recorded_and_not_written(
    any_place: Place, shop: Shop
):
    async with any_place.process(shop.agent) as process:
        task = await process.send(to("chats", "a"))
        for text in ("b", "c"):
            task = await process.send(message(text, task_id=task["id"]))
        # 1 submitted, 2 working, 3 asks, 4 working, 5 asks, 6 working, 7 asks
        other = await fork(process, task, 3, "x")
        assert state_of(other) == ASKING
        ended = await process.send(message("bye", task_id=other["id"]))
        assert made(ended) == ["bye a,x,bye"]
        waiting = await fork(process, task, 5)
        ended = await process.send(message("bye", task_id=waiting["id"]))
        assert made(ended) == ["bye a,b,bye"]
        ended = await fork(process, task, 7, "bye")
        assert made(ended) == ["bye a,b,c,bye"]
        ended = await process.send(message("bye", task_id=task["id"]))
        assert made(ended) == ["bye a,b,c,bye"]


async def test_what_belongs_to_the_old_task_alone_is_left_out(
    shared_place: Memory | Database, shop: Shop
):
    """Posts of other replicas, also one that was refused; and the number of its attempts."""
    shop.held = asyncio.Event()
    async with shared_place.process(shop.agent) as owner:
        asked = await owner.send(to("buy"))
        async with shared_place.process(shop.agent) as other:
            await owner.send(
                message("yes", task_id=asked["id"]) | {"configuration": {"returnImmediately": True}}
            )
            await until(lambda: "pay tea" in shop.done)
            wrong = message("x", task_id=asked["id"])
            wrong["message"]["metadata"] = {QUESTION: {"id": "no such"}}
            with pytest.raises(Refused):
                await other.send(wrong)
            shop.held.set()
            await reaches(owner, asked["id"], COMPLETED)
            copy = await fork(other, asked, 3, "yes")
            assert made(copy) == ["bought tea"]
            store, mine = owner.app.engine.tasks.store, Namespace("Shop", "", "")
            old = await log_of(store, mine, asked["id"])
            new = await log_of(store, mine, copy["id"])
            assert any(isinstance(one, PostRefused) for one in old)
            assert not any(isinstance(one, PostRefused) for one in new)
            assert [one.post for one in new if isinstance(one, MessageAdded)] == [0]
            assert isinstance(new[0], Created)


async def test_a_replica_that_does_not_own_the_task_forks_it_while_it_runs(
    shared_place: Memory | Database, shop: Shop
):
    shop.held = asyncio.Event()
    async with shared_place.process(shop.agent) as owner, shared_place.process(shop.agent) as other:
        asked = await owner.send(to("buy"))
        yes = message("yes", task_id=asked["id"], returnImmediately=True)
        await owner.send(yes)
        await until(lambda: "pay tea" in shop.done)
        forks = await asyncio.gather(
            *(fork(one, asked, 3, "no") for one in (owner, other, owner, other))
        )
        assert [made(one) for one in forks] == [["left tea"]] * 4
        assert state_of(await owner.get(asked["id"])) == WORKING
        shop.held.set()
        ended = await reaches(owner, asked["id"], COMPLETED)
        assert made(ended) == ["bought tea"]


async def test_a_fork_goes_on_after_its_process_died(any_place: Place, shop: Shop):
    shop.held = asyncio.Event()
    async with any_place.dying(shop.agent) as process:
        asked = await process.send(to("buy"))
        request = forking(asked, 3, "yes") | {"configuration": {"returnImmediately": True}}
        copy = await process.send(request, ACTIVATED)
        await shop.paid.wait()
    shop.held.set()
    async with any_place.process(shop.agent) as process:
        ended = await reaches(process, copy["id"], COMPLETED)
        assert made(ended) == ["bought tea"]
        assert state_of(await process.get(asked["id"])) == ASKING
    assert shop.done == ["price of tea", "pay tea"]


async def test_a_skill_that_is_not_durable_is_forked_where_it_asks(any_place: Place, shop: Shop):
    async with any_place.process(shop.agent) as process:
        asked = await process.send(to("plain"))
        task = await process.send(message("sugar", task_id=asked["id"]))
        assert made(task) == ["tea and sugar"]
        assert made(await fork(process, task, 3, "milk")) == ["tea and milk"]
        assert state_of(await fork(process, task, 1)) == ASKING
        with pytest.raises(Refused, match=r"not durable.* from event 5; fork at 1, or at a ques"):
            await fork(process, task, 5)


async def test_an_event_that_is_not_there_is_refused_with_those_that_are(
    place: Disk | Memory, shop: Shop
):
    async with place.process(shop.agent) as process:
        task = await bought(process)
        for at in (0, -1, 7, 1000):
            with pytest.raises(Refused, match=rf"has the events 1 to 6; {at} is none of them"):
                await fork(process, task, at)
        with pytest.raises(Refused, match="ended with event 6; it can be forked at 1 to 5"):
            await fork(process, task, 6)
        with pytest.raises(Refused, match="asks nothing at event 4; questions are open at 3"):
            await fork(process, task, 4, "yes", isAnswer=True)


@pytest.mark.parametrize("point", [{}, {"taskId": "x"}, {"at": 3}, {"taskId": "x", "at": "3"}, 7])
async def test_what_is_not_said_right_is_refused(place: Disk | Memory, shop: Shop, point: Any):
    request = forking("x", 1)
    request["message"]["metadata"][FORK] = point
    async with place.process(shop.agent) as process:
        with pytest.raises(Refused, match=r"message.metadata.urn:accord:fork:1.(taskId|at) "):
            await process.send(request, ACTIVATED)


async def test_the_extension_has_to_be_activated(place: Disk | Memory, shop: Shop):
    """Else an agent that does not know it would take the message for a new task's."""
    async with place.process(shop.agent) as process:
        task = await bought(process)
        with pytest.raises(Refused, match="activates urn:accord:fork:1"):
            await process.send(forking(task, 3, "no"))


async def test_another_context_or_task_id_is_refused(place: Disk | Memory, shop: Shop):
    async with place.process(shop.agent) as process:
        task = await bought(process)
        request = forking(task, 3, "no")
        request["message"]["contextId"] = "elsewhere"
        with pytest.raises(Refused, match="belongs to its context"):
            await process.send(request, ACTIVATED)
        request = forking(task, 3, "no")
        request["message"]["taskId"] = task["id"]
        with pytest.raises(Refused, match="a fork is a new task"):
            await process.send(request, ACTIVATED)


async def test_a_key_gives_the_same_fork(any_place: Place, shop: Shop):
    async with any_place.process(shop.agent) as process:
        task = await bought(process)
        request = forking(task, 3, "no")
        keyed = ACTIVATED | {"idempotency-key": "k"}
        first = await process.send(request, keyed)
        assert (await process.send(request, keyed))["id"] == first["id"]
        quiet = forking(task, 3)
        keyed = ACTIVATED | {"idempotency-key": "q"}
        first = await process.send(quiet, keyed)
        assert state_of(first) == ASKING
        assert (await process.send(quiet, keyed))["id"] == first["id"]


async def test_a_purged_log_is_named_as_the_reason(place: Disk | Memory, shop: Shop):
    from accord.store.contract import Ages

    async with place.process(shop.agent) as process:
        task = await bought(process)
        await process.app.engine.tasks.store.purge(Ages(events_ms=-1), 100)
        with pytest.raises(Refused, match=r"can't be forked: its log was purged"):
            await fork(process, task, 3, "no")


async def test_a_message_that_waited_waits_in_the_fork_too(place: Disk | Memory):
    agent, held = Agent("Chat"), asyncio.Event()

    @agent.skill(durable=True)
    async def chat(text: str, ctx: Context) -> str | Ask:
        await ctx.step(note, text, name="note")
        await ctx.status(f"read {text}")
        if text == "one":
            await held.wait()
            return Ask("More?", takes_waiting=True)
        return f"end with {text}"

    done: list[str] = []

    async def note(text: str) -> None:
        done.append(text)

    async with place.process(agent) as process:
        task = await process.send(message("one", returnImmediately=True))
        await until(lambda: done == ["one"])
        await process.send(message("two", task_id=task["id"], returnImmediately=True))
        held.set()
        await reaches(process, task["id"], COMPLETED)
        store = process.app.engine.tasks.store
        entries = await log_of(store, Namespace("Chat", "", ""), task["id"])
        assert any(isinstance(one, StepEnded) for one in entries)
        other = await fork(process, task, 3)
        assert state_of(other) in (ASKING, COMPLETED)
        ended = await reaches(process, other["id"], COMPLETED)
        assert made(ended) == ["end with two"]
        assert done == ["one", "two", "two"]


async def test_a_question_that_nobody_answers_in_time_ends_in_the_fork_too(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The second question is asked when nobody waits: who forks there is answered by it."""
    monkeypatch.setattr(due, "CHECK_S", 0.02)
    agent = Agent("Twice asked")

    @agent.skill(durable=True)
    async def ask(text: str, ctx: Context) -> str:
        first = await ctx.ask("One?", within=0.2, default="nobody")
        return f"{first}, {await ctx.ask('Two?')}"

    async with any_place.process(agent) as process:
        asked = await process.send(message("go"))
        # 1 submitted, 2 working, 3 asks, 4 working, 5 asks
        await _asks(process, asked["id"], "Two?")
        waiting = await fork(process, asked, 5)
        assert waiting["status"]["message"]["parts"][0]["text"] == "Two?"
        ended = await process.send(message("me", task_id=waiting["id"]))
        assert made(ended) == ["nobody, me"]
        again = await fork(process, asked, 4)
        assert again["status"]["message"]["parts"][0]["text"] == "Two?"
        open_ = await fork(process, asked, 3)
        assert open_["status"]["message"]["parts"][0]["text"] == "One?"
        await _asks(process, open_["id"], "Two?")
        assert made(await process.send(message("me", task_id=open_["id"]))) == ["nobody, me"]
        assert made(await fork(process, open_, 5, "you")) == ["nobody, you"]


async def _asks(process: Process, task_id: str, text: str) -> None:
    """Wait until clients see that question."""
    while True:
        status = (await process.get(task_id))["status"]
        if "message" in status and status["message"]["parts"][0]["text"] == text:
            return
        await asyncio.sleep(0.01)


async def test_an_authorization_is_given_otherwise(any_place: Place):
    agent, granted = Agent("Bank"), asyncio.Event()

    @agent.skill(durable=True)
    async def pay(text: str, ctx: Context) -> str:
        given = await ctx.require_auth("Log in at the bank.")
        return f"paid with {given.text}"

    @agent.skill(durable=True)
    async def wait(text: str, ctx: Context) -> str:
        await ctx.require_auth("Log in at the bank.", until=granted.wait())
        return "paid"

    async with any_place.process(agent) as process:
        asked = await process.send(message("go", "pay"))
        await process.send(message("a card", task_id=asked["id"]))
        other = await fork(process, asked, 3, "cash")
        assert made(other) == ["paid with cash"]
        watching = await process.send(message("go", "wait"))
        copy = await fork(process, watching, 3)  # it goes on when the bank says so, as the old one
        assert state_of(copy) == "TASK_STATE_AUTH_REQUIRED"
        granted.set()
        for task in (watching, copy):
            assert made(await reaches(process, task["id"], COMPLETED)) == ["paid"]


async def test_a_branch_asks_while_another_has_ended_its_steps(any_place: Place):
    agent, done = Agent("Side by side"), list[str]()

    async def act(name: str) -> str:
        done.append(name)
        return name

    @agent.skill(durable=True)
    async def both(text: str, ctx: Context) -> str:
        async def works() -> str:
            return await ctx.step(act, "worked", name="works")

        async def asks() -> str:
            answer = await ctx.ask("Well?")
            return await ctx.step(act, answer, name="then")

        return " ".join(await ctx.gather(works(), asks()))

    async with any_place.process(agent) as process:
        asked = await process.send(message("go"))
        await until(lambda: done == ["worked"])
        ended = await process.send(message("one", task_id=asked["id"]))
        assert made(ended) == ["worked one"]
        assert made(await fork(process, ended, 3, "two")) == ["worked two"]
        assert done == ["worked", "one", "two"]


async def test_forks_are_made_while_a_task_writes(any_place: Place):
    """Each has what was stored before the next event, and writes the rest itself."""
    agent, go = Agent("Writer"), asyncio.Event()

    @agent.skill(durable=True)
    async def write(text: str, ctx: Context) -> None:
        for n in range(20):
            await ctx.write(f"{n} ")
            if n % 5 == 4:
                await ctx.step(asyncio.sleep, 0, name="pause", returns=None)
            if n == 9:
                await go.wait()

    whole = "".join(f"{n} " for n in range(20))
    async with any_place.process(agent) as process:
        task = await process.send(message("go", returnImmediately=True))
        while len(await _events_so_far(process, task["id"])) < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        forks = [asyncio.create_task(fork(process, task, at)) for at in range(1, 13)]
        await until(lambda: len(process.app.engine.runs.running()) == 13)
        go.set()
        assert [made(one) for one in await asyncio.gather(*forks)] == [[whole]] * 12
        assert made(await reaches(process, task["id"], COMPLETED)) == [whole]


async def test_a_task_that_a_changed_function_has_ended_goes_on_with_the_right_one(
    place: Disk | Memory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recovery, "MISMATCH_MS", 0)
    done: list[str] = []

    async def act(name: str) -> None:
        done.append(name)

    def version(first: str) -> Agent:
        agent = Agent("Changes")

        @agent.skill(durable=True)
        async def work(text: str, ctx: Context) -> str:
            await ctx.step(act, first, name=first)
            return await ctx.ask("Well?")

        return agent

    async with place.process(version("old")) as process:
        asked = await process.send(message("go"))
    async with place.process(version("new")) as process:
        await process.send(message("fine", task_id=asked["id"], returnImmediately=True))
        await reaches(process, asked["id"], FAILED)
    async with place.process(version("old")) as process:
        assert made(await fork(process, asked, 4)) == ["fine"]
    assert done == ["old"]


async def _events_so_far(process: Process, task_id: str) -> list[Any]:
    store, agent = process.app.engine.tasks.store, process.app.agent.name
    entries = await log_of(store, Namespace(agent, "", ""), task_id)
    return [entry for entry in entries if isinstance(entry, Visible)]
