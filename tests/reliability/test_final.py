"""D6: an end is an end, and no reply says otherwise than the store."""

import asyncio
import random
import shutil
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accord import Agent
from tests.reliability.agents.busy import agent as busy
from tests.reliability.harness import (
    FINAL,
    RESUME,
    Frame,
    Refused,
    message,
    quick_folder,
    report,
    seed,
    size,
    state_of,
    told,
)
from tests.reliability.inside import Inside, pass_turns

COMPLETED, FAILED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"
OPEN, WORKING = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"
PATIENCE_S = 60  # also of a machine that has others to serve
PROCESSES = 2
MOST_RESTARTS = 4  # in one sequence: else they are half of it, and cost more than all the rest


async def attempt(work: Any) -> Any:
    """A result, or the reason there is none."""
    try:
        return await work
    except Refused as error:
        return error.reason


class Race:
    """Tasks that complete when told to, so that something else can happen at just that moment."""

    def __init__(self) -> None:
        self.agent = Agent("Racer")
        self.agent.skill(self._finish)
        self._gates: dict[str, asyncio.Event] = {}

    async def _finish(self, text: str) -> str:
        gate, _, way = text.partition(" ")
        try:
            await self._gates[gate].wait()
        except asyncio.CancelledError:
            if way == "all the same":
                return "done"
            await pass_turns(len(way))
            raise
        return "done"

    async def run(self, inside: Inside, name: str, chance: random.Random) -> tuple[str, str]:
        """Let a task complete while it is cancelled twice and watched; return its id and how it
        ended.
        """
        gate = self._gates[name] = asyncio.Event()
        way = chance.choice(["", "", "tidy up", "all the same"])
        task_id = (await inside.send(message(f"{name} {way}", returnImmediately=True)))["id"]

        async def complete() -> None:
            await pass_turns(chance.randrange(8))
            gate.set()

        async def cancel() -> Any:
            await pass_turns(chance.randrange(8))
            return await attempt(inside.cancel(task_id))

        async def watch() -> list[Frame]:
            await pass_turns(chance.randrange(8))
            return await inside.stream(
                "SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"}
            )

        _, one, two, frames = await asyncio.gather(complete(), cancel(), cancel(), watch())
        end = state_of(await inside.get(task_id))
        assert end in (COMPLETED, CANCELED)
        for reply in (one, two):
            assert (CANCELED if isinstance(reply, dict) else COMPLETED) == end, (
                f"a cancel was answered {reply}, the task is {end}"
            )
            assert reply == "TASK_NOT_CANCELABLE" or state_of(reply) == CANCELED
        assert [frame.state for frame in frames if frame.is_final] == [end]
        assert frames[-1].is_final
        return task_id, end


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_cancel_and_completion_never_both_win(kind: str, tmp_path: Path) -> None:
    """D6: whoever asks afterwards, asks again, or opens the database later hears what the racers
    were told.
    """
    races, at_once = size(400, 20_000), 8
    chance, race = random.Random(seed()), Race()
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path / 'accord.db'}"
    app = race.agent.app(store=url)
    ends: dict[str, str] = {}
    async with app.lifespan():
        inside = Inside(app)
        for n in range(0, races, at_once):
            ends |= await asyncio.gather(
                *(race.run(inside, str(i), chance) for i in range(n, n + at_once))
            )
        await check_ends(inside, ends)
    if kind == "sqlite":
        later = race.agent.app(store=url)
        async with later.lifespan():
            await check_ends(Inside(later), ends)
    counts = Counter(ends.values())
    assert all(counts.values()), "the race was none: one side always won"
    report(
        f"D6 races, {kind}",
        races=len(ends),
        completed=counts[COMPLETED],
        canceled=counts[CANCELED],
        contradictions=0,
    )


async def check_ends(inside: Inside, ends: dict[str, str]) -> None:
    assert {task_id: state_of(await inside.get(task_id)) for task_id in ends} == ends


