"""What a later life of a run finds of the earlier ones: its own steps, answers and delegations, and nothing else's."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accord import Agent, Context, connect
from accord.engine.runs import lives as lives_
from accord.store.sqlite import SqliteStore
from tests.engine.test_parallel import ended, living
from tests.reliability.harness import message, state_of, text_of, told
from tests.reliability.inside import Inside


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


async def until(happened: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await happened.wait()


async def status(inside: Inside, task_id: str, *states: str) -> dict:
    async with asyncio.timeout(10):
        while state_of(task := await inside.get(task_id)) not in states:  # noqa: ASYNC110  as a client without a stream
            await asyncio.sleep(0.01)
    return task


@contextlib.asynccontextmanager
async def crashed(agent: Agent, path: Path) -> AsyncIterator[Inside]:
    """A life that ends in a crash: nothing is told to the functions, and nothing more is stored."""
    store = SqliteStore(path)
    app = agent.app(store=store)
    await app.open()
    try:
        yield Inside(app)
    finally:
        engine = app._engine
        for tending in engine._tending:
            tending.cancel()
        engine.feed._writer.cancel()
        await store._worker.stop()
        store._reader.close()
        store._db.close()
        store._lock.close()


async def test_steps_of_one_name_beside_each_other_keep_their_results(path):
    """A step is known by what it was called with: whoever comes first in the next life gets their own."""
    agent, lives = Agent("Tickets"), 0
    both = asyncio.Event()
    bought: list[str] = []

    async def book(city: str) -> str:
        bought.append(city)
        return f"ticket to {city}"

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        async def one(city: str, pause_s: float) -> str:
            await asyncio.sleep(pause_s if lives == 1 else 0.1 - pause_s)
            return f"{city}: {await ctx.step(book, city)}"

        found = await asyncio.gather(one("Rome", 0.1), one("Oslo", 0.0))
        if lives == 1:
            both.set()
            await asyncio.Event().wait()
        return ", ".join(found)

    lives = 1
    async with crashed(agent, path) as inside:
        await inside.send(message("go", returnImmediately=True))
        await until(both)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "Rome: ticket to Rome, Oslo: ticket to Oslo"
    assert sorted(bought) == ["Oslo", "Rome"]


@pytest.mark.parametrize("done_before", [1, 3])
async def test_steps_that_come_in_another_order_are_not_mixed_up(path, done_before):
    """A loop over a set: those that were done are found; if an order can't be made out, the task fails and says so."""
    agent, lives, bought = Agent("Tickets"), 0, []
    reached = asyncio.Event()

    async def book(city: str) -> str:
        bought.append(city)
        return f"ticket to {city}"

    @agent.skill(durable=True)
    async def travel(text: str, ctx: Context) -> str:
        cities = ["Rome", "Oslo", "Bern"]
        found = []
        for city in cities if lives == 1 else cities[::-1]:
            found.append(f"{city}: {await ctx.step(book, city)}")
            if lives == 1 and len(found) == done_before:
                reached.set()
                await asyncio.Event().wait()
        return ", ".join(found)

    lives = 1
    async with crashed(agent, path) as inside:
        await inside.send(message("go", returnImmediately=True))
        await until(reached)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        task = await ended(inside)
    if done_before == 3:
        assert text_of(task) == "Bern: ticket to Bern, Oslo: ticket to Oslo, Rome: ticket to Rome"
    else:
        assert state_of(task) == "TASK_STATE_FAILED"
        assert "keep their order" in told(task)
    assert len(bought) == len(set(bought))


async def test_a_step_called_with_something_else_in_every_life_is_still_that_step(path):
    """One after the other, the n-th call is the n-th call: a time or a process number may be among its arguments."""
    agent, lives, calls = Agent("Clock"), 0, []
    reached = asyncio.Event()

    async def note(life: int, what: str) -> str:
        calls.append((life, what))
        return what

    @agent.skill(durable=True)
    async def work(text: str, ctx: Context) -> str:
        first = await ctx.step(note, lives, "a") + await ctx.step(note, lives, "b")
        if lives == 1:
            reached.set()
            await asyncio.Event().wait()
        return first + await ctx.step(note, lives, "c")

    lives = 1
    async with crashed(agent, path) as inside:
        await inside.send(message("go", returnImmediately=True))
        await until(reached)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "abc"
    assert calls == [(1, "a"), (1, "b"), (2, "c")]


async def test_a_message_id_used_twice_in_a_task_does_not_confuse_the_messages(path):
    agent, lives = Agent("Nights"), 0
    asked = asyncio.Event()

    @agent.skill(durable=True)
    async def book(place: str, ctx: Context) -> str:
        nights = await ctx.ask("How many nights?", int)
        if lives == 1:
            asked.set()
            await asyncio.Event().wait()
        return f"{place}: {nights}"

    def named(text: str, **more) -> dict:
        params = message(text, **more)
        params["message"]["messageId"] = "1"
        return params

    lives = 1
    async with crashed(agent, path) as inside:
        task = await inside.send(named("Rome"))
        await inside.send(named("3", task_id=task["id"], returnImmediately=True))
        await until(asked)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "Rome: 3"


