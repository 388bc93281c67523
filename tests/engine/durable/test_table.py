"""The table of histories, on a run in memory."""

import asyncio
from typing import Any

import pytest

from accord.engine.durable import backoff
from accord.engine.log.entries import ENCODE, Attempt, Entry, MessageAdded
from tests.engine.durable.fake import Run, Waits, log_of
from tests.engine.durable.table import CALLS, ROWS, Row


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.001)


async def attempt(row: Row, log: list[Entry]) -> tuple[Run, Any]:
    """Run the function of a row. Return the run, and the result or what was raised."""
    CALLS.clear()
    given = sum(isinstance(entry, MessageAdded) for entry in log) if not row.recorded else 0
    run = Run(log, CALLS, row.answers[given:])
    try:
        async with asyncio.timeout(5):
            return run, await run.drive(row.function)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        return run, error


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_row(row: Row) -> None:
    run, found = await attempt(row, log_of(row.recorded))
    expected = row.expected
    if expected.raises is not None:
        assert isinstance(found, expected.raises), found
        assert expected.match in str(found)
    else:
        assert not isinstance(found, BaseException), repr(found)
        assert found == expected.result
    for what, new, wanted in (
        ("calls", CALLS, expected.calls),
        (
            "records",
            lines(run.recorded),
            None if expected.records is None else lines(expected.records),
        ),
        ("sent", run.sent, expected.sent),
        ("statuses", run.statuses, expected.statuses),
    ):
        if wanted is not None or row.recorded:
            assert new == [*(wanted or ())], what
    if expected.artifacts is not None:
        assert run.artifacts() == expected.artifacts


REPEATABLE = [
    row
    for row in ROWS
    if row.is_repeatable and not row.recorded and row.expected.raises is not Waits
]


@pytest.mark.parametrize("row", REPEATABLE, ids=lambda row: row.name)
async def test_broken_off_anywhere_it_comes_to_the_same(row: Row) -> None:
    """However much of an attempt is stored, the next one ends as it did; with all of it stored, it
    calls and says nothing.
    """
    start = log_of(())
    whole, found = await attempt(row, start)
    for length in range(len(start) + 1, len(whole.log) + 1):
        if isinstance(whole.log[length - 1], MessageAdded):
            continue  # its answer is stored with it
        again, other = await attempt(row, [*whole.log[:length], Attempt(1)])
        assert_same(other, found)
        assert again.artifacts() == whole.artifacts()
    assert CALLS == []
    assert again.recorded == []
    assert again.statuses == []


def assert_same(one: Any, other: Any) -> None:
    if isinstance(other, BaseException):
        assert (type(one), str(one)) == (type(other), str(other))
    else:
        assert one == other


def lines(entries: Any) -> list[bytes]:
    return [ENCODE[type(entry)](entry)[0] for entry in entries]


def test_the_table_is_whole() -> None:
    assert len(ROWS) > 90
    assert len({row.name for row in ROWS}) == len(ROWS)