class Life(RuleBasedStateMachine):
    """Anything a client can do to tasks, in any order, against what must then be true."""

    sequences = steps = 0
    tasks = Bundle("tasks")

    @initialize(is_durable=st.booleans())
    def begin(self, is_durable: bool) -> None:
        Life.sequences += 1
        self.folder = quick_folder()
        self.is_durable = is_durable
        self.restarts = 0
        self.states: dict[str, str] = {}
        self.loop = asyncio.new_event_loop()
        self._open()

    def _open(self) -> None:
        self.app = busy.app(
            store=f"sqlite:///{self.folder / 'accord.db'}" if self.is_durable else "memory://"
        )
        self.inside = Inside(self.app)
        self.run(self.app.open())

    def run(self, work: Any) -> Any:
        Life.steps += 1
        return self.loop.run_until_complete(asyncio.wait_for(work, timeout=PATIENCE_S))

    def expect(self, task_id: str, state: str, task: Any) -> None:
        """A reply showed the task in the state it must be in."""
        assert (task["id"], state_of(task)) == (task_id, state)
        self.states[task_id] = state
        assert state_of(self.run(self.inside.get(task_id))) == state, (
            "the store says otherwise than the reply"
        )

    @rule(
        target=tasks,
        skill=st.sampled_from(["echo", "chunks", "talk", "turns", "wait"]),
        is_stream=st.booleans(),
    )
    def send(self, skill: str, is_stream: bool) -> Any:
        state = {"echo": COMPLETED, "chunks": COMPLETED, "wait": WORKING}.get(skill, OPEN)
        params = message("2 0", skill)
        if skill == "wait":
            task = self.run(self.inside.send(message("2 0", skill, returnImmediately=True)))
        elif is_stream:
            frames = self.run(self.inside.stream("SendStreamingMessage", params))
            assert [frame.id for frame in frames] == list(range(1, len(frames) + 1))
            assert frames[-1].state == state
            task = self.run(self.inside.get(frames[0].task_id))
        else:
            task = self.run(self.inside.send(params))
        self.expect(task["id"], state, task)
        return task["id"]

    @rule(task_id=tasks, word=st.sampled_from(["and then", "stop"]))
    def say(self, task_id: str, word: str) -> None:
        before = self.states[task_id]
        reply = self.run(
            attempt(
                self.inside.send(
                    message(word, task_id=task_id, returnImmediately=before == WORKING)
                )
            )
        )
        if before in FINAL:
            assert reply == "UNSUPPORTED_OPERATION"
        elif before == WORKING:
            assert reply == "RESOURCE_EXHAUSTED" or state_of(reply) == WORKING
        else:
            self.expect(task_id, COMPLETED if word == "stop" else OPEN, reply)

    @rule(task_id=tasks)
    def cancel(self, task_id: str) -> None:
        reply = self.run(attempt(self.inside.cancel(task_id)))
        if self.states[task_id] in (COMPLETED, FAILED):
            assert reply == "TASK_NOT_CANCELABLE"
        else:
            self.expect(task_id, CANCELED, reply)

    @rule(task_id=tasks, say_after=st.integers(0, 8), cancel_after=st.integers(0, 8))
    def say_stop_and_cancel_at_once(self, task_id: str, say_after: int, cancel_after: int) -> None:
        if self.states[task_id] != OPEN:
            return

        async def later(turns: int, work: Any) -> Any:
            await pass_turns(turns)
            return await attempt(work)

        async def both() -> tuple[Any, Any]:
            said = later(say_after, self.inside.send(message("stop", task_id=task_id)))
            return await asyncio.gather(said, later(cancel_after, self.inside.cancel(task_id)))

        said, canceled = self.run(both())
        end = CANCELED if isinstance(canceled, dict) else COMPLETED
        assert canceled == "TASK_NOT_CANCELABLE" or state_of(canceled) == CANCELED
        assert said == "UNSUPPORTED_OPERATION" if isinstance(said, str) else state_of(said) == end
        self.expect(task_id, end, self.run(self.inside.get(task_id)))

    @rule(task_id=tasks)
    def read_the_log(self, task_id: str) -> None:
        if self.states[task_id] in FINAL:
            frames = self.run(
                self.inside.stream(
                    "SubscribeToTask", {"id": task_id}, RESUME | {"last-event-id": "0"}
                )
            )
            assert [frame.id for frame in frames] == list(range(1, len(frames) + 1))
            assert (
                [frame.state for frame in frames if frame.is_final]
                == [self.states[task_id]]
                == [frames[-1].state]
            )

    @precondition(lambda self: self.is_durable and self.restarts < MOST_RESTARTS)
    @rule()
    def restart(self) -> None:
        self.restarts += 1
        self.run(self.app.close())
        self._open()
        for task_id, state in self.states.items():
            task = self.run(self.inside.get(task_id))
            if state == WORKING:
                assert told(task).startswith("interrupted")
            self.expect(task_id, FAILED if state == WORKING else state, task)

    def teardown(self) -> None:
        for task_id, state in self.states.items():
            assert state_of(self.run(self.inside.get(task_id))) == state
        self.run(self.app.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)


def live(sequences: int, number: int) -> tuple[int, int]:
    """Try so many sequences, drawn from a seed, in this process; return how many it were in the
    end, and how many calls.
    """
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    sized = settings(
        max_examples=sequences,
        stateful_step_count=50,
        deadline=None,
        database=None,
        suppress_health_check=health,
    )
    run_state_machine_as_test(seeded(number)(Life), settings=sized)
    return Life.sequences, Life.steps


def test_no_sequence_of_calls_changes_an_end() -> None:
    """D6: a state machine tries sequences of sends, answers, cancels, races and restarts on both
    stores.
    """
    share, first = size(80, 20_000) // PROCESSES, seed()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(live, [share] * PROCESSES, range(first, first + PROCESSES)))
    sequences, calls = (sum(counts) for counts in zip(*done, strict=True))
    report("D6 sequences", sequences=sequences, calls=calls, contradictions=0)
