"""A model of tasks, and a machine that tries to catch the server disagreeing with it, over crashes
and restarts.

Every life is a process of its own (`life.py`) on a real database, and a crash is `kill -9`.
"""

import itertools
import json
import shutil
import signal
import socket
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

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

from accord.engine.runs.recovery import MAX_ATTEMPTS
from tests.processes import PATIENCE_S, fork
from tests.reliability.harness import (
    FINAL,
    WAYS,
    message,
    quick_folder,
    report,
    seed,
    size,
    state_of,
    tally,
    text_of,
    told,
)

LIFE = Path(__file__).parent / "life.py"
COMPLETED, CANCELED, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", "TASK_STATE_FAILED"
OPEN, WORKING = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"
NORMAL = {
    "echo": COMPLETED,
    "talk": OPEN,
    "plan": OPEN,
    "hold": WORKING,
    "keep": WORKING,
}  # where a task of a skill comes to
DURABLE = ("plan", "keep")
OVER = st.sampled_from(sorted(WAYS))
TURNS = st.integers(0, 16)
PROCESSES = 2
MOST_DEATHS = size(4, 8)  # in one sequence: they cost more than all the rest


class Life:
    """A process with the app in it."""

    def __init__(self, folder: Path, door: socket.socket) -> None:
        self.log = folder / "log"
        self._process = fork(LIFE, folder, door.getsockname(), log=self.log)
        try:
            self._line, _ = door.accept()
        except TimeoutError:
            raise AssertionError(f"it did not start:\n{self.log.read_text()}") from None
        self._line.settimeout(PATIENCE_S)
        self._answers = self._line.makefile("rb")

    def call(self, way: str, method: str, params: dict[str, Any], **death: int) -> Any:
        """The answer, the reason for a refusal, or None if it died before it answered."""
        self._line.sendall(
            json.dumps({"way": way, "method": method, "params": params, **death}).encode() + b"\n"
        )
        answer = self._answers.readline()
        return json.loads(answer) if answer else None

    def close(self) -> None:
        """Stop in good order."""
        self._line.shutdown(socket.SHUT_WR)
        assert self.ended() == 0, self.log.read_text()

    def ended(self) -> int:
        code = self._process.wait_sync()
        for thing in (self._answers, self._line):
            thing.close()
        return code


class Known:
    """What the model knows of one task."""

    def __init__(self, id: str, skill: str, text: str, state: str) -> None:
        self.id, self.skill, self.text, self.state = id, skill, text, state
        self.said = {text}
        self.cuts = 0  # while it worked: after some of them without progress it is given up
        self.crashes = 0  # in the middle of its work: each may have repeated a step
        self.is_shown = False  # what a step gave: it has been stored, and is never done again


