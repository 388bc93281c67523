"""Where server processes are born: a process that has imported everything and forks, some
milliseconds instead of a second each.

What is born is a process like any other, with its own pid, signals and exit code. It runs a script
as `python script ...` would.
"""

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = ["WORD", "Process", "bear"]

ROOT = Path(__file__).parent.parent.parent
ARMED = "ACCORD_FAIL_POINT"
IMPORTED = (
    "accord.app",
    "accord.store.sqlite",
    "accord.server.grpc.service",
    "accord.server.process.main",
    "encodings.idna",  # these are imported when a server starts
    "importlib.readers",
    "uvloop",
    "tests.reliability.agents.busy",
    "tests.reliability.inside",  # what scripts share
)
WORD = 8  # bytes of a pid or an exit code on the line


# In the tests


class _Cradle:
    """The process that forks, for as long as these tests run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = self._folder.name + "/births"
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        atexit.register(self._close)

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # the end of its input is its end
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:  # someone shares the pipe
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX)
        line.connect(self._path)
        return line


_cradle: _Cradle | None = None
_only_one = threading.Lock()


def _the_cradle() -> _Cradle:
    global _cradle
    with _only_one:
        if _cradle is None:
            _cradle = _Cradle()
        return _cradle


def bear(command: list[str], environment: dict[str, str], log: Path) -> tuple[int, socket.socket]:
    """Have `command`, a script and its arguments, run in a new process; return its pid, and where
    its exit code will be said.
    """
    line = _the_cradle().connect()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    job = {"command": command, "environment": environment, "log": str(log), "files": files}
    line.sendall(json.dumps(job).encode() + b"\n")
    return int(line.recv(WORD)), line


class Process:
    """A process that was born, with what asyncio's own have."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.pid, line = bear(command, environment, log)
        self.returncode: int | None = None
        self._end = asyncio.create_task(self._wait(line))

    async def _wait(self, line: socket.socket) -> int:
        with line:
            line.setblocking(False)
            self.returncode = int(await asyncio.get_running_loop().sock_recv(line, WORD))
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


# In the process that forks


def births(path: str) -> dict[str, Any] | None:
    """Fork for everyone who asks; return what to do, in the new process, or None when nobody will
    ask any more.
    """
    lives: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    with socket.socket(socket.AF_UNIX) as door, selectors.DefaultSelector() as selector:
        door.bind(path)
        door.listen(64)
        for source in (door, woken, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for source in [key.fileobj for key, _ in selector.select()]:
                if source is sys.stdin:
                    for pid in lives:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if source is woken:
                    woken.recv(1024)
                    bury(lives)
                    continue
                line, _ = door.accept()
                job: dict[str, Any] = json.loads(line.makefile().readline())
                code = compiled(job["command"][0])
                pid = os.fork()
                if pid == 0:
                    for other in (line, woken, wake, *lives.values()):
                        other.close()
                    return job | {"code": code}
                lives[pid] = line
                line.sendall(b"%8d" % pid)


@functools.cache
def compiled(script: str) -> CodeType:
    return compile(Path(script).read_text(), script, "exec")


def bury(lives: dict[int, socket.socket]) -> None:
    """Say the exit codes of those that have ended."""
    while lives:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with lives.pop(pid) as line, contextlib.suppress(OSError):  # nobody may want to know
            line.sendall(b"%8d" % os.waitstatus_to_exitcode(status))


def live(job: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(job["log"], "ab") as log, open(os.devnull, "rb") as nothing:
        for file, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(file.fileno(), number)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (job["files"], most))
    os.environ.clear()
    os.environ.update(job["environment"])
    if ARMED in os.environ:
        arm()
    sys.argv = job["command"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    program = sys.modules["__main__"] = ModuleType("__main__")
    program.__file__ = sys.argv[0]
    exec(job["code"], vars(program))


def arm() -> None:
    """Set the fail points anew: they are read when Accord is imported, which was before we knew."""
    failpoints = importlib.reload(sys.modules["accord.store.failpoints"])
    for module in [module for name, module in sys.modules.items() if name.startswith("accord.")]:
        for name in vars(module).keys() & {"is_armed", "point"}:
            setattr(module, name, getattr(failpoints, name))


def main() -> None:
    sys.path.insert(1, str(ROOT))
    for name in IMPORTED:
        importlib.import_module(name)
    sys.modules["tests.reliability.agents.busy"].agent.app(
        grpc_port=0
    )  # what is made once in a process is there now
    gc.freeze()
    job = births(sys.argv[1])
    if job is not None:
        live(job)


if __name__ == "__main__":
    main()
