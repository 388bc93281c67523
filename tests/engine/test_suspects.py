"""Who is given up when processes die, told by a model of them: time is a number here, and a death a line in a log."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from accord.engine.durable.replay import Past
from accord.engine.runs.lives import ALONE, LIVED, MAX_ALONE, TOGETHER, TRIAL, Lives, groups
from accord.model import Message, Role


@dataclass
class Work:
    """A durable run: how long its step takes, or how soon it kills its process."""

    name: str
    step_s: float = math.inf
    kills_after_s: float = math.inf
    lives: Lives = field(default_factory=Lives)
    is_done: bool = False

    @property
    def is_given_up(self) -> bool:
        return self.lives.is_guilty


def live(works: list[Work], killed_after_s: float = math.inf) -> float:
    """One life of the process, as the engine has it: return when it died, or infinity if it did not."""
    opened: dict[str, float] = {}
    open_ = [work for work in works if not work.is_done and not work.is_given_up]

    def death_s() -> float:
        return min([killed_after_s, *(opened[w.name] + w.kills_after_s for w in open_ if w.name in opened)])

    def die(at_s: float) -> float:
        for work in open_:
            if work.name in opened and opened[work.name] + work.step_s < at_s:
                work.is_done = True
        return at_s

    for work in open_:
        if not work.lives.is_suspect:
            work.lives.take(b"")
            opened[work.name] = 0.0
    now = 0.0
    for group in groups([(work.lives, work) for work in open_ if work.name not in opened]):
        pause_s = max(lives.pause_s for lives, _ in group)
        now = max(now, pause_s)
        if death_s() <= now:
            return die(death_s())
        for lives, work in group:
            lives.take(ALONE if len(group) == 1 else TOGETHER)
            opened[work.name] = now
        now += min(max(work.step_s for _, work in group), TRIAL * pause_s)
        if death_s() <= now:
            return die(death_s())
        for lives, work in group:
            if opened[work.name] + work.step_s > now:
                lives.take(LIVED)
    return die(death_s())


def lives_of(works: list[Work], killed_after_s: Callable[[int], float] = lambda n: math.inf, most: int = 200) -> int:
    """Live until a process lives for good, or for so many lives; return how many it took."""
    for n in range(most):
        if live(works, killed_after_s(n)) == math.inf:
            return n + 1
    return most


@pytest.mark.parametrize("kills_after_s", [0.001, 1.5, 10.0, 90.0])
@pytest.mark.parametrize("innocents", [0, 1, 2, 9, 500])
@pytest.mark.parametrize("poisons", [1, 3])
def test_what_kills_is_found_and_nobody_else(kills_after_s, innocents, poisons):
    """However many there are, and though none of them gets any further meanwhile."""
    works = [Work(f"innocent-{n}") for n in range(innocents)]
    for n in range(poisons):
        works.insert((n + 1) * len(works) // (poisons + 1), Work(f"poison-{n}", kills_after_s=kills_after_s))
    took = lives_of(works)
    assert {work.name for work in works if work.is_given_up} == {f"poison-{n}" for n in range(poisons)}
    assert took < 200


@pytest.mark.parametrize("every_s", [0.2, 1.0, 5.0, 60.0, 600.0])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_a_process_that_is_killed_from_outside_costs_no_work(every_s, count):
    """Again and again, faster than a step: whoever is killed in its pause too was not what killed."""
    works = [Work(f"innocent-{n}") for n in range(count)]
    assert lives_of(works, lambda n: every_s, most=1000) == 1000
    assert [work.name for work in works if work.is_given_up] == []


def test_what_gets_on_is_free():
    lives = Lives()
    for _ in range(MAX_ALONE - 1):
        lives.take(ALONE)
    lives.get_on()
    lives.take(ALONE)
    assert (lives.count, lives.alone, lives.is_suspect) == (1, 1, False)


def test_what_a_client_says_is_no_sign_of_life():
    """Else whoever writes to a task that kills would have it tried for ever."""
    past = Past(Message(message_id="m", role=Role.USER, parts=[]), 0)
    past.take(b"r", ALONE)
    past.take(b"m", b'{"messageId":"n","role":"ROLE_USER","parts":[{"text":"Are you there?"}]}')
    assert past.lives.alone == 1
    past.take(b"s", b'{"name":"x","n":1,"value":1}')
    assert past.lives.alone == 0


def test_innocents_wait_for_no_more_than_two_trials():
    """A thousand that were there at three deaths all go on within a few seconds."""
    works = [Work(f"innocent-{n}", step_s=30.0) for n in range(1000)]
    assert lives_of(works, lambda n: 0.2 if n < 3 else 60.0, most=4) == 4
    assert all(work.is_done for work in works)