class Lives(RuleBasedStateMachine):
    """Send, follow up, answer, cancel, read, crash, restart: no acknowledged thing is lost, and
    ends are final.
    """

    sequences = crashes = 0
    calls: Counter[str] = Counter()
    tasks = Bundle("tasks")

    @initialize()
    def begin(self) -> None:
        Lives.sequences += 1
        self.folder = quick_folder()
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(str(self.folder / "calls"))
        self.door.listen()
        self.door.settimeout(PATIENCE_S)
        self.known: dict[str, Known] = {}
        self.texts = itertools.count(1)
        self.deaths = 0
        self.life = Life(self.folder, self.door)

    def call(self, way: str, method: str, params: dict[str, Any]) -> Any:
        Lives.calls[way] += 1
        return self.life.call(way, method, params)

    def say(self, way: str, params: dict[str, Any]) -> Any:
        """Send a message; return the task, or the reason for a refusal."""
        answer = self.call(way, "SendMessage", params)
        return answer["task"] if isinstance(answer, dict) else answer

    def all(self) -> dict[str, Any]:
        """All tasks as they are, by their first text."""
        page = self.call("rest", "ListTasks", {"pageSize": 100, "includeArtifacts": True})
        assert page["nextPageToken"] == ""
        return {first_text(task): task for task in page["tasks"]}

    # What clients do

    @rule(target=tasks, skill=st.sampled_from(sorted(NORMAL)), way=OVER)
    def send(self, skill: str, way: str) -> Any:
        text = f"{skill}-{next(self.texts)}"
        task = self.say(way, message(text, skill, returnImmediately=NORMAL[skill] == WORKING))
        known = self.known[text] = Known(task["id"], skill, text, NORMAL[skill])
        self.expect(way, task, known)
        return text

    @rule(task=tasks, word=st.sampled_from(["more", "stop"]), way=OVER)
    def follow_up(self, task: str, word: str, way: str) -> None:
        known = self.known.get(task)
        if known is None:
            return
        word = word if word == "stop" else f"more-{next(self.texts)}"
        reply = self.say(
            way, message(word, task_id=known.id, returnImmediately=known.state == WORKING)
        )
        if known.state in FINAL:
            assert reply == "UNSUPPORTED_OPERATION"
            return
        if reply == "RESOURCE_EXHAUSTED":
            return
        known.said.add(word)
        if known.state == OPEN:
            known.state = COMPLETED if word == "stop" else OPEN
        self.expect(way, reply, known)

    @rule(task=tasks, way=OVER)
    def cancel(self, task: str, way: str) -> None:
        known = self.known.get(task)
        if known is None:
            return
        reply = self.call(way, "CancelTask", {"id": known.id})
        if known.state in (COMPLETED, FAILED) or (
            known.state == CANCELED and way.endswith("0.3")
        ):  # which cancels once
            assert reply == "TASK_NOT_CANCELABLE"
        else:
            known.state = CANCELED
            self.expect(way, reply, known)

    @rule(task=tasks, way=OVER)
    def read(self, task: str, way: str) -> None:
        if known := self.known.get(task):
            self.check(self.call(way, "GetTask", {"id": known.id}), known)

    # What happens to processes

    @precondition(lambda self: self.deaths < MOST_DEATHS)
    @rule()
    def restart(self) -> None:
        self.deaths += 1
        self.life.close()
        self.life = Life(self.folder, self.door)
        self._look_at_all()

    @precondition(lambda self: self.deaths < MOST_DEATHS)
    @rule()
    def crash(self) -> None:
        self.deaths += 1
        self._crash_in("rest", "ListTasks", {}, 0)
        self._look_at_all()

    @precondition(lambda self: self.deaths < MOST_DEATHS)
    @rule(target=tasks, skill=st.sampled_from(sorted(NORMAL)), turns=TURNS, way=OVER)
    def crash_in_a_send(self, skill: str, turns: int, way: str) -> Any:
        """The new task is there or not; if its sender was answered, it is."""
        self.deaths += 1
        text = f"{skill}-{next(self.texts)}"
        answered = self._crash_in(way, "SendMessage", message(text, skill), turns)
        found = self._look_at_all().get(text)
        assert found or answered is None, "an acknowledged task is lost"
        if found:
            assert state_of(found) == NORMAL[skill] or (
                skill not in DURABLE and state_of(found) == FAILED
            )
            known = self.known[text] = Known(found["id"], skill, text, state_of(found))
            known.crashes = known.cuts = 1
            self.check(found, known)
        # known or not: whether it was stored in time is not for the machine's plan to depend on
        return text

    @precondition(lambda self: self.deaths < MOST_DEATHS)
    @rule(task=tasks, turns=TURNS, way=OVER)
    def crash_in_an_answer(self, task: str, turns: int, way: str) -> None:
        """The answer is in the history or not; a durable function goes on with it, another
        fails.
        """
        self.deaths += 1
        known = self.known.get(task)
        if known is None or known.state != OPEN:
            return
        answered = self._crash_in(way, "SendMessage", message("stop", task_id=known.id), turns)
        known.crashes += 1
        state = state_of(self._at_rest()[task])
        if answered is not None:
            known.said.add("stop")
            assert state == state_of(answered["task"]) == COMPLETED
        assert state in (OPEN, COMPLETED) or (known.skill not in DURABLE and state == FAILED)
        known.state = state
        self._look_at_all()

    def _crash_in(self, way: str, method: str, params: dict[str, Any], turns: int) -> Any:
        """Crash some turns of the loop into a call; return its answer if it came before."""
        Lives.crashes += 1
        answered = self.life.call(way, method, params, turns=turns)
        assert self.life.ended() == -signal.SIGKILL
        for known in self.known.values():
            known.crashes += known.state == WORKING and not known.is_shown
        self.life = Life(self.folder, self.door)
        return answered

    # What must then be true

    def _at_rest(self) -> dict[str, Any]:
        """All tasks, when every replay has come to where it waits."""
        while True:
            tasks = self.all()
            if not any(state_of(task) == WORKING and not is_kept(task) for task in tasks.values()):
                return tasks

    def _look_at_all(self) -> dict[str, Any]:
        """Hold every task against the model, after a life has ended."""
        tasks = self._at_rest()
        for text, known in self.known.items():
            assert text in tasks, "an acknowledged task is lost"
            if known.state == WORKING:
                known.cuts += 1
                if known.skill not in DURABLE or (
                    known.cuts > MAX_ATTEMPTS and "times in a row" in told(tasks[text])
                ):
                    known.state = FAILED
                    assert told(tasks[text]).startswith("interrupted")
            self.check(tasks[text], known)
        return tasks

    def expect(self, way: str, task: Any, known: Known) -> None:
        """A reply is what the model says, and what the store says."""
        self.check(task, known)
        self.check(self.call(way, "GetTask", {"id": known.id}), known)

    def check(self, task: Any, known: Known) -> None:
        assert (task["id"], state_of(task)) == (known.id, known.state), (known.skill, told(task))
        said = {m["parts"][0]["text"] for m in task["history"] if m["role"] == "ROLE_USER"}
        assert known.said <= said, "an acknowledged message is lost"
        if known.skill == "plan" and known.state == COMPLETED:
            assert text_of(task) == f"{known.text}/1;{known.text}/2;"
        known.is_shown = known.is_shown or bool(text_of(task))
        if known.skill in DURABLE:
            done = self._done()
            assert max(done[f"{known.text}/1"], done[f"{known.text}/2"]) <= 1 + known.crashes, (
                "a step was done twice"
            )

    def _done(self) -> Counter[str]:
        path = self.folder / "done"
        return Counter(path.read_text().split()) if path.exists() else Counter()

    def teardown(self) -> None:
        self.life.close()
        self.door.close()
        assert "Traceback" not in self.life.log.read_text()
        shutil.rmtree(self.folder)


