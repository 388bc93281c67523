"""How much this process works on."""

from collections import Counter

from ..ownership import SlotRun

__all__ = ["Working"]


class Working:
    """The runs that are not waiting for input, counted in total and per caller."""

    def __init__(self) -> None:
        self._runs: dict[SlotRun, str] = {}
        self._of_caller: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: SlotRun, caller: str) -> None:
        if run not in self._runs:
            self._runs[run] = caller
            if caller:
                self._of_caller[caller] += 1

    def discard(self, run: SlotRun) -> None:
        caller = self._runs.pop(run, "")
        if caller:
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]

    def of_caller(self, caller: str) -> int:
        return self._of_caller[caller] if caller else 0
