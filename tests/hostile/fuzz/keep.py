"""Of many tapes, those that are worth keeping: each reaches a line of ours that none before it
does.
"""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from .run import CORPUS
from .targets import TARGETS

__all__ = ["keep"]

Line = tuple[str, int]


def keep(name: str, tapes: list[bytes], folder: Path) -> None:
    """Write the best of these tapes where `kept` finds them, the short ones first."""
    seen: set[Line] = set()
    worth: list[bytes] = []
    loop = asyncio.new_event_loop()
    target = TARGETS[name](folder)
    loop.run_until_complete(target.open())
    for tape in sorted(tapes, key=lambda tape: (len(tape), tape)):
        new = _lines(lambda tape=tape: loop.run_until_complete(target.attack(tape))) - seen
        if new:
            seen |= new
            worth.append(tape)
    loop.run_until_complete(target.close())
    loop.close()
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.txt").write_text("".join(tape.hex() + "\n" for tape in worth))


def _lines(work: Any) -> set[Line]:
    """The lines of ours that `work` comes past."""
    found: set[Line] = set()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if "/accord/" not in frame.f_code.co_filename:
            return None
        found.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return found
