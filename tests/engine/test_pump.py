"""Background loops: one policy for errors."""

import asyncio
import contextlib
import logging

import pytest

from accord import pump as pump_module
from accord.model import Unavailable
from accord.pump import Pump
from accord.store import CommitFailed
from tests.processes import until

log_ = logging.getLogger("accord.test")


class Work:
    """Fails as it is told, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.rounds = list(errors), 0

    async def __call__(self) -> bool:
        self.rounds += 1
        if self.errors:
            raise self.errors.pop(0)
        return False


async def test_whatever_a_round_raises_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """An error of our own is logged, once for each; that the store is away is the store's to
    say.
    """
    work = Work(Unavailable("away"), CommitFailed("full"), KeyError("x"))
    pump = Pump("counting", work, log=log_, retry_s=lambda: 0.0, waits_for=(CommitFailed,))
    pump.start()
    await until(lambda: work.rounds == 4 and pump.is_idle)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    pump.wake()
    await until(lambda: work.rounds == 5 and pump.is_idle)


async def test_what_fails_again_and_again_is_logged_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Work(*(KeyError("x") for _ in range(5)), KeyError("y"), KeyError("y"))
    pump = Pump("counting", work, log=log_, retry_s=lambda: 0.0)
    pump.start()
    await until(lambda: work.rounds == 8 and pump.is_idle)
    assert [record.getMessage() for record in caplog.records] == [
        "counting: failed, and is tried again",
        "counting: failed, and is tried again",
        "counting: works again",
    ]


async def test_a_store_of_another_kind_is_waited_for_too(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(ConnectionError("away"))
    pump = Pump("counting", work, log=log_, retry_s=lambda: 0.0, waits_for=(OSError,))
    pump.start()
    await until(lambda: work.rounds == 2 and pump.is_idle)
    assert caplog.records == []


async def test_a_round_that_does_not_heed_its_end_holds_up_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that does not answer must not keep a process from stopping, or from starting the
    loop anew.
    """
    monkeypatch.setattr(pump_module, "END_S", 0.01)
    answered, rounds = asyncio.Event(), list[int]()

    async def work() -> bool:
        rounds.append(1)
        while len(rounds) == 1 and not answered.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await answered.wait()
        return False

    pump = Pump("hanging", work, log=log_)
    pump.start()
    await until(lambda: len(rounds) == 1)
    await pump.stop()
    pump.start()
    await until(lambda: len(rounds) == 2 and pump.is_idle)
    answered.set()


async def test_it_works_when_it_is_woken_and_not_after_it_was_stopped() -> None:
    work = Work()
    pump = Pump("counting", work, log=log_, pause_s=lambda: 3600.0)
    pump.start()
    await until(lambda: work.rounds == 1)
    pump.wake()
    await until(lambda: work.rounds == 2)
    await pump.stop()
    pump.wake()
    await asyncio.sleep(0)
    assert (work.rounds, pump.is_idle) == (2, True)


async def test_what_it_was_woken_for_is_done_before_it_stops() -> None:
    gate, done = asyncio.Event(), list[int]()

    async def work() -> bool:
        await gate.wait()
        done.append(1)
        return False

    pump = Pump("waiting", work, log=log_)
    pump.start()
    asyncio.get_running_loop().call_soon(gate.set)
    await pump.stop(30.0)
    assert done == [1]
