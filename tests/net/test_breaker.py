"""The one circuit breaker, of the hub's gateway and of push notifications."""

import asyncio

import pytest

from accord.net import CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def breaker_of(clock: Clock, trial_s: float = 1.0) -> CircuitBreaker:
    return CircuitBreaker(5.0, 10.0, trial_s=trial_s, clock=clock)


def opened(clock: Clock, trial_s: float = 1.0) -> CircuitBreaker:
    breaker = breaker_of(clock, trial_s)
    assert [breaker.failed() for _ in range(5)] == [False] * 4 + [True]
    return breaker


@pytest.mark.parametrize("outcomes", [[False] * 5, [True, False] * 10])
def test_it_opens_after_five_failures_in_a_row_or_half_of_twenty(outcomes):
    """`docs/hub` says so: five calls in a row, or half of the last 20 within 30 s."""
    clock = Clock()
    breaker = breaker_of(clock)
    for outcome in outcomes:
        assert breaker.is_closed
        breaker.succeeded() if outcome else breaker.failed()
    assert not breaker.is_closed
    assert not breaker.admit()
    assert breaker.left_s == 5.0


def test_failures_of_long_ago_do_not_open_it():
    clock = Clock()
    breaker = breaker_of(clock)
    for n in range(40):
        clock.now_s += 2
        breaker.failed() if n % 2 else breaker.succeeded()
    assert breaker.is_closed


def test_the_pause_doubles_up_to_its_limit_and_begins_anew():
    """5 s, then 10 s each; after a success 5 s again."""
    clock = Clock()
    breaker = opened(clock)
    for pause_s in (5.0, 10.0, 10.0):
        assert breaker.left_s == pause_s
        clock.now_s += pause_s
        assert breaker.admit(), "one may try"
        assert not breaker.admit(), "and one only"
        assert breaker.failed()
    clock.now_s += 10
    assert breaker.admit()
    breaker.succeeded()
    assert breaker.is_closed
    for _ in range(5):
        breaker.failed()
    assert breaker.left_s == 5.0


def test_calls_that_began_before_it_opened_change_nothing():
    """Else fifty calls that fail together would make the pause the longest at once."""
    clock = Clock()
    breaker = opened(clock)
    assert not any(breaker.failed() for _ in range(50))
    assert breaker.left_s == 5.0


def test_a_trial_that_is_given_up_or_forgotten_makes_room_for_another():
    clock = Clock()
    breaker = opened(clock)
    clock.now_s += 5
    assert breaker.admit()
    breaker.left()
    assert breaker.admit(), "it ended without a result"
    clock.now_s += 1
    assert breaker.admit(), "it never ended"


@pytest.mark.parametrize("succeeds", [True, False])
async def test_who_waits_for_a_trial_learns_how_it_ended(succeeds):
    """Deliveries that come during a trial are not put off if it succeeds."""
    clock = Clock()
    breaker = opened(clock, trial_s=60.0)
    assert not await breaker.admit_after_trial()
    clock.now_s += 5
    assert await breaker.admit_after_trial()
    others = [asyncio.create_task(breaker.admit_after_trial()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in others)
    breaker.succeeded() if succeeds else breaker.failed()
    assert await asyncio.gather(*others) == [succeeds] * 3
