"""`ctx.step(fn, retry=Backoff(...))`: which pauses, after which exceptions, and what is logged."""

import asyncio
import logging
from typing import Any

import pytest

from accord import Agent, Backoff, Context, StepFailed, connect


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


async def ran(failures: list[Exception], **options: Any) -> tuple[str, int]:
    """What comes of a step that raises these one after the other, and how often it was called."""
    left, calls = list(failures), 0

    async def flaky() -> str:
        nonlocal calls
        calls += 1
        if left:
            raise left.pop(0)
        return "done"

    agent = Agent("Steps")

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        try:
            return await ctx.step(flaky, **options)
        except (StepFailed, TypeError) as error:
            return str(error)

    async with connect(agent) as client:
        return (await client.send("go")).text, calls


def quick(**more: Any) -> Backoff:
    return Backoff(first_s=0, **more)


async def test_it_is_called_again_after_the_named_exceptions_only():
    """A subclass is one of them; any other ends the step at once, also after some tries."""
    away, wrong = ConnectionResetError("away"), ValueError("wrong")
    on = (ConnectionError, TimeoutError)
    assert await ran([away, TimeoutError()], retry=quick(times=2, on=on)) == ("done", 3)
    assert await ran([away] * 2, retry=quick(times=2, on=ConnectionError)) == ("done", 3)
    text, calls = await ran([away, wrong, away], retry=quick(times=5, on=on))
    assert (text, calls) == ("step 'flaky' failed: ValueError: wrong", 2)
    text, calls = await ran([away] * 9, retry=quick(times=2, on=on))
    assert (text, calls) == ("step 'flaky' failed: ConnectionResetError: away", 3)


@pytest.mark.parametrize("options", [{"retry": quick(times=2)}, {"retries": 2}])
async def test_each_try_is_one_line_of_the_log_and_the_last_a_traceback(options, caplog):
    """A service that is away for a minute is not to fill the log with tracebacks."""
    caplog.set_level(logging.WARNING, logger="accord")
    failures = [OSError("first\nsecond line"), Unreadable(), OSError("last")]
    assert (await ran(failures, **options))[0] == "step 'flaky' failed: OSError: last"
    said = [one for one in caplog.records if "step flaky" in one.getMessage()]
    assert [one.exc_info is not None for one in said] == [False, False, True]
    assert "OSError: first second line" in said[0].getMessage()
    assert said[0].getMessage().endswith("1 of 2")
    assert "failed 3 times, and is given up" in said[2].getMessage()


async def test_a_step_that_is_not_tried_again_logs_nothing_itself(caplog):
    """What fails the task is logged with the task."""
    await ran([OSError("once")])
    assert "step flaky" not in caplog.text


def test_pauses_grow_by_the_factor_up_to_the_longest():
    """Also where the power is larger than a float."""
    backoff = Backoff(times=2000, first_s=1, factor=2, most_s=60)
    assert [backoff.pause_s(n) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.pause_s(1999) == 60


async def test_the_timeout_holds_for_pauses_too():
    """A step that has ten milliseconds does not wait for an hour."""
    async with asyncio.timeout(60):
        text, _ = await ran([OSError()], retry=Backoff(first_s=3600, most_s=3600), timeout=0.01)
    assert text == "step 'flaky' failed: TimeoutError: not done within 0.01 s"


async def test_what_does_not_fit_is_said_at_the_call():
    """And the step is not begun."""
    text, calls = await ran([], retry=3)
    assert "retry=Backoff(times=3)" in text
    assert calls == 0
    text, calls = await ran([], retry=Backoff(), retries=3)
    assert "give one of them" in text
    assert calls == 0


@pytest.mark.parametrize(
    "wrong",
    [{"times": -1}, {"times": 1.5}, {"on": "OSError"}, {"on": (BaseException,)}, {"factor": 0.5},
     {"first_s": -1}, {"most_s": float("inf")}, {"first_s": float("nan")}],
)  # fmt: skip
def test_a_backoff_that_makes_no_sense_is_refused(wrong):
    """Where it is written, not when the step fails."""
    with pytest.raises((TypeError, ValueError), match=r"Backoff\("):
        Backoff(**wrong)