async def test_a_function_that_is_let_go_is_not_made_to_clean_up(path):
    """Its task goes on in the next process: what it holds must not be given back, nor a step of the clean-up be done."""
    agent, world = Agent("Seats"), []

    async def note(what: str) -> str:
        world.append(what)
        return what

    @agent.skill(durable=True)
    async def seat(text: str, ctx: Context) -> str:
        await ctx.step(note, "held")
        try:
            answer = await ctx.ask("Buy it?")
        except BaseException:
            world.append("given back")
            await ctx.step(note, "refunded")
            raise
        return answer

    async with living(agent, SqliteStore(path)) as inside:
        task = await inside.send(message("go"))
    async with living(agent, SqliteStore(path)) as inside:
        task = await inside.send(message("yes", task_id=task["id"]))
        assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "yes")
    assert world == ["held"]


async def test_a_client_that_cancels_has_the_function_clean_up(path):
    agent, world = Agent("Seats"), []

    @agent.skill
    async def seat(text: str, ctx: Context) -> str:
        try:
            return await ctx.ask("Buy it?")
        finally:
            world.append("given back")

    async with living(agent, SqliteStore(path)) as inside:
        task = await inside.send(message("go"))
        assert state_of(await inside.cancel(task["id"])) == "TASK_STATE_CANCELED"
    assert world == ["given back"]


async def test_nothing_new_is_begun_once_a_run_is_to_be_let_go(path):
    """Steps under way are done, those after them are the next life's."""
    agent, begun = Agent("Lanes"), []
    both = asyncio.Event()
    go_on = asyncio.Event()

    async def work(place: str) -> str:
        begun.append(place)
        if len(begun) == 2:
            both.set()
        await go_on.wait()
        return place

    @agent.skill(durable=True)
    async def lanes(text: str, ctx: Context) -> str:
        async def lane(name: str) -> list[str]:
            return [await ctx.step(work, f"{name}{n}") for n in range(3)]

        return " ".join([place for lane_ in await asyncio.gather(lane("a"), lane("b")) for place in lane_])

    app = agent.app(store=SqliteStore(path))
    await app.open()
    await Inside(app).send(message("go", returnImmediately=True))
    await until(both)
    stopping = asyncio.create_task(app.close(60))
    await asyncio.sleep(0.05)
    go_on.set()
    async with asyncio.timeout(10):
        await stopping
    assert begun == ["a0", "b0"]
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "a0 a1 a2 b0 b1 b2"
    assert sorted(begun) == ["a0", "a1", "a2", "b0", "b1", "b2"]


async def test_a_question_the_function_stopped_waiting_for_is_not_open(path):
    """The task works again, in this life and, without asking again, in the next; what is said too late answers nothing."""
    agent, lives = Agent("Hasty"), 0
    working = asyncio.Event()

    @agent.skill(durable=True)
    async def greet(text: str, ctx: Context) -> str:
        try:
            name = await asyncio.wait_for(ctx.ask("Name?"), 0.05)
        except TimeoutError:
            name = "nobody"
        if lives == 1:
            working.set()
            await asyncio.Event().wait()
        return f"for {name}"

    lives = 1
    async with crashed(agent, path) as inside:
        task = await inside.send(message("go"))
        await until(working)
        assert state_of(await status(inside, task["id"], "TASK_STATE_WORKING"))
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        task = await ended(inside)
    assert text_of(task) == "for nobody"
    assert [said["role"] for said in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]


async def test_an_authorization_is_waited_for_again_after_a_restart(path):
    agent, granted = Agent("Guard"), asyncio.Event()

    async def wait() -> str:
        await granted.wait()
        return "token"

    @agent.skill
    async def enter(text: str, ctx: Context) -> str:
        return f"got {await ctx.require_auth('sign in', until=wait())}"

    async with crashed(agent, path) as inside:
        task = await inside.send(message("go"))
        assert state_of(task) == "TASK_STATE_AUTH_REQUIRED"
    async with living(agent, SqliteStore(path)) as inside:
        granted.set()
        task = await status(inside, task["id"], "TASK_STATE_COMPLETED")
    assert text_of(task) == "got token"
    assert sum(said["role"] == "ROLE_AGENT" for said in task["history"]) == 1


