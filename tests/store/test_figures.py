"""The figures of the console: every task that ended, by the minute, from what a store keeps."""

from typing import Any

import pytest

from accord.console.figures import Figures, share_of
from accord.store import Leaves

from .conftest import COMPLETED, FAILED, OTHER, Box

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


async def end(box: Box, *tasks: tuple[int, int, int], **more: Any) -> None:
    """Store tasks that ended: when, after how many milliseconds, and in which state."""
    for at, took, state in tasks:
        made = box.create(f"t{box.key()}", at=at - took, **more)
        await box.commit(made)
        await box.commit(
            box.append(made, at=at, state=state, leaves=Leaves.END, head=b"{}", artifacts=b"[]")
        )


async def seen(figures: Figures, since_ms: int) -> tuple[int, int]:
    minutes = [one for _, one in await figures.since(since_ms)]
    return sum(one.ended for one in minutes), sum(one.failed for one in minutes)


async def test_every_task_is_counted_once_however_often_one_looks(box, monkeypatch):
    """Also those that end between two looks, and those from before the first look, when a longer
    time is asked for; one reading of the store is shorter than the time that is asked for.
    """
    monkeypatch.setattr("accord.console.figures.HOUR_MS", 3 * MINUTE_MS)
    now = box.store.now_ms()
    figures = Figures(box.store, lambda: "")
    await end(box, *((now - n * 7_000, 10, COMPLETED) for n in range(1, 11)))
    await end(box, (now - 30 * MINUTE_MS, 90_000, FAILED), namespace=OTHER)
    await end(box, (now - 20 * HOUR_MS, 5, COMPLETED))
    for _ in range(2):
        assert await seen(figures, now - HOUR_MS) == (11, 1)
    assert await seen(figures, now - 24 * HOUR_MS) == (12, 1)
    await end(box, (box.store.now_ms(), 10, FAILED))
    assert await seen(figures, now - HOUR_MS) == (12, 2)
    assert await seen(figures, now - 24 * HOUR_MS) == (13, 2)
    # whoever looks for the first time finds the same: another replica, or this one after a restart
    assert await seen(Figures(box.store, lambda: ""), now - 24 * HOUR_MS) == (13, 2)
    assert await seen(Figures(box.store, lambda: "nobody"), now - 24 * HOUR_MS) == (0, 0)


async def test_shares_of_durations_are_right_to_a_few_percent(box):
    now = box.store.now_ms()
    await end(box, *((now - n, 100 * n, COMPLETED) for n in range(1, 101)))
    minutes = [one for _, one in await Figures(box.store, lambda: "").since(now - HOUR_MS)]
    assert share_of(minutes, 0.5) == pytest.approx(5_000, rel=0.03)
    assert share_of(minutes, 0.95) == pytest.approx(9_500, rel=0.03)
    assert max(one for minute in minutes for one in minute.slowest)[0] == 10_000
    assert share_of([], 0.5) is None


async def test_what_is_committed_late_is_counted_when_its_minute_is_old_enough(box, monkeypatch):
    """As after an outage of the store: what ended in it appears later, with its own time."""
    now = box.store.now_ms()
    at = now - now % MINUTE_MS - 30 * MINUTE_MS
    figures = Figures(box.store, lambda: "")
    await end(box, (at + 1, 10, COMPLETED))
    monkeypatch.setattr("accord.console.figures.LATE_MS", HOUR_MS)
    assert await seen(figures, now - HOUR_MS) == (1, 0)
    await end(box, (at + 2, 20, FAILED), (at - MINUTE_MS, 30, FAILED))
    monkeypatch.setattr("accord.console.figures.LATE_MS", 2 * MINUTE_MS)
    for _ in range(2):
        assert await seen(figures, now - HOUR_MS) == (3, 2)
