"""A model of tasks, and a machine that tries to catch the server disagreeing with it, over crashes and restarts.

A crash here is the end of a life inside this process: its loop stops in mid-work, what its writer had not been handed is
lost, its file lock falls, and its number stays in the database. Thousands of them fit where ten real kills would.
"""

import asyncio
import itertools
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from accord import Agent, Context
from accord.run.engine import MAX_LIVES
from accord.store.sqlite import SqliteStore
from tests.reliability.harness import FINAL, Refused, message, report, size, state_of, text_of, told
from tests.reliability.inside import Inside, pass_turns

COMPLETED, CANCELED, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", "TASK_STATE_FAILED"
OPEN, WORKING = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"
NORMAL = {"echo": COMPLETED, "talk": OPEN, "plan": OPEN, "hold": WORKING, "keep": WORKING}  # where a task of a skill comes to
DURABLE = ("plan", "keep")


class Mortal(SqliteStore):
    """The real store, which can be left as a killed process leaves it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._is_dead = False

    async def _in_writer(self, work: Any) -> Any:
        if self._is_dead:
            await asyncio.Event().wait()
        return await super()._in_writer(work)

    def die(self) -> None:
        """Write nothing from now on."""
        self._is_dead = True

    def drop(self) -> None:
        """Let go what the system takes from a dead process."""
        assert self._thread is not None
        self._jobs.put(None)
        self._thread.join()
        self._reader.close()
        self._db.close()
        self._lock.close()


class World:
    """What is outside of the process, and outlives it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def agent(self) -> Agent:
        agent = Agent("Model")

        async def do(what: str) -> str:
            self.done[what] += 1
            return what

        @agent.skill
        async def echo(text: str) -> str:
            return text

        @agent.skill
        async def talk(text: str, ctx: Context) -> str:
            heard = text
            while heard != "stop":
                heard = await ctx.ask(f"heard {heard}")
            return text

        @agent.skill(durable=True)
        async def plan(text: str, ctx: Context):
            yield await ctx.step(do, f"{text}/1") + ";"
            while await ctx.ask("Go on?") != "stop":
                pass
            yield await ctx.step(do, f"{text}/2") + ";"

        @agent.skill
        async def hold(text: str) -> None:
            await asyncio.Event().wait()

        @agent.skill(durable=True)
        async def keep(text: str, ctx: Context):
            yield await ctx.step(do, f"{text}/1") + ";"
            await asyncio.Event().wait()

        return agent


class Known:
    """What the model knows of one task."""

    def __init__(self, id: str, skill: str, text: str, state: str) -> None:
        self.id, self.skill, self.text, self.state = id, skill, text, state
        self.said = {text}
        self.cuts = 0  # while it worked: after some of them without progress it is given up
        self.crashes = 0  # in the middle of its work: each may have repeated a step