def is_kept(task: Any) -> bool:
    """It works for ever, and has come that far."""
    return first_text(task).startswith("keep") and bool(task.get("artifacts"))


def first_text(task: Any) -> str:
    text: str = task["history"][0]["parts"][0]["text"]
    return text


def live(sequences: int, number: int) -> tuple[int, Counter[str], int]:
    """Try so many sequences, drawn from a seed, in this process; return how many it were in the
    end, with their calls and crashes.
    """
    health = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    sized = settings(
        max_examples=sequences,
        stateful_step_count=50,
        deadline=None,
        database=None,
        suppress_health_check=health,
    )
    run_state_machine_as_test(seeded(number)(Lives), settings=sized)
    return Lives.sequences, Lives.calls, Lives.crashes


def test_no_life_loses_what_another_acknowledged() -> None:
    """D1, D4, D6: sequences of calls, crashes and restarts against a model: nothing acknowledged is
    lost, an end is final, replies agree with the store, durable work goes on, and no step is done
    twice except one that a crash cut off.
    """
    share, first = size(30, 5_000) // PROCESSES, seed()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(live, [share] * PROCESSES, range(first, first + PROCESSES)))
    sequences, crashes = sum(part[0] for part in parts), sum(part[2] for part in parts)
    calls = sum((part[1] for part in parts), Counter[str]())
    report("model", sequences=sequences, calls=tally(calls), crashes=crashes, contradictions=0)
