"""A function that is gone through again: what was told stays told, and nothing is taken for something else."""

import asyncio
import functools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, Context, Message, Part, connect
from accord.client import Retry
from accord.engine.log import log as log_
from accord.model import Role
from accord.store import CommitFailed, Keep, Note, Write
from accord.store.sqlite import SqliteStore
from tests.engine.lives import Lives
from tests.engine.test_parallel import living
from tests.reliability.harness import message, state_of, text_of, told


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    return Lives(tmp_path / "tasks.db")


def artifacts(task: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(a["artifactId"], a.get("name", ""), "".join(p.get("text", "") for p in a["parts"])) for a in task["artifacts"]]


# What a step says


async def test_what_a_step_said_stays_said(lives: Lives) -> None:
    """A step that streams, as of a language model, is not done again: its chunks are not taken away for that."""

    @lives.agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> str:
        async def generate() -> int:
            for word in ("Once ", "upon ", "a time. "):
                ctx.write(word)
            return 3

        count = await ctx.step(generate)
        ctx.write(f"[{count} words] ")
        await lives.die()
        return "The end."

    before, after = await lives.live()
    assert text_of(before) == "Once upon a time. [3 words] "
    assert text_of(after) == "Once upon a time. [3 words] The end."
    assert artifacts(after)[0][0] == artifacts(before)[0][0]


@pytest.mark.parametrize("is_thread", [False, True])
async def test_artifacts_of_a_step_keep_their_numbers(lives: Lives, is_thread: bool) -> None:
    @lives.agent.skill(durable=True)
    async def write(text: str, ctx: Context) -> None:
        def report() -> None:
            ctx.status("writing")
            ctx.artifact("the report", name="report")

        async def report_too() -> None:
            report()

        await ctx.step(report if is_thread else report_too)
        await lives.die()
        ctx.status("summing up")
        ctx.artifact("the summary", name="summary")

    before, after = await lives.live()
    assert artifacts(before) == [("artifact-1", "report", "the report")]
    assert artifacts(after) == [("artifact-1", "report", "the report"), ("artifact-2", "summary", "the summary")]


async def test_what_a_step_said_stays_said_over_a_question_without_durable(tmp_path: Path) -> None:
    """A function that waits for its answer is gone through again too, durable or not."""

    def agent() -> Agent:
        made = Agent("Asks")

        @made.skill
        async def chat(text: str, ctx: Context) -> str:
            async def generate() -> None:
                ctx.write("said within. ")

            await ctx.step(generate)
            return await ctx.ask("More?")

        return made

    path = tmp_path / "tasks.db"
    async with living(agent(), SqliteStore(path)) as inside:
        task = await inside.send(message("go"))
        assert text_of(task) == "said within. "
    async with living(agent(), SqliteStore(path)) as inside:
        assert text_of(await inside.send(message("yes", task_id=task["id"]))) == "said within. yes"


async def test_a_step_done_again_says_its_own_again(lives: Lives) -> None:
    """Killed in the middle of a step that says something else the second time: what counts is what was said last."""

    @lives.agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> str:
        ctx.write("So: ")

        async def generate() -> None:
            ctx.write("one ")
            ctx.write("two " if lives.is_first else "TWO ")
            await lives.die()
            ctx.write("three ")

        await ctx.step(generate)
        return "end"

    before, after = await lives.live()
    assert text_of(before) == "So: one two "
    assert text_of(after) == "So: one TWO three end"


async def test_one_artifact_that_differs_does_not_repeat_the_others(lives: Lives) -> None:
    @lives.agent.skill(durable=True)
    async def tell(text: str, ctx: Context) -> Any:
        yield "one "
        ctx.artifact(f"life {lives.number}", name="meta")
        yield "two "
        yield "three "
        await lives.die()
        yield "four"

    _, after = await lives.live()
    assert sorted(artifacts(after)) == [("artifact-1", "", "one two three four"), ("artifact-2", "meta", "life 2")]


async def test_versions_of_an_artifact_are_not_told_again(lives: Lives) -> None:
    """One that was told anew several times does not go back to its first form when the function is gone through again."""
    seen: list[list[str]] = []

    @lives.agent.skill(durable=True)
    async def draw(text: str, ctx: Context) -> None:
        for version in ("first", "second", "third"):
            ctx.artifact(version, id="plan")
            if not lives.is_first:
                seen.append([part.text or "" for part in ctx._task_run.log.task.artifacts[0].parts])
        await lives.die()

    _, after = await lives.live()
    assert artifacts(after) == [("plan", "", "third")]
    assert seen == [["third"]] * 3


