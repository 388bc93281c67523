"""Server processes in some milliseconds instead of a second each: a process that has imported
everything forks them.

What it forks is a process like any other, with its own pid, signals and exit code. It runs a script
as `python script ...` would.
"""

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
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

if __name__ == "__main__":
    sys.path.insert(1, str(Path(__file__).parents[2]))

from tests.processes.process import Child, Done

__all__ = ["Forked", "fork", "run_forked"]

ARMED = "FAIL_POINT"  # read here: `-X accord_fail_point` is not for a process that is forked
IMPORTED = (
    "accord.app",
    "accord.store.sqlite",
    "accord.server.grpc.service",
    "accord.server.process.main",
    "aiohttp",  # commands are run too
    "click",
    "encodings.idna",  # these are imported when a server starts
    "importlib.readers",
    "uvloop",
    "tests.reliability.agents.busy",
    "tests.reliability.inside",  # what scripts share
)
NUMBER = 8  # bytes of a pid or an exit code on the connection


# In the tests


class _ForkServer:
    """The process that forks, for as long as these tests run."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = self._folder.name + "/forks"
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the tests, which then end it
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        atexit.register(self._close)

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # the end of its input is its end
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:  # another process has the pipe too
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        return connection


_only_one = threading.Lock()


@functools.cache
def _fork_server() -> _ForkServer:
    return _ForkServer()


class Forked(Child):
    """A script in a process that was forked. All it writes goes to a log file."""

    def __init__(
        self,
        command: list[str],
        env: Mapping[str, str],
        log: Path,
        *,
        errors: Path | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.command = command
        self.log = log
        with _only_one:
            self._end = _fork_server().connect()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        job = {"command": command, "environment": dict(env), "log": str(log), "files": files}
        job |= {"errors": str(errors or log), "cwd": str(cwd or Path.cwd())}
        self._end.sendall(json.dumps(job).encode() + b"\n")
        self.pid = int(self._end.recv(NUMBER))
        self._end.setblocking(False)
        self._returncode: int | None = None
        super().__init__()

    @property
    def returncode(self) -> int | None:
        if self._returncode is None:
            with contextlib.suppress(BlockingIOError):
                self._returncode = int(self._end.recv(NUMBER))
                self._end.close()
        return self._returncode

    @property
    def shown(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def fork(
    script: str | Path, *arguments: str | Path, log: Path, env: Mapping[str, str] | None = None
) -> Forked:
    """Run a Python script in a new process. `env` is added to the environment."""
    return Forked([str(script), *map(str, arguments)], {**os.environ, **(env or {})}, log)


def run_forked(script: str | Path, *arguments: str | Path, cwd: Path | None = None) -> Done:
    """Run a Python script to its end."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        command = [str(script), *map(str, arguments)]
        with Forked(command, os.environ, out, errors=err, cwd=cwd) as process:
            code = process.wait_sync()
            return Done(code, out.read_text(errors="replace"), err.read_text(errors="replace"))


# In the process that forks


def serve(path: str) -> dict[str, Any] | None:
    """Fork for everyone who asks; return what to do, in the new process, or None when nobody will
    ask any more.
    """
    children: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(path)
        listener.listen(64)
        for source in (listener, woken, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for source in [key.fileobj for key, _ in selector.select()]:
                if source is sys.stdin:
                    for pid in children:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if source is woken:
                    woken.recv(1024)
                    send_exit_codes(children)
                    continue
                connection, _ = listener.accept()
                job: dict[str, Any] = json.loads(connection.makefile().readline())
                code = compiled(job["command"][0])
                pid = os.fork()
                if pid == 0:
                    for other in (connection, woken, wake, *children.values()):
                        other.close()
                    return job | {"code": code}
                children[pid] = connection
                connection.sendall(b"%8d" % pid)


@functools.cache
def compiled(script: str) -> CodeType:
    return compile(Path(script).read_text(), script, "exec")


def send_exit_codes(children: dict[int, socket.socket]) -> None:
    """Of those that have ended."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as connection, contextlib.suppress(OSError):  # the test may be gone
            connection.sendall(b"%8d" % os.waitstatus_to_exitcode(status))


def become(job: dict[str, Any]) -> None:
    """Be the process that was asked for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with (
        open(job["log"], "ab") as log,
        open(job["errors"], "ab") as errors,
        open(os.devnull, "rb") as nothing,
    ):
        for file, number in ((nothing, 0), (log, 1), (errors, 2)):
            os.dup2(file.fileno(), number)
    os.chdir(job["cwd"])
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
    sys._xoptions["accord_fail_point"] = os.environ[ARMED]
    failpoints = importlib.reload(sys.modules["accord.store.failpoints"])
    for module in [module for name, module in sys.modules.items() if name.startswith("accord.")]:
        for name in vars(module).keys() & {"is_armed", "point"}:
            setattr(module, name, getattr(failpoints, name))


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    # what is made once in a process is there now
    sys.modules["tests.reliability.agents.busy"].agent.app(grpc_port=0)
    gc.freeze()
    job = serve(sys.argv[1])
    if job is not None:
        become(job)


if __name__ == "__main__":
    main()
