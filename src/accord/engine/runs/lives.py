"""How often a run was cut off without getting any further, and how those are tried that may be what kills their process.

From the log alone a run that kills its process can't be told from one that was only there. So they are tried: in groups, the least
suspected first, each for a while and after a pause, which both get longer with every death. Whoever gets on is free. A process
that is killed from outside dies during the pauses as well, which tells against nobody.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .run import Run

__all__ = ["MAX_ALONE", "Lives", "Suspects", "groups"]

SUSPECT = 2  # replays that died without getting any further, after which a run is tried with care
MAX_ALONE = 8  # such deaths while it was the only one on trial: what kills its process is not tried for ever
PAUSE_S = 1.0  # before the first trial; twice as long after every death
LONGEST_S = 3600.0
TRIAL = 2  # times as long as its pause
_LOOK_S = 0.05

TOGETHER, ALONE, LIVED = b"?", b"!", b"-"

T = TypeVar("T")


class Lives:
    """The lives of a run that began by replay, since it last got on."""

    def __init__(self) -> None:
        self.count = 0  # that have ended without a word
        self.blamed = 0  # of these, on trial
        self.alone = 0  # and nobody else was
        self._last = b""

    def take(self, how: bytes) -> None:
        """A line of the log: a life began, on trial or not, or it came through its trial."""
        change = -1 if how == LIVED else 1
        last, self._last = (self._last, b"") if how == LIVED else (how, how)
        self.count += how != LIVED
        self.blamed += change * (last in (TOGETHER, ALONE))
        self.alone += change * (last == ALONE)

    def get_on(self) -> None:
        """Something new was done."""
        self.count = self.blamed = self.alone = 0
        self._last = b""

    @property
    def is_suspect(self) -> bool:
        return self.count >= SUSPECT

    @property
    def is_guilty(self) -> bool:
        return self.alone >= MAX_ALONE

    @property
    def pause_s(self) -> float:
        return min(PAUSE_S * 2.0 ** min(self.count - SUSPECT, 60), LONGEST_S)


class Suspects:
    """Runs that wait for their trial."""

    def __init__(self) -> None:
        self._held: list[tuple[Lives, Run]] = []

    def add(self, lives: Lives, run: "Run") -> None:
        self._held.append((lives, run))

    async def try_all(self) -> None:
        """Have all of them go on, one group after the other."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        held, self._held = self._held, []
        for group in groups(held):
            pause_s = max(lives.pause_s for lives, _ in group)
            await asyncio.sleep(began + pause_s - loop.time())
            await _try([run for _, run in group], TRIAL * pause_s)


def groups(suspects: list[tuple[Lives, T]]) -> Iterator[list[tuple[Lives, T]]]:
    """Halves of those that are equally suspect, the least suspect first.

    A death under trial raises the suspicion of one half and not of the other, so that sooner or later what kills is alone.
    """
    for blamed in sorted({lives.blamed for lives, _ in suspects}):
        same = [(lives, suspect) for lives, suspect in suspects if lives.blamed == blamed]
        half = (len(same) + 1) // 2
        yield from filter(None, (same[:half], same[half:]))


async def _try(runs: "list[Run]", trial_s: float) -> None:
    """Let these go on, and wait until all of them have got further, or lived for so long."""
    loop = asyncio.get_running_loop()
    held = [run for run in runs if run.is_held and not run.log.is_dead]  # else it was cancelled meanwhile, or lost by the store
    for run in held:
        run.open_gate(ALONE if len(held) == 1 else TOGETHER)
    left = {run: run.got_on for run in held}
    until = loop.time() + trial_s
    while left and loop.time() < until:
        await asyncio.sleep(_LOOK_S)
        left = {run: size for run, size in left.items() if not run.is_over and run.got_on == size}
    for run in left:
        if not run.log.is_dead:
            run.note_aside(b"r", LIVED)
