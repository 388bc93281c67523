"""The table of histories on the real engine: recovery takes up what a dead process has recorded,
and clients see the outcome.
"""

import logging

import pytest

from accord.engine.durable import backoff
from accord.engine.durable.history import Mismatch
from accord.engine.log import Delegated
from tests.engine.durable import real
from tests.engine.durable.fake import Waits
from tests.engine.durable.table import CALLS, ROWS, Row

TOLD = {
    None: "TASK_STATE_COMPLETED",
    Waits: "TASK_STATE_INPUT_REQUIRED",
    Mismatch: "TASK_STATE_WORKING",
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 0.001)


def is_run_here(row: Row) -> bool:
    """Delegations need another agent: see tests/engine/test_delegate.py."""
    return "delegation" not in row.name or row.name == "a delegation in place of a step"


def has_delegations(row: Row) -> bool:
    """One that is under way is not a fork's."""
    return any(isinstance(entry, Delegated) for entry in row.recorded)


HERE = [row for row in ROWS if is_run_here(row)]


@pytest.mark.parametrize("row", HERE, ids=[row.name for row in HERE])
async def test_row(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    await check(row, caplog, is_fork=False)


FORKED = [row for row in HERE if row.recorded and not has_delegations(row)]


@pytest.mark.parametrize("row", FORKED, ids=[row.name for row in FORKED])
async def test_a_fork_goes_on_as_the_task_would(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    await check(row, caplog, is_fork=True)


async def check(row: Row, caplog: pytest.LogCaptureFixture, *, is_fork: bool) -> None:
    expected = row.expected
    outcome = await real.run(row, is_fork=is_fork)
    assert real.state_of(outcome.task) == TOLD.get(expected.raises, "TASK_STATE_FAILED"), (
        outcome.error
    )
    if expected.raises is None:
        assert outcome.result == expected.result
    else:
        assert isinstance(outcome.error, expected.raises), outcome.error
        assert expected.match in str(outcome.error)
    if expected.raises is Mismatch:
        (logged,) = [
            record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
        ]
        assert expected.match in logged
    for what, new, wanted in (
        ("calls", CALLS, expected.calls),
        (
            "records",
            outcome.records,
            None if expected.records is None else [real.plain(entry) for entry in expected.records],
        ),
        ("sent", outcome.sent, expected.sent),
        ("statuses", outcome.statuses, expected.statuses),
    ):
        if wanted is not None or row.recorded:
            assert new == [*(wanted or ())], what
    if expected.artifacts is not None:
        assert outcome.artifacts == expected.artifacts


def test_most_of_the_table_runs_on_the_engine() -> None:
    assert len(HERE) >= 90
