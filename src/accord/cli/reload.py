"""accord serve --reload: serve in a process of its own, and start that again when code changes."""

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from ..extras import install_command
from .terminal import echo

__all__ = ["serve_reloading"]

STOP_S = 30.0  # for a server to end before it is killed


def serve_reloading(words: Sequence[str], folders: Sequence[Path]) -> None:
    """Run `accord serve` with these words until told to stop; again whenever a Python file below
    the folders changes. If it ends by itself, the next change starts it.
    """
    try:
        from watchfiles import PythonFilter, watch
    except ImportError:
        raise click.ClickException(
            f"--reload needs an extra: {install_command('reload')}"
        ) from None
    command = [sys.executable, "-m", "accord", "serve", *words]
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    server = subprocess.Popen(command)
    echo(f"watching {', '.join(map(str, folders))} for changes", err=True)
    try:
        for changes in watch(
            *folders, watch_filter=PythonFilter(), stop_event=stop, raise_interrupt=False
        ):
            names = sorted({Path(path).name for _, path in changes})
            echo(f"{', '.join(names)} changed: starting again", err=True)
            _stop(server)
            server = subprocess.Popen(command)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
