"""A process whose clock is wrong harms nothing that others stored: the store's clock counts."""

import time

import pytest

from accord.store import Ages, Leaves
from accord.store.postgres import PostgresStore
from accord.testing.store_suite.webhooks import LEASE, outcome, push
from tests.postgres import schema_url

from .conftest import COMPLETED, INPUT_REQUIRED, ME, Box, key

HOUR_S = 3600
DAY_MS = 24 * HOUR_S * 1000
DAYS = 40 * 24 * HOUR_S


@pytest.mark.parametrize(
    "off_s", [DAYS, -DAYS, 25 * HOUR_S], ids=["40 days ahead", "40 days behind", "25 h ahead"]
)
async def test_it_deletes_nothing_uses_no_key_again_and_holds_no_webhook_back(
    off_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own clock every task would be too old, every key expired and every webhook either due
    at once or in 40 days.
    """
    real_ns = time.time_ns
    with schema_url() as url:
        box, wrong = Box(url), PostgresStore(url)
        await box.open()
        right = box.store
        first = box.create(last_status=1, at=right.now_ms(), idempotency=key("k", task_id="t1"))
        first.pushes = (push(first.key),)
        ended = box.create("ended", state=COMPLETED, at=right.now_ms())
        asked = box.create("asked", state=INPUT_REQUIRED, leaves=Leaves.IDLE, at=right.now_ms())
        assert await box.commit(first, ended, asked) == [True] * 3
        with monkeypatch.context() as wrong_time:
            wrong_time.setattr(time, "time_ns", lambda: real_ns() + int(off_s * 1e9))
            await wrong.open(lambda tasks: None)
            try:
                assert abs(wrong.clock_ahead_s - off_s) < 60
                assert box.is_now(wrong.now_ms())
                ages = Ages(30 * DAY_MS, DAY_MS, DAY_MS, 14 * DAY_MS)
                assert await wrong.purge(ages, 100) == 0
                assert await box.ids() == ["asked", "ended", "t1"]

                again = box.create("t2", idempotency=key("k", kept_ms=DAY_MS))
                assert await wrong.commit([again]) == [False]
                assert await wrong.idempotency(ME, "k", DAY_MS) is not None

                (due,) = await wrong.pushes.take(["agent"], 9, lease_ms=LEASE)
                assert await right.pushes.take(["agent"], 9, lease_ms=LEASE) == []
                await wrong.pushes.settle([outcome(due, 0, pause_ms=20, tries=1)])
            finally:
                await wrong.close()
        await box.later(40)
        assert len(await right.pushes.take(["agent"], 9, lease_ms=LEASE)) == 1
        await box.close()