async def test_artifacts_made_beside_each_other_keep_their_ids(lives: Lives) -> None:
    @lives.agent.skill(durable=True)
    async def visit(text: str, ctx: Context) -> None:
        async def one(city: str, turn: int) -> None:
            for _ in range(turn if lives.is_first else 10 - turn):
                await asyncio.sleep(0.01)
            ctx.artifact(f"about {city}", name=city)

        await asyncio.gather(one("Rome", 8), one("Oslo", 5), one("Bern", 2))
        await lives.die()

    before, after = await lives.live()
    assert artifacts(before) == artifacts(after)
    assert [name for _, name, _ in artifacts(after)] == ["Bern", "Oslo", "Rome"]


@pytest.mark.parametrize("is_same", [True, False])
async def test_chunks_and_artifacts_made_beside_each_other_are_not_mixed_up(lives: Lives, is_same: bool) -> None:
    """Also if there is one that differs: nobody's id is given to another."""

    @lives.agent.skill(durable=True)
    async def visit(text: str, ctx: Context) -> None:
        async def write() -> None:
            await asyncio.sleep(0.0 if lives.is_first else 0.1)
            ctx.write("text ")

        async def draw(name: str, pause_s: float) -> None:
            await asyncio.sleep(pause_s if lives.is_first else 0.09 - pause_s)
            ctx.artifact(name if is_same else f"{name} {lives.number}", name=name)

        await asyncio.gather(write(), draw("map", 0.03), draw("plan", 0.06))
        await lives.die()
        ctx.write("end")

    before, after = await lives.live()
    assert [name for _, name, _ in artifacts(before)] == ["", "map", "plan"]
    texts = {name: text for _, name, text in artifacts(after)}
    assert texts == {"": "text end", **({"map": "map", "plan": "plan"} if is_same else {"map": "map 2", "plan": "plan 2"})}
    assert len({id_ for id_, _, _ in artifacts(after)}) == 3


# Verbs within a step


async def test_a_step_within_a_step_is_a_part_of_it(lives: Lives) -> None:
    @lives.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def pay(what: str) -> str:
            lives.done.append(what)
            return what

        async def both() -> str:
            return f"{await ctx.step(pay, 'hotel')} {await ctx.step(pay, 'flight')}"

        first = await ctx.step(both)
        last = await ctx.step(pay, "car")
        await lives.die()
        return f"{first} {last}"

    _, after = await lives.live()
    assert text_of(after) == "hotel flight car"
    assert lives.done == ["hotel", "flight", "car"]


@pytest.mark.parametrize("verb", ["ask", "require_auth", "delegate"])
async def test_what_waits_for_others_is_refused_within_a_step(tmp_path: Path, verb: str) -> None:
    """Its answer would be taken for another's when the step is not done again."""
    agent = Agent("Asks")

    @agent.skill(durable=True)
    async def colour(text: str, ctx: Context) -> str:
        verbs: dict[str, Callable[[], Awaitable[Any]]] = {
            "ask": lambda: ctx.ask("Colour?"),
            "require_auth": lambda: ctx.require_auth("Colours"),
            "delegate": lambda: ctx.delegate("http://127.0.0.1:9", "colour"),
        }

        async def choose() -> str:
            return str(await verbs[verb]())

        try:
            return await ctx.step(choose)
        except Exception as error:
            return str(error)

    async with living(agent, SqliteStore(tmp_path / "tasks.db")) as inside:
        assert f"ctx.{verb} was called within step 'choose'" in text_of(await inside.send(message("go")))


# Steps the function stopped waiting for


@pytest.mark.parametrize("how", ["timeout", "wait_for", "wait"])
async def test_a_step_that_timed_out_times_out_again(lives: Lives, how: str) -> None:
    @lives.agent.skill(durable=True)
    async def careful(text: str, ctx: Context) -> str:
        async def slow() -> str:
            lives.done.append("slow")
            await asyncio.sleep(5)
            return "slow"

        async def other() -> str:
            lives.done.append("other")
            return "other"

        try:
            if how == "timeout":
                async with asyncio.timeout(1.3):
                    found = await ctx.step(slow)
            elif how == "wait_for":
                found = await asyncio.wait_for(ctx.step(slow), 1.3)
            else:
                task = asyncio.create_task(ctx.step(slow))
                await asyncio.wait({task}, timeout=1.3)
                task.cancel()
                found = await task
        except (TimeoutError, asyncio.CancelledError):
            found = await ctx.step(other)
        await lives.die()
        return found

    _, after = await lives.live()
    assert text_of(after) == "other", told(after)
    assert lives.done == ["slow", "other"]


