"""examples/approval.py, served as a user would: `kill -9`, a restart, and an answer that comes too
late.
"""

import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accord import connect
from accord.client import Client
from accord.model import StatusUpdate, TaskState, UnsupportedOperation
from tests.cli.shell import found
from tests.postgres import schema_url
from tests.processes import start, until

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "approval.py"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where tasks outlive their process."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/t.db"
        return
    with schema_url() as url:
        yield url


@contextlib.asynccontextmanager
async def life(
    folder: Path, store: str, within_s: float, receipt_s: float = 1
) -> AsyncIterator[Client]:
    """One life of the server, which ends by `kill -9`."""
    command = [sys.executable, "-m", "accord", "serve", str(EXAMPLE), "--port", "0"]
    command += ["--no-push", "--store", store]
    environment = {
        "PAID": str(folder / "paid.txt"),
        "WITHIN_S": str(within_s),
        "RECEIPT_AFTER_S": str(receipt_s),
    }
    with start(*command, cwd=folder, env=environment) as process:
        url = found(r"http://[\d.:]+", await process.line())
        async with connect(url) as client:
            yield client
            process.kill()


async def test_an_approval_that_comes_after_the_deadline_pays_nothing(
    tmp_path: Path, store: str
) -> None:
    """The deadline is the one the first process has set, and the second refuses the answer."""
    async with life(tmp_path, store, within_s=4) as client:
        asked = await client.send("Invoice 17: 4,000 EUR")
        assert asked.state is TaskState.INPUT_REQUIRED
        expires_at = asked.questions[0].expires_at
        assert expires_at is not None
    async with life(tmp_path, store, within_s=3600) as client:
        again = await client.get(asked.task_id)
        assert again.state is TaskState.INPUT_REQUIRED
        # PostgreSQL decides by its own clock, which is known here to a few milliseconds.
        await until(lambda: time.time() > expires_at.timestamp() + 0.1, "the deadline")
        with pytest.raises(UnsupportedOperation):
            await client.send("true", task_id=asked.task_id)
        done = await client.wait(asked.task_id)
        assert done.text == "not paid: Invoice 17: 4,000 EUR"
    assert not (tmp_path / "paid.txt").exists()


async def test_one_that_comes_in_time_is_paid_once_whatever_dies_meanwhile(
    tmp_path: Path, store: str
) -> None:
    async with life(tmp_path, store, within_s=60, receipt_s=3) as client:
        asked = await client.send("Invoice 18: 5 EUR")
    async with life(tmp_path, store, within_s=60, receipt_s=3) as client:
        stream = client.stream("true", task_id=asked.task_id)
        async for event in stream:
            said = event.status.message if isinstance(event, StatusUpdate) else None
            if said is not None and "receipt tomorrow" in said.text:
                break
        await stream.close()
        await until((tmp_path / "paid.txt").exists, "the payment")
    # What the first attempt recorded counts, not what the function would say now.
    async with life(tmp_path, store, within_s=60, receipt_s=3600) as client:
        done = await client.wait(asked.task_id)
        assert done.text == "paid: Invoice 18: 5 EUR, receipt 1"
