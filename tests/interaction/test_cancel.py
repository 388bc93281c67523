"""CancelTask."""

import asyncio
import contextlib
import threading
from typing import Any

from accord import Agent, Ask, Context
from accord.store.sqlite.store import SqliteStore
from tests.drive import kinds, refusal_of, say, state_of
from tests.processes import until


async def test_a_working_task_is_stopped_and_returned(connect, store):
    """The function is cancelled, and the updated task comes back bare (CAN-1)."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    async def work(request: str):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with connect(work, store=store) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        canceled = await client.cancel(task["id"])
        assert (canceled["id"], state_of(canceled)) == (task["id"], "canceled")
        assert stopped.is_set()
        assert await client.get(task["id"]) == canceled


async def test_a_question_can_be_cancelled(connect, store):
    """An interrupted task is not an end (CAN-1, MSG-4)."""

    async def book(request: str, ctx: Context):
        return await ctx.ask("When?") if request == "wait" else Ask("When?")

    async with connect(book, store=store) as client:
        for word in ("wait", "return"):
            task = (await client.send(word))["task"]
            assert state_of(await client.cancel(task["id"])) == "canceled"


async def test_cancelling_again_returns_the_same_task(connect, store):
    """Cancel is idempotent (CAN-3, IDM-1)."""

    async def book(request: str, ctx: Context):
        await ctx.ask("When?")

    async with connect(book, store=store) as client:
        task = (await client.send("a table"))["task"]
        assert await client.cancel(task["id"]) == await client.cancel(task["id"])


async def test_other_ends_are_not_cancelable(connect):
    """Completed, failed and rejected stay what they are (CAN-2)."""

    async def end(request: str, ctx: Context):
        if request == "fail":
            ctx.fail("no")
        if request == "reject":
            ctx.reject("no")

    async with connect(end) as client:
        for word in ("complete", "fail", "reject"):
            task = (await client.send(word))["task"]
            refused = await refusal_of(client.cancel(task["id"]))
            assert (refused.reason, refused.detail) == (
                "TASK_NOT_CANCELABLE",
                {"taskId": task["id"]},
            )
            assert await client.get(task["id"]) == task


async def test_an_unknown_task_cannot_be_cancelled(connect):
    """TaskNotFound (CAN-2)."""

    async def echo(request: str):
        return request

    async with connect(echo) as client:
        assert (await refusal_of(client.cancel("nowhere"))).reason == "TASK_NOT_FOUND"


async def test_a_skill_that_returns_while_being_cancelled_has_completed(connect):
    """A normal return in the time given wins, and the caller is told (design, rule 10)."""
    entered = asyncio.Event()

    async def stubborn(request: str):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"

    async with connect(stubborn) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        refused = await refusal_of(client.cancel(task["id"]))
        assert refused.reason == "TASK_NOT_CANCELABLE"
        assert state_of(await client.get(task["id"])) == "completed"


async def test_cleanup_may_take_its_time_and_speak(connect):
    """What the function says while it is being cancelled is still heard (design, rule 10)."""
    entered = asyncio.Event()

    async def tidy(request: str, ctx: Context):
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await ctx.artifact("left over", name="rest")

    async with connect(tidy) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        canceled = await client.cancel(task["id"])
        assert (state_of(canceled), canceled["artifacts"][0]["name"]) == ("canceled", "rest")


async def test_cleanup_has_its_time_also_when_whoever_cancels_hangs_up(connect):
    """A normal return in that time still wins (design, rule 10)."""
    entered, cleaning, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(request: str):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cleaning.set()
            await gate.wait()
            return "finished anyway"

    async with connect(stubborn) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        events = await client.subscribe(task["id"])
        cancelling = asyncio.create_task(client.cancel(task["id"]))
        await cleaning.wait()
        cancelling.cancel()
        await asyncio.wait({cancelling})
        await client.list()  # by now the server has noticed
        gate.set()
        assert kinds(await events.rest())[-1] == "completed"


async def test_whoever_reads_or_waits_sees_the_cancel(connect):
    """The stream closes with it, and a blocking send returns it (STR-3, SND-3)."""
    entered = asyncio.Event()

    async def work(request: str):
        entered.set()
        await asyncio.Event().wait()

    async with connect(work) as client:
        sending = asyncio.create_task(client.send("hi"))
        await entered.wait()
        [task] = (await client.list())["tasks"]
        events = await client.subscribe(task["id"])
        await client.cancel(task["id"])
        assert kinds(await events.rest()) == ["task working", "canceled"]
        assert state_of((await sending)["task"]) == "canceled"


async def test_two_cancels_at_once_agree(connect):
    """Repeated cancels have the same effect, also while the first is under way (CAN-3)."""
    entered = asyncio.Event()

    async def work(request: str):
        entered.set()
        await asyncio.Event().wait()

    async with connect(work) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        one, two = await asyncio.gather(client.cancel(task["id"]), client.cancel(task["id"]))
        assert one == two
        assert state_of(one) == "canceled"


async def test_what_a_cancelled_thread_still_says_is_dropped(connect):
    """A thread can't be stopped; it is no longer listened to (design, rule 10)."""
    entered, gate, over = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(request: str, ctx: Context):
        entered.set()
        gate.wait(10)
        ctx.write("too late")
        loop.call_soon_threadsafe(over.set)

    async with connect(work) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await loop.run_in_executor(None, entered.wait, 10)
        canceled = await client.cancel(task["id"])
        gate.set()
        await over.wait()
        assert (state_of(canceled), await client.get(task["id"])) == ("canceled", canceled)


async def test_a_skill_that_will_not_stop_is_left_behind(connect_rpc):
    """After the time given the task is canceled, and what the function does later is not heard
    (design, rule 10).
    """
    entered, gate = asyncio.Event(), asyncio.Event()

    async def deaf(request: str, ctx: Context):
        entered.set()
        while not gate.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await gate.wait()
        ctx.write("too late")

    async with connect_rpc(deaf) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        await entered.wait()
        canceled = await client.cancel(task["id"])
        gate.set()
        assert state_of(canceled) == "canceled"
        assert await client.get(task["id"]) == canceled


class Counting(SqliteStore):
    """A store that counts the commits that were begun."""

    commits = 0

    async def commit(self, items: Any) -> Any:
        self.commits += 1
        return await super().commit(items)


async def test_a_durable_skill_that_is_cancelled_before_its_message_is_stored_never_begins(
    connect_rpc, tmp_path
):
    """It starts after the commit; what is cancelled until then has done nothing."""
    calls, slow = [], threading.Event()
    store = Counting(tmp_path / "tasks.db")
    agent = Agent("Test agent")

    @agent.skill(durable=True)
    async def talk(text: str):
        calls.append(text)
        return Ask("And?")

    async with connect_rpc(agent, store=store) as client:
        task = (await client.send("first"))["task"]
        disk = asyncio.create_task(store._in_writer(slow.wait))
        commits = store.commits
        following = asyncio.create_task(client.send(say("second", taskId=task["id"])))
        await until(lambda: store.commits > commits, "the message to be on its way to the disk")
        canceling = asyncio.create_task(client.cancel(task["id"]))
        await asyncio.sleep(0.2)  # the cancel is there and waits, which nobody can see
        slow.set()
        canceled = await canceling
        assert (state_of(canceled), state_of((await following)["task"])) == ("canceled", "canceled")
        assert await client.get(task["id"]) == canceled
        assert await disk
    assert calls == ["first"]
