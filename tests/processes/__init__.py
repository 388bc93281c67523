"""Processes that tests start: one way to start, wait for, stop and kill them.

    with start(sys.executable, "serve.py") as process:
        url = await process.line()      # waits; fails with the output if the process ends first
        ...
        assert await process.stop() == 0

`fork` starts a Python script in some milliseconds, from a process that has everything imported, and
`run_forked` runs one to its end.
`run` runs a program to its end. `until` waits for anything else. What processes have written is
part of a failing test's report (see tests/conftest.py). Each wait has a form for tests without an
event loop, named `..._sync`.
"""

from tests.processes.forks import Forked, fork, run_forked
from tests.processes.ports import free_port, until_listening
from tests.processes.process import (
    Done,
    Ended,
    Process,
    forget_ended,
    kill_all,
    run,
    run_sync,
    sections,
    start,
)
from tests.processes.signals import reset_signals
from tests.processes.waiting import PATIENCE_S, until, until_sync

__all__ = [
    "PATIENCE_S",
    "Done",
    "Ended",
    "Forked",
    "Process",
    "forget_ended",
    "fork",
    "free_port",
    "kill_all",
    "reset_signals",
    "run",
    "run_forked",
    "run_sync",
    "sections",
    "start",
    "until",
    "until_listening",
    "until_sync",
]
