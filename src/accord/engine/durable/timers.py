"""Waiting for a time: `ctx.sleep`, and deadlines of questions and delegations.

A time is recorded when it is set, by the clock of the store. A later attempt waits for the rest
of it.
"""

import asyncio
import datetime
import math
from typing import Any

from ...model import timestamp
from ..log import SleepLeft, Slept, Woke
from .branches import Branch, Recorder, branch_of
from .history import History

__all__ = ["Expired", "Timers", "end_of_sleep", "expired", "within_ms"]

LONGEST_MS = 100 * 366 * 24 * 3600 * 1000  # a century


class Expired(TimeoutError):
    """Nobody answered before the deadline.

    `ctx.ask(..., within=)` raises it, if it has no `default`, and `ctx.delegate(..., within=)`.
    """


class Timers:
    """The times that one run waits for."""

    __slots__ = ("_activity", "_history", "_run")

    def __init__(self, run: Recorder, history: History | None) -> None:
        self._run = run
        self._activity = run.activity
        self._history = history

    async def sleep(self, duration: Any, until: datetime.datetime | None) -> None:
        """Wait for a while, or until then; after a restart, for the rest of it."""
        run, branch = self._run, branch_of(self._run)
        if branch is None:
            raise TypeError(
                "ctx.sleep was called in a task of your own, where it can't be found again after a "
                "restart; use ctx.gather for work side by side"
            )
        due = end_of_sleep(run.clock.now_ms(), duration, until)
        n = branch.next_sleep()
        found = self._history.sleep(branch.path, n) if self._history is not None else None
        if isinstance(found, Woke):
            return
        if isinstance(found, SleepLeft):
            await run.loop.create_future()  # the function stopped waiting then, and will again
        await self._activity.may_begin()
        if isinstance(found, Slept):
            due = found.due_ms
        else:
            run.note(Slept(branch.path, n, due))
        await self._wait(branch, n, due)

    async def _wait(self, branch: Branch, n: int, due: int) -> None:
        run, activity = self._run, self._activity
        activity.add_due(due)
        activity.pause()
        try:
            await run.clock.sleep_until(due)
        except asyncio.CancelledError:
            if not run.is_stopping:
                run.note(SleepLeft(branch.path, n))
                activity.was_left(f"ctx.sleep (sleep {n})")
            raise
        finally:
            activity.remove_due(due)
            activity.resume()
        await activity.may_begin()
        run.note(Woke(branch.path, n))

    def deadline(self, place: str, within: Any) -> int:
        """Return the deadline of something at a place of the function: set now, or in an earlier
        attempt.
        """
        found = self._history.sleep(place, 1) if self._history is not None else None
        if isinstance(found, Slept):
            return found.due_ms
        due = self._run.clock.now_ms() + within_ms(within)
        self._run.note(Slept(place, 1, due))
        return due


def end_of_sleep(now_ms: int, duration: Any, until: datetime.datetime | None) -> int:
    """Return when a sleep ends.

    Raises:
        TypeError: It is not said for how long, or twice.
        ValueError: That is no time.
    """
    if (duration is None) == (until is None):
        raise TypeError(
            "say how long: ctx.sleep(60), ctx.sleep(timedelta(days=2)) or ctx.sleep(until=...)"
        )
    if until is None:
        return now_ms + within_ms(duration, "ctx.sleep")
    if not isinstance(until, datetime.datetime):
        raise TypeError(f"ctx.sleep(until=...) takes a datetime, not {type(until).__name__}")
    if until.tzinfo is None:
        raise ValueError(
            f"ctx.sleep(until=...) takes a datetime with a time zone, and {until} has none; write "
            "datetime(..., tzinfo=timezone.utc)"
        )
    return math.ceil(until.timestamp() * 1000)


def within_ms(duration: Any, what: str = "within=") -> int:
    """Return a duration in milliseconds: a `timedelta`, or a number of seconds.

    Raises:
        TypeError: It is neither.
        ValueError: It is negative, endless, or longer than a century.
    """
    if isinstance(duration, datetime.timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, int | float):
        name = type(duration).__name__
        raise TypeError(f"{what} takes a timedelta or a number of seconds, not {name}")
    if not 0 <= duration * 1000 <= LONGEST_MS:  # nor is NaN
        raise ValueError(f"{what} takes 0 seconds or more, and no more than a century")
    return math.ceil(duration * 1000)


def expired(what: str, due: int) -> Expired:
    """Return the error for something that came to no end before its deadline."""
    return Expired(f"{what} before {timestamp(due)}")