async def test_a_run_that_kills_its_process_takes_no_other_with_it(path, monkeypatch):
    """After two deaths those who were there are tried in groups, so that only what kills is given up."""
    monkeypatch.setattr(lives_, "PAUSE_S", 0.001)
    agent, lives = Agent("Neighbours"), 0
    dead, working = asyncio.Event(), asyncio.Event()

    async def long() -> str:
        working.set()
        await (asyncio.sleep(0) if lives > 20 else asyncio.Event().wait())
        return "ok"

    @agent.skill(durable=True)
    async def good(text: str, ctx: Context) -> str:
        return await ctx.step(long)

    @agent.skill(durable=True)
    async def bomb(text: str, ctx: Context) -> str:
        dead.set()  # here a real one would take the process with it
        await asyncio.Event().wait()
        return ""

    lives = 1
    async with crashed(agent, path) as inside:
        innocent = await inside.send(message("go", "good", returnImmediately=True))
        killer = await inside.send(message("go", "bomb", returnImmediately=True))
        await until(dead)
        await until(working)
    while lives < 20:
        lives += 1
        dead.clear()
        async with crashed(agent, path) as inside:
            if state_of(await inside.get(killer["id"])) == "TASK_STATE_FAILED":
                break
            await until(dead)
    lives = 21
    async with living(agent, SqliteStore(path)) as inside:
        assert "given up" in told(await inside.get(killer["id"]))
        task = await status(inside, innocent["id"], "TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
    assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", "ok"), told(task)


class Desk:
    """Another agent, which counts what it is asked to do."""

    def __init__(self) -> None:
        self.agent = Agent("Desk")
        self.done: list[str] = []
        self.agent.skill(self.paint)

    async def paint(self, item: str, ctx: Context) -> str:
        self.done.append(item)
        colour = await ctx.ask("Which colour?") if item == "shelf" else "white"
        return f"{item} in {colour}"


async def test_a_finished_delegation_is_found_again(path):
    """Its answer is in our log: the other agent is not asked again, however long ago it was."""
    desk, agent, lives = Desk(), Agent("Shop"), 0
    reached = asyncio.Event()

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        reply = await ctx.delegate(desk.agent, item)
        if lives == 1:
            reached.set()
            await asyncio.Event().wait()
        return f"ordered {reply.text} ({reply.state.word})"

    lives = 1
    async with crashed(agent, path) as inside:
        await inside.send(message("chair", returnImmediately=True))
        await until(reached)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "ordered chair in white (completed)"
    assert desk.done == ["chair"]


async def test_an_answer_to_another_agents_question_stays_with_it(path):
    """After a restart it is not handed to a question of our own."""
    desk, agent = Desk(), Agent("Shop")

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        reply = await ctx.delegate(desk.agent, item)
        return f"{reply.text} for {await ctx.ask('Your name?')}"

    async with crashed(agent, path) as inside:
        task = await inside.send(message("shelf"))
        assert told(task) == "Which colour?"
        task = await inside.send(message("red", task_id=task["id"]))
        assert told(task) == "Your name?"
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await inside.send(message("Ada", task_id=task["id"]))) == "shelf in red for Ada"
    assert desk.done == ["shelf"]


async def test_delegations_beside_each_other_keep_their_answers(path):
    desk, agent, lives = Desk(), Agent("Shop"), 0
    reached = asyncio.Event()

    @agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        async def one(item: str, pause_s: float) -> str:
            await asyncio.sleep(pause_s if lives == 1 else 0.05 - pause_s)
            return (await ctx.delegate(desk.agent, item)).text

        found = await asyncio.gather(one("chair", 0.05), one("table", 0))
        if lives == 1:
            reached.set()
            await asyncio.Event().wait()
        return ", ".join(found)

    lives = 1
    async with crashed(agent, path) as inside:
        await inside.send(message("go", returnImmediately=True))
        await until(reached)
    lives = 2
    async with living(agent, SqliteStore(path)) as inside:
        assert text_of(await ended(inside)) == "chair in white, table in white"
    assert sorted(desk.done) == ["chair", "table"]


async def test_a_run_that_is_let_go_does_not_cancel_what_it_has_delegated(path):
    """Its next life takes it up: our stop is not the other agent's."""
    other, agent = Agent("Desk"), Agent("Shop")
    working, go_on = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    @other.skill
    async def paint(item: str) -> str:
        working.set()
        try:
            await go_on.wait()
            ends.append("done")
        except asyncio.CancelledError:
            ends.append("canceled")
            raise
        return f"{item} painted"

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        return (await ctx.delegate(desk, item)).text

    async with connect(other) as desk:
        async with living(agent, SqliteStore(path)) as inside:
            await inside.send(message("chair", returnImmediately=True))
            await until(working)
        go_on.set()
        async with living(agent, SqliteStore(path)) as inside:
            assert text_of(await ended(inside)) == "chair painted"
    assert ends == ["done"]


def written() -> int:
    """Bytes this process has given to write calls."""
    return int(next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("wchar")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="nothing tells here how much a process writes")
async def test_steps_of_a_quiet_run_cost_the_disk_what_they_give(tmp_path):
    """D7: a step adds its line, however many came before it and though nothing is said in between."""
    agent = Agent("Quiet")

    async def give(n: int) -> str:
        return "x" * 20_000

    @agent.skill(durable=True)
    async def work(count: str, ctx: Context) -> str:
        return str(sum([len(await ctx.step(give, n)) for n in range(int(count))]))

    costs = []
    for count in (50, 100, 200):
        before = written()
        async with living(agent, SqliteStore(tmp_path / f"{count}.db")) as inside:
            assert text_of(await inside.send(message(str(count)))) == str(count * 20_000)
        costs.append(written() - before)
    assert [more / less <= 2.2 for less, more in itertools.pairwise(costs)] == [True, True], costs
