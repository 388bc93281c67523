"""A thread that notices when the event loop is blocked, and logs by what.

One `time.sleep` or blocking library call in an `async def` holds up every other task of the
process. Whoever wrote it sees nothing of that; everyone else sees a slow agent.
"""

import asyncio
import logging
import sys
import threading
import time

from .stacks import place_of, stack_of

__all__ = ["Watchdog"]

log_ = logging.getLogger("accord")

BLOCKED_S = 1.0  # without a heartbeat, before it is logged
BEAT_S = 0.25


class Watchdog:
    """Watches a loop while the block lasts, which runs in it. Idle it costs a timer of the loop and
    a wake-up of the thread, four times a second.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat_at = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> None:
        self._beat()
        threading.Thread(target=self._watch, name="accord-watchdog", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self) -> None:
        logged_at = 0.0  # the heartbeat of the episode that was logged last
        looked_at, used_s = time.monotonic(), time.process_time()
        while not self._stopped.wait(BEAT_S):
            before, before_s = looked_at, used_s
            looked_at, used_s = time.monotonic(), time.process_time()
            if looked_at - before > BLOCKED_S and used_s - before_s < (looked_at - before) / 2:
                # the process itself was stopped (SIGSTOP, a debugger): no fault of the loop
                continue
            beat_at = self._beat_at
            if looked_at - beat_at > BLOCKED_S + BEAT_S and beat_at != logged_at:
                logged_at = beat_at
                self._log(looked_at - beat_at)

    def _log(self, blocked_s: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        if frame is None:
            return
        task = asyncio.current_task(self._loop)
        log_.warning(
            "the event loop has been blocked for %.1f s by %s, at %s: nothing else is "
            "served meanwhile; use await, "
            "asyncio.to_thread, or a plain def, which runs in a thread",
            *(
                blocked_s,
                task.get_name() if task is not None else "a callback",
                place_of(stack_of(frame)),
            ),
        )