class Lives(RuleBasedStateMachine):
    """Send, follow up, answer, cancel, read, crash, restart: no acknowledged thing is lost, and ends are final."""

    sequences = calls = crashes = 0
    tasks = Bundle("tasks")

    @initialize()
    def begin(self) -> None:
        Lives.sequences += 1
        self.folder = Path(tempfile.mkdtemp())
        self.world = World()
        self.known: dict[str, Known] = {}
        self.texts = itertools.count(1)
        self._open()

    def _open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.store = Mortal(self.folder / "accord.db")
        self.app = self.world.agent().app(store=self.store)
        self.inside = Inside(self.app)
        self.run(self.app.open())

    def run(self, work: Any) -> Any:
        Lives.calls += 1
        return self.loop.run_until_complete(asyncio.wait_for(work, timeout=10))

    # What clients do

    @rule(target=tasks, skill=st.sampled_from(sorted(NORMAL)))
    def send(self, skill: str) -> Any:
        text = f"{skill}-{next(self.texts)}"
        task = self.run(self.inside.send(message(text, skill, returnImmediately=NORMAL[skill] == WORKING)))
        known = self.known[text] = Known(task["id"], skill, text, NORMAL[skill])
        self.expect(task, known)
        return text

    @rule(task=tasks, word=st.sampled_from(["more", "stop"]))
    def follow_up(self, task: str, word: str) -> None:
        known = self.known.get(task)
        if known is None:
            return
        word = word if word == "stop" else f"more-{next(self.texts)}"
        params = message(word, task_id=known.id, returnImmediately=known.state == WORKING)
        reply = self.run(attempt(self.inside.send(params)))
        if known.state in FINAL:
            assert reply == "UNSUPPORTED_OPERATION"
            return
        if reply == "RESOURCE_EXHAUSTED":
            return
        known.said.add(word)
        if known.state == OPEN:
            known.state = COMPLETED if word == "stop" else OPEN
        self.expect(reply, known)

    @rule(task=tasks)
    def cancel(self, task: str) -> None:
        known = self.known.get(task)
        if known is None:
            return
        reply = self.run(attempt(self.inside.cancel(known.id)))
        if known.state in (COMPLETED, FAILED):
            assert reply == "TASK_NOT_CANCELABLE"
        else:
            known.state = CANCELED
            self.expect(reply, known)

    @rule(task=tasks)
    def read(self, task: str) -> None:
        if known := self.known.get(task):
            self.expect(self.run(self.inside.get(known.id)), known)

    # What happens to processes

    @rule()
    def restart(self) -> None:
        self.run(self.app.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self._open()
        self._look_at_all()

    @rule()
    def crash(self) -> None:
        self._crash()
        self._look_at_all()

    @rule(target=tasks, skill=st.sampled_from(sorted(NORMAL)), turns=st.integers(0, 12))
    def crash_in_a_send(self, skill: str, turns: int) -> Any:
        """The new task is there or not; if its sender was answered, it is."""
        text = f"{skill}-{next(self.texts)}"
        answered = self._crash_in(self.inside.send(message(text, skill)), turns)
        self._look_at_all()
        found = [t for t in self.run(self.inside.call("ListTasks", {"pageSize": 100}))["tasks"] if first_text(t) == text]
        assert len(found) == 1 or (not found and answered is None), "an acknowledged task is lost"
        for task in found:
            task = self.run(self._rest(task["id"], skill))
            assert state_of(task) == NORMAL[skill] or (skill not in DURABLE and state_of(task) == FAILED)
            known = self.known[text] = Known(task["id"], skill, text, state_of(task))
            known.crashes += 1
            self.expect(task, known)
        return text  # known or not: whether it was stored in time is not for the machine's plan to depend on

    @rule(task=tasks, turns=st.integers(0, 12))
    def crash_in_an_answer(self, task: str, turns: int) -> None:
        """The answer is in the history or not; a durable function goes on with it, another fails."""
        known = self.known.get(task)
        if known is None or known.state != OPEN:
            return
        answered = self._crash_in(self.inside.send(message("stop", task_id=known.id)), turns)
        known.crashes += 1
        found = self.run(self._rest(known.id, known.skill))
        if isinstance(answered, dict):
            known.said.add("stop")
            assert state_of(found) == state_of(answered) == COMPLETED
        known.state = state_of(found)
        assert known.state in (OPEN, COMPLETED) or (known.skill not in DURABLE and known.state == FAILED)
        self._look_at_all()

    def _crash_in(self, work: Any, turns: int) -> Any:
        """Crash some turns of the loop into `work`; return its answer if it came before."""
        doing = self.loop.create_task(attempt(work))
        self.loop.run_until_complete(pass_turns(turns))
        answered = doing.result() if doing.done() else None
        self._crash()
        return answered

    def _crash(self) -> None:
        Lives.crashes += 1
        self.store.die()
        rest = asyncio.all_tasks(self.loop)
        for task in rest:
            task.cancel()
        if rest:
            self.loop.run_until_complete(asyncio.wait(rest, timeout=1))
        self.store.drop()
        self.loop.close()
        self._open()

    # What must then be true

    def _look_at_all(self) -> None:
        for known in self.known.values():
            if known.state == WORKING:
                known.cuts += 1
                found = self.run(self._rest(known.id, known.skill))
                if known.skill not in DURABLE or (known.cuts > MAX_LIVES and "at the same place" in told(found)):
                    known.state = FAILED
                    assert told(found).startswith("interrupted")
            self.expect(self.run(self._rest(known.id, known.skill)), known)

    async def _rest(self, task_id: str, skill: str) -> Any:
        """The task, when its replay has come to where it waits."""
        while True:
            task = await self.inside.get(task_id)
            if state_of(task) != WORKING or (skill == "keep" and task.get("artifacts")):
                return task
            await asyncio.sleep(0)

    def expect(self, task: Any, known: Known) -> None:
        """A reply is what the model says, and what the store says."""
        for shown in (task, self.run(self.inside.get(task["id"]))):
            assert state_of(shown) == known.state, (known.skill, told(shown))
            said = {m["parts"][0]["text"] for m in shown["history"] if m["role"] == "ROLE_USER"}
            assert known.said <= said, "an acknowledged message is lost"
        if known.skill == "plan" and known.state == COMPLETED:
            assert text_of(task) == f"{known.text}/1;{known.text}/2;"
        for n in (1, 2):
            assert self.world.done[f"{known.text}/{n}"] <= 1 + known.crashes, "a step was done twice"

    def teardown(self) -> None:
        self.run(self.app.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)


async def attempt(work: Any) -> Any:
    """What a call gives: an answer, or the reason it is refused."""
    try:
        return await work
    except Refused as error:
        return error.reason


def first_text(task: Any) -> str:
    return task["history"][0]["parts"][0]["text"]


def test_no_life_loses_what_another_acknowledged() -> None:
    """D1, D4, D6: sequences of calls, crashes and restarts against a model: nothing acknowledged is lost, an end is final,
    replies agree with the store, durable work goes on, and no step is done twice except one that a crash cut off."""
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=size(50, 5_000), stateful_step_count=50, deadline=None, database=None, suppress_health_check=health
        ),
    )
    report("model", sequences=Lives.sequences, calls=Lives.calls, crashes=Lives.crashes, contradictions=0)