# Steps beside each other


@pytest.mark.parametrize("what", ["methods", "odd methods", "objects", "partials", "lambdas", "closures"])
async def test_steps_beside_each_other_are_never_swapped(lives: Lives, what: str) -> None:
    """They are told apart by what they carry along; where nothing does, the task fails and says what to write."""

    class Desk:
        def __init__(self, city: str) -> None:
            self.city = [city] if what == "odd methods" else city
            self.lock = asyncio.Lock()  # no JSON

        async def book(self) -> str:
            return f"ticket to {self.city[0] if what == 'odd methods' else self.city}"

    async def book(desk: Any, city: str) -> str:
        return f"ticket to {city}"

    @lives.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def one(city: str, pause_s: float) -> str:
            await asyncio.sleep(pause_s if lives.is_first else 0.2 - pause_s)

            async def around() -> str:
                return await book(None, city)

            calls: dict[str, Callable[[], Awaitable[str]]] = {
                "methods": lambda: ctx.step(Desk(city).book),
                "odd methods": lambda: ctx.step(Desk(city).book),
                "objects": lambda: ctx.step(book, Desk(city), city),
                "partials": lambda: ctx.step(functools.partial(book, None, city), name="book"),
                "lambdas": lambda: ctx.step(lambda: book(None, city)),
                "closures": lambda: ctx.step(around),
            }
            return f"{city}: {await calls[what]()}"

        found = await asyncio.gather(one("Rome", 0.2), one("Oslo", 0.0))
        await lives.die()
        return ", ".join(found)

    _, after = await lives.live()
    if what == "odd methods":
        assert state_of(after) == "TASK_STATE_FAILED"
        assert "nothing it was called with tells which was which; give each a name" in told(after)
    else:
        assert text_of(after) == "Rome: ticket to Rome, Oslo: ticket to Oslo", told(after)


@pytest.mark.parametrize("what", ["step", "helper"])
async def test_steps_in_tasks_one_after_the_other_are_known_by_their_order(lives: Lives, what: str) -> None:
    """`wait_for` makes a task of each on some versions of Python: that alone is nothing done at once."""

    @lives.agent.skill(durable=True)
    async def poll(text: str, ctx: Context) -> str:
        async def look() -> int:
            lives.done.append("look")
            return len(lives.done)

        async def helper() -> int:
            return int(await ctx.step(look))

        async def in_task() -> int:
            return await asyncio.create_task(ctx.step(look) if what == "step" else helper())

        found = [await in_task() for _ in range(4)]
        await lives.die()
        return f"{found} {await in_task()}"

    _, after = await lives.live()
    assert text_of(after) == "[1, 2, 3, 4] 5", told(after)


async def test_steps_called_in_order_are_known_by_it_though_done_at_once(lives: Lives) -> None:
    """What `gather` is given is called in its order in every life, whoever ends first."""

    class Desk:
        def __init__(self, city: str, pause_s: float) -> None:
            self.city, self.pause_s, self.lock = city, pause_s, asyncio.Lock()

        async def book(self) -> str:
            lives.done.append(self.city)
            await asyncio.sleep(self.pause_s)
            return f"ticket to {self.city}"

    @lives.agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        desks = Desk("Rome", 0.1), Desk("Oslo", 0.0), Desk("Bern", 0.05)
        found = await asyncio.gather(*(ctx.step(desk.book) for desk in desks))
        await lives.die()
        return ", ".join(found)

    _, after = await lives.live()
    assert text_of(after) == "ticket to Rome, ticket to Oslo, ticket to Bern", told(after)
    assert lives.done == ["Rome", "Oslo", "Bern"]


async def test_a_branch_that_is_long_in_coming_is_waited_for(lives: Lives) -> None:
    """One that waits outside of steps comes to its own later than others come to what is new: that is no change."""

    @lives.agent.skill(durable=True)
    async def watch(text: str, ctx: Context) -> str:
        async def note(what: str) -> str:
            lives.done.append(what)
            await asyncio.sleep(0.1)
            return what

        async def poll() -> str:
            await asyncio.sleep(1.6)
            return await ctx.step(note, "found")

        async def work() -> list[str]:
            found = [await ctx.step(note, f"step {n}") for n in range(17)]
            await lives.die()
            return found + [await ctx.step(note, f"late {n}") for n in range(3)]

        found, done = await asyncio.gather(poll(), work())
        return f"{found} {len(done)}"

    _, after = await lives.live()
    assert text_of(after) == "found 20", told(after)
    assert len(lives.done) == len(set(lives.done)) == 21


