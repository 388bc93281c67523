"""Several processes on one port: a parent that starts them, starts them again, and stops them.

The parent binds the port and serves nobody. Its children accept from the same socket, so that no
connection is lost with one of them, and none is refused while a new one starts.
"""

import contextlib
import logging
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

from ...net import backoff_s

__all__ = ["WorkerProcess", "run_workers"]

log_ = logging.getLogger("accord")

PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before a worker that died is started again
HEALTHY_S = 30.0  # of life, after which a death is the first one again
_STOPPING = (signal.SIGTERM, signal.SIGINT)
OVERTIME_S = 15.0  # beyond the grace, before a worker that does not stop is killed

Serve = Callable[["WorkerProcess"], None]


class WorkerProcess:
    """A child, as it sees itself: what it reports to its parent, and how it notices its end."""

    def __init__(self, number: int, ready: int, parent: int) -> None:
        self.number = number
        self.parent = parent  # a pipe that ends with the parent
        self._ready = ready

    def is_serving(self) -> None:
        """Report to the parent that this child serves."""
        os.write(self._ready, bytes([self.number]))


class _Child:
    """A worker, as its parent sees it."""

    def __init__(self, pid: int, number: int) -> None:
        self.pid = pid
        self.number = number
        self.began_s = time.monotonic()


def run_workers(
    count: int, serve: Serve, *, grace_s: float, on_start: Callable[[], None] = lambda: None
) -> int:
    """Have `count` children call `serve` until told to stop; return the exit code.

    `on_start` is called when all of them serve. A child that dies is started again after a pause.
    One that dies before any has served ends all of them: what is wrong with it is wrong with all.
    """
    if not hasattr(os, "fork"):
        raise RuntimeError("several workers need a system that forks; start one, or use containers")
    return _Parent(count, serve, grace_s, on_start).run()


class _Parent:
    def __init__(
        self, count: int, serve: Serve, grace_s: float, on_start: Callable[[], None]
    ) -> None:
        self._count = count
        self._serve = serve
        self._grace_s = grace_s
        self._on_start = on_start
        self._children: dict[int, _Child] = {}
        self._due: list[tuple[float, int]] = []  # when to start a worker again, and which
        self._deaths = [0] * count  # in a row
        self._ready: set[int] = set()
        self._has_served = False
        self._signals: list[int] = []
        self._is_stopping = False
        self._kill_at = math.inf
        self._code = 0

    def run(self) -> int:
        ready, self._ready_pipe = os.pipe()
        # A child reads an end of it: that there is nobody left to write is how it learns of our
        # death.
        self._alive, self._life = os.pipe()
        with self._hearing() as woken:
            for number in range(self._count):
                self._start(number)
            while self._children or (self._due and not self._is_stopping):
                self._wait(woken, ready)
                self._stop_if_asked()
                self._reap()
                self._start_due()
        for pipe in (ready, self._ready_pipe, self._alive, self._life):
            os.close(pipe)
        return self._code

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[socket.socket]:
        """Signals wake the parent up, and are looked at then."""
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)

        def note(number: int, frame: FrameType | None) -> None:
            if number != signal.SIGCHLD:
                self._signals.append(number)

        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
        before = {number: signal.signal(number, note) for number in numbers}
        waking = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(waking)
            for number, handler in before.items():
                signal.signal(number, handler)
            woken.close()
            waker.close()

    def _wait(self, woken: socket.socket, ready: int) -> None:
        """Until something happens, or something is due."""
        at_s = min((self._kill_at, *(at_s for at_s, _ in self._due)))
        timeout_s = None if math.isinf(at_s) else max(at_s - time.monotonic(), 0)
        found, _, _ = select.select([woken.fileno(), ready], [], [], timeout_s)
        if woken.fileno() in found:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
        if ready in found:
            before = len(self._ready)
            self._ready.update(os.read(ready, 1))
            self._has_served = True
            if before < self._count == len(self._ready) and not self._is_stopping:
                self._on_start()

    # Its children

    def _start(self, number: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        # Held back until the child has handlers of its own: ours would take them and do nothing.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._children[pid] = _Child(pid, number)
            return
        code = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the parent: asked twice, a worker would hurry
            os.close(self._life)
            signal.set_wakeup_fd(-1)
            for one in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(one, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._serve(WorkerProcess(number, self._ready_pipe, self._alive))
            code = 0
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            code = end.code if isinstance(end.code, int) else 1
        except (RuntimeError, ValueError, TypeError) as error:
            print(f"Error: {error}", file=sys.stderr)
        except BaseException:
            log_.exception("worker %d failed", number)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # what the parent would do at its end is not the child's to do

    def _start_due(self) -> None:
        now_s = time.monotonic()
        due = [number for at_s, number in self._due if at_s <= now_s]
        self._due = [(at_s, number) for at_s, number in self._due if at_s > now_s]
        for number in due:
            self._start(number)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            child = self._children.pop(pid, None)
            if child is not None:
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        if self._is_stopping:
            is_stopped = code in (0, -signal.SIGTERM)  # one that was still starting died of it
            self._code = self._code or (0 if is_stopped else 1)
            return
        if not self._has_served:
            self._code = code if code > 0 else 1
            self._stop(signal.SIGTERM)
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        is_first = time.monotonic() - child.began_s > HEALTHY_S
        deaths = self._deaths[child.number] = 1 if is_first else self._deaths[child.number] + 1
        pause_s = backoff_s(deaths - 1, first_s=PAUSE_S, most_s=LONGEST_PAUSE_S)
        log_.error(
            "worker %d (process %d) %s, and is started again in %g s",
            child.number,
            child.pid,
            how,
            pause_s,
        )
        self._due.append((time.monotonic() + pause_s, child.number))

    def _stop_if_asked(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            self._stop(number)
        if time.monotonic() >= self._kill_at:
            self._kill_at = math.inf
            for pid in self._children:
                log_.error("process %d did not stop, and is killed", pid)
                self._code = 1
                os.kill(pid, signal.SIGKILL)

    def _stop(self, number: int) -> None:
        """Pass a signal on. Ctrl-C twice hurries the workers too."""
        self._due = []
        if not self._is_stopping:
            self._is_stopping = True
            self._kill_at = time.monotonic() + self._grace_s + OVERTIME_S
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
