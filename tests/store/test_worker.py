"""The thread that works for a loop."""

import asyncio
import os
import threading
from typing import Any

import pytest

from accord.store.sqlite.worker import Worker


class NoReaders(asyncio.SelectorEventLoop):
    """As the usual loop of Windows: it can't watch a pipe."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> Any:  # type: ignore[override]
        if getattr(callback, "__self__", None) is not None and isinstance(
            callback.__self__, Worker
        ):
            raise NotImplementedError
        super().add_reader(fd, callback, *args)  # type: ignore[misc]  # its own, by which threads wake it
        return None  # type: ignore[misc]


@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, NoReaders])
def test_jobs_are_done_in_order_and_told_in_every_loop(loop_factory: Any) -> None:
    """What a job raises is raised to who gave it, and the next is done all the same; a stop leaves
    nobody waiting.
    """

    async def work() -> None:
        done: list[int] = []
        worker = Worker("test-worker")
        jobs = [worker.do(lambda n=n: done.append(n)) for n in range(100)]  # type: ignore[misc]
        failing = worker.do(lambda: 1 // 0)
        last = worker.do(threading.get_ident)
        await asyncio.gather(*jobs)
        with pytest.raises(ZeroDivisionError):
            await failing
        assert await last != threading.get_ident()
        assert done == list(range(100))
        left = worker.do(lambda: "told")
        await worker.stop()
        assert left.result() == "told"

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(work(), 20))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted there")
async def test_a_worker_that_was_stopped_leaves_no_file_open() -> None:
    async def once() -> None:
        worker = Worker("test-worker")
        await worker.do(lambda: None)
        await worker.stop()

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    assert len(os.listdir("/proc/self/fd")) == before
