"""Servers of the demo: started in processes of their own, and stopped with it, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Started:
    """What a command of Accord says at its start."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def link(self, word: str) -> str:
        """The address in the line with this word; empty if it has none."""
        line = next(line for line in self.lines if word in line)
        return next((part for part in line.split() if part.startswith("http")), "")


@contextlib.contextmanager
def started(folder: str, *words: str, last: str) -> Iterator[Started]:
    """A command of Accord in a process of its own, stopped at the end.

    Its group is its own too, so that Ctrl-C is for us alone, who stop all in order.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "accord", *words, "--port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.strip().startswith(last):
                break
        else:
            raise SystemExit(f"{words[0]} did not start: {''.join(lines)}")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield Started(lines)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_on_signals() -> None:
    """End the program in good order on the first signal. Also on SIGINT where a shell had it
    ignored, as for what runs in the background.
    """

    def stop(number: int, frame: object) -> NoReturn:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN)  # what was started is being stopped
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, stop)
