"""Tapes played to one target, counted and timed."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["CORPUS", "Run", "kept"]

CORPUS = Path(__file__).parent / "corpus"
ROUND = 20_000  # tapes, before a target is closed and opened again
SLOW_S = 1.0


def kept(name: str) -> list[bytes]:
    """Return the tapes that are kept for a target: one in a line."""
    path = CORPUS / f"{name}.txt"
    return [bytes.fromhex(line) for line in path.read_text().split()] if path.exists() else []


class Run:
    """So many inputs into one target. It is closed and opened again on the way, to see whether
    memory stays where it was.
    """

    def __init__(self, target: Any, wanted: int) -> None:
        self._target = target
        self._wanted = wanted
        self._round = min(ROUND, -(-wanted // 4))
        self._loop = asyncio.new_event_loop()
        self._count = 0
        self._slowest_s = 0.0
        self._sizes: list[int] = []
        self._loop.run_until_complete(target.open())

    @property
    def is_over(self) -> bool:
        return self._count >= self._wanted

    def play(self, tape: bytes) -> None:
        """Play one tape. Raises AssertionError, or whatever our code raises and should not."""
        took_s = self._timed(tape)
        if took_s > SLOW_S:
            took_s = min(took_s, self._timed(tape))  # was it the tape, or was the machine busy?
        self._slowest_s = max(self._slowest_s, took_s)
        self._count += 1
        if self.is_over or self._count % self._round == 0:
            self._loop.run_until_complete(self._target.close())
            gc.collect()
            self._sizes.append(
                int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            )
            if not self.is_over:
                self._loop.run_until_complete(self._target.open())

    def play_all(self, tapes: Iterable[bytes]) -> None:
        for tape in tapes:
            if self.is_over:
                return
            self.play(tape)

    def _timed(self, tape: bytes) -> float:
        started = time.perf_counter()
        try:
            self._loop.run_until_complete(self._target.attack(tape))
        except BaseException:
            print(f"{self._target.name} --tape {tape.hex()}", file=sys.stderr, flush=True)
            raise
        return time.perf_counter() - started

    def result(self) -> dict[str, Any]:
        """What was done; the target is closed."""
        self._loop.close()
        return {
            "target": self._target.name,
            "inputs": self._count,
            "outcomes": dict(self._target.outcomes.most_common()),
            "slowest_s": round(self._slowest_s, 3),
            "grown": self._sizes[-1] - self._sizes[0],
        }
