"""Commands as a person types them."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import Done, Process, run_forked, start

__all__ = ["COMMAND", "accord", "found", "served"]

COMMAND = Path(__file__).parent / "command.py"


def accord(*words: str, cwd: Path | None = None) -> Done:
    """Run a command to its end; whatever happens, it shows no traceback."""
    done = run_forked(COMMAND, *words, cwd=cwd)
    assert "Traceback" not in done.err, done.err
    return done


@contextmanager
def served(*words: str, cwd: Path) -> Iterator[tuple[Process, str]]:
    """`accord serve` on a free port while the block lasts: the process and its address."""
    command = (sys.executable, "-m", "accord", "serve", *words, "--port", "0")
    with start(*command, cwd=cwd) as process:
        yield process, found(r"http\S+", process.line_sync())


def found(pattern: str, text: str) -> str:
    """What a pattern finds in a text: its group, or all of it."""
    match = re.search(pattern, text)
    assert match is not None, text
    return match[match.re.groups]