# Functions that changed


@pytest.mark.parametrize("where", ["try", "group"])
async def test_a_function_that_changed_is_noticed_whatever_it_catches(lives: Lives, where: str) -> None:
    @lives.agent.skill(durable=True)
    async def price(text: str, ctx: Context) -> str:
        async def discount() -> str:
            lives.done.append("discount")
            return "half"

        async def pay() -> str:
            lives.done.append("pay")
            return "paid"

        given = "none"
        if not lives.is_first:
            try:
                if where == "group":
                    async with asyncio.TaskGroup() as group:
                        group.create_task(ctx.step(discount))
                else:
                    given = await ctx.step(discount)
            except Exception:
                given = "none"
        paid = await ctx.step(pay)
        await lives.die()
        return f"{paid} {given}"

    _, after = await lives.live()
    assert state_of(after) == "TASK_STATE_FAILED"
    assert "now comes to step 'discount'" in told(after)
    assert lives.done == ["pay"]


# Delegations


async def test_a_delegation_without_an_answer_has_none_in_the_next_life(lives: Lives) -> None:
    """A function that went another way because of it goes the same way again, though the other agent may be back."""
    desk = Agent("Desk")

    @desk.skill
    async def measure(item: str) -> str:
        lives.done.append(item)
        return f"{item}: 3 m"

    client = connect("http://127.0.0.1:9", retry=Retry(first_patience_s=0))

    @lives.agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        try:
            found = (await ctx.delegate(client if lives.is_first else desk, "shelf")).text
        except Exception as error:
            found = str(error)
        await lives.die()
        return found

    _, after = await lives.live()
    assert text_of(after) == "another agent, which was to do a part of this, gave no answer", told(after)
    assert lives.done == []


async def test_a_message_with_a_new_id_in_every_life_is_the_same_delegation(lives: Lives) -> None:
    desk = Agent("Desk")

    @desk.skill
    async def charge(item: str) -> str:
        lives.done.append(item)
        return f"charged {item}"

    @lives.agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        found = await ctx.delegate(desk, Message(message_id=uuid.uuid4().hex, role=Role.USER, parts=[Part(text="shelf")]))
        await lives.die()
        return found.text

    _, after = await lives.live()
    assert text_of(after) == "charged shelf", told(after)
    assert lives.done == ["shelf"]


async def test_the_message_that_came_can_be_handed_on(tmp_path: Path) -> None:
    """The task it names is ours, and none of the other agent's."""
    desk, shop = Agent("Desk"), Agent("Shop")

    @desk.skill
    async def measure(item: str) -> str:
        return f"{item}: 3 m"

    @shop.skill
    async def order(item: str, ctx: Context) -> str:
        return (await ctx.delegate(desk, ctx.message)).text

    async with living(shop, SqliteStore(tmp_path / "tasks.db")) as inside:
        assert text_of(await inside.send(message("shelf"))) == "shelf: 3 m"


# Stores that fail


class Failing(SqliteStore):
    """Takes nothing while it is told so."""

    is_full = False

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note] = ()) -> None:
        if self.is_full:
            raise CommitFailed("no room")
        await super().commit(writes, keeps, notes)


async def test_durable_work_a_store_has_lost_does_not_clean_up_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds is what it goes on with when the store works again."""
    monkeypatch.setattr(log_, "GIVE_UP_S", 0.2)
    agent, store = Agent("Seats"), Failing(tmp_path / "tasks.db")
    did: list[str] = []

    @agent.skill(durable=True)
    async def sell(text: str, ctx: Context) -> str:
        async def take() -> str:
            did.append("taken")
            return "seat 1"

        async def pay() -> str:
            store.is_full = "full" not in did
            did.append("full" if store.is_full else "paid")
            return "paid"

        seat = await ctx.step(take)
        try:
            return f"{seat} {await ctx.step(pay)}"
        finally:
            did.append("finally")

    async with living(agent, store) as inside:
        task = await inside.send(message("go", returnImmediately=True))
        async with asyncio.timeout(10):
            while "full" not in did:  # noqa: ASYNC110  the function says so
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert did == ["taken", "full"]
        store.is_full = False
        async with asyncio.timeout(15):
            while state_of(found := await inside.get(task["id"])) == "TASK_STATE_WORKING":  # noqa: ASYNC110  as a client without a stream
                await asyncio.sleep(0.05)
    assert text_of(found) == "seat 1 paid", told(found)
    assert did == ["taken", "full", "paid", "finally"]
