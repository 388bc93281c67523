"""The database's clock, as a replica knows it by answers that take their time."""

import pytest

from accord.store.postgres import clock as clocks

BASE_MS = 1_800_000_000_000  # the database's time when the steady clock here stands at 0


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The steady clock of this process, to be set: its only item."""
    at_s = [0.0]
    monkeypatch.setattr(clocks, "elapsed_s", lambda: at_s[0])
    return at_s


def told(clock: clocks.DatabaseClock, steady: list[float], *times: float, set_ms: int = 0) -> float:
    """Have the database say its time: asked, read and answered then. Return by how many
    milliseconds the clock is off.
    """
    sent_s, read_s, got_s = times
    steady[0] = got_s
    clock.measure(sent_s, round(BASE_MS + set_ms + read_s * 1000))
    return clock.now_ms() - (BASE_MS + set_ms + got_s * 1000)


def test_a_slow_answer_does_not_move_it(steady: list[float]) -> None:
    """Whether the database read its clock early, before a slow commit, or late, behind a lock. If
    it moved, a timer would be early, or a late answer in time.
    """
    clock = clocks.DatabaseClock()
    assert abs(told(clock, steady, 10, 10.001, 10.002)) <= 2
    assert abs(told(clock, steady, 15, 15.001, 15.9)) <= 6
    assert abs(told(clock, steady, 20, 20.899, 20.9)) <= 8
    assert abs(told(clock, steady, 25, 25.001, 25.002)) <= 2


def test_a_first_slow_answer_is_mended_by_a_quick_one(steady: list[float]) -> None:
    clock = clocks.DatabaseClock()
    assert abs(told(clock, steady, 10, 10.001, 10.8)) > 300
    assert abs(told(clock, steady, 10.8, 10.801, 10.802)) <= 2


@pytest.mark.parametrize("set_ms", [-60_000, -200, 200, 60_000])
def test_a_clock_that_was_set_is_followed(steady: list[float], set_ms: int) -> None:
    clock = clocks.DatabaseClock()
    told(clock, steady, 10, 10.001, 10.002)
    assert abs(told(clock, steady, 15, 15.001, 15.002, set_ms=set_ms)) <= 2
