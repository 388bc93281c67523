"""A process, what it writes, and its end."""

import contextlib
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple, Self

from tests.processes.waiting import PATIENCE_S, until, until_sync

__all__ = [
    "Child",
    "Done",
    "Ended",
    "Output",
    "Process",
    "forget_ended",
    "kill_all",
    "run",
    "run_sync",
    "sections",
    "start",
]

_SHOWN = 20_000  # characters of a process's output in a report

_children: "list[Child]" = []  # of the test that runs, and those that outlive a test


class Ended(AssertionError):
    """A process ended before it did what was waited for."""


class Output:
    """What a process writes to a pipe. A thread reads it, so that the process never waits for us,
    and what was written before a failure is there.
    """

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._chunks: list[bytes] = []
        self._taken = 0
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return
        with pipe:
            while chunk := os.read(pipe.fileno(), 1 << 16):
                self._chunks.append(chunk)

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(self._chunks)

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")

    @property
    def rest(self) -> str:
        """What comes after the lines that were taken."""
        return self.data[self._taken :].decode(errors="replace")

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def take_line(self) -> bytes | None:
        """The next line, with its end; None if there is no whole one yet."""
        data = self.data
        end = data.find(b"\n", self._taken) + 1
        if not end:
            return None
        line = data[self._taken : end]
        self._taken = end
        return line


class Child:
    """A process that a test has started, in whichever way."""

    pid: int
    command: list[str]

    def __init__(self) -> None:
        _children.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative signal that ended it, or None while it runs."""
        raise NotImplementedError

    @property
    def shown(self) -> str:
        """What it has written, for reports."""
        raise NotImplementedError

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def wait(self, seconds: float = PATIENCE_S) -> int:
        """Wait for the end; return the exit code."""
        await until(self._is_over, f"end of {self}", seconds=seconds)
        return self._code()

    def wait_sync(self, seconds: float = PATIENCE_S) -> int:
        until_sync(self._is_over, f"end of {self}", seconds=seconds)
        return self._code()

    async def stop(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_S) -> int:
        """Ask the process to end and return its exit code. If it does not end in time it is killed,
        and that is a failure.
        """
        self.send_signal(number)
        try:
            return await self.wait(seconds)
        finally:
            self.kill()

    def stop_sync(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_S) -> int:
        self.send_signal(number)
        try:
            return self.wait_sync(seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process at once (`kill -9`), and see that it has ended."""
        self.send_signal(signal.SIGKILL)
        until_sync(lambda: self.returncode is not None, f"death of {self}")

    def close(self) -> None:
        """Let nothing run on."""
        self.kill()

    def _is_over(self) -> bool:
        return self.returncode is not None

    def _code(self) -> int:
        assert self.returncode is not None
        return self.returncode

    def __str__(self) -> str:
        code = self.returncode
        how = "running" if code is None else f"ended with {code}"
        command = " ".join(shlex.quote(word.partition("\n")[0][:80]) for word in self.command)
        return f"process {self.pid} ({how}): {command}"


class Process(Child):
    """A program with pipes, or with a log file that gets all it writes."""

    def __init__(
        self,
        command: list[str],
        *,
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        log: Path | None,
        has_stdin: bool,
        prepare: Callable[[], None] | None,
    ) -> None:
        self.command = command
        self._log = log
        with contextlib.ExitStack() as files:
            target = subprocess.PIPE if log is None else files.enter_context(log.open("ab"))
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
                stdout=target,
                stderr=target,
                cwd=cwd,
                env=None if env is None else {**os.environ, **env},
                preexec_fn=prepare,
            )
        self.pid = self._popen.pid
        self.out = Output(self._popen.stdout)
        self.err = Output(self._popen.stderr)
        super().__init__()

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    @property
    def shown(self) -> str:
        if self._log is not None:
            return _read(self._log)
        return self.out.text + self.err.text

    async def line(self, seconds: float = PATIENCE_S) -> str:
        """Wait for the next line on standard output; return it without its end."""
        found = await until(self._next_line, f"a line from {self}", seconds=seconds)
        return found.decode().removesuffix("\n")

    def line_sync(self, seconds: float = PATIENCE_S) -> str:
        found = until_sync(self._next_line, f"a line from {self}", seconds=seconds)
        return found.decode().removesuffix("\n")

    def write(self, text: str) -> None:
        """Write to its standard input."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(text.encode())
        self._popen.stdin.flush()

    def close(self) -> None:
        super().close()
        if self._popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.close()

    def _next_line(self) -> bytes | None:
        is_over = self._is_over()  # before looking: what it wrote before its end is there then
        line = self.out.take_line()
        if line is None and is_over:
            raise Ended(f"no more lines from {self}\n{self.shown[-_SHOWN:]}")
        return line

    def _is_over(self) -> bool:
        return self.returncode is not None and self.out.is_over and self.err.is_over


class Done(NamedTuple):
    """A program that has run."""

    code: int
    out: str
    err: str


def start(
    *command: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    has_stdin: bool = False,
    prepare: Callable[[], None] | None = None,
) -> Process:
    """Start a program. Use it with `with`, or `close` it: then it ends with the test.

    `env` is added to the environment. With `log`, both outputs are appended to that file. `prepare`
    is called in the new process before the program (for limits).
    """
    return Process(
        [str(word) for word in command],
        cwd=cwd,
        env=env,
        log=log,
        has_stdin=has_stdin,
        prepare=prepare,
    )


async def run(
    *command: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_S,
) -> Done:
    """Run a program to its end."""
    with start(*command, cwd=cwd, env=env) as process:
        return Done(await process.wait(seconds), process.out.text, process.err.text)


def run_sync(
    *command: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_S,
    prepare: Callable[[], None] | None = None,
) -> Done:
    with start(*command, cwd=cwd, env=env, prepare=prepare) as process:
        return Done(process.wait_sync(seconds), process.out.text, process.err.text)


# For reports


def sections() -> Iterator[tuple[str, str]]:
    """Of each process of this test: what it is, and the end of what it has written."""
    for child in _children:
        if shown := child.shown:
            yield str(child), shown[-_SHOWN:]


def forget_ended() -> None:
    """A new test begins: what has ended belongs to the last one."""
    _children[:] = [child for child in _children if child.returncode is None]


def kill_all() -> None:
    """The tests are over."""
    for child in _children:
        child.close()


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
