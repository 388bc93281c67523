"""How often a step that raises is called again, and with which pauses."""

import math
from typing import Any

import msgspec

from ...net import backoff_s

__all__ = ["Backoff", "backoff_of"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0  # of a step with `retries`


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Set how a failed step is called again: `ctx.step(charge, order, retry=Backoff(times=3))`.

    patient = Backoff(times=5, on=(ConnectionError,), first_s=1, factor=2, most_s=60)

    Attributes:
        times: How often it is called again.
        on: The exceptions after which it is called again; any other ends the step at once.
        first_s: The first pause, in seconds.
        factor: How much longer each pause is than the one before.
        most_s: The longest pause.
    """

    times: int = 5
    on: type[Exception] | tuple[type[Exception], ...] = (Exception,)
    first_s: float = 1.0
    factor: float = 2.0
    most_s: float = 60.0

    def __post_init__(self) -> None:
        on = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(one, type) and issubclass(one, Exception) for one in on):
            raise TypeError(f"Backoff(on=...) takes classes of exceptions, not {self.on!r:.80}")
        if isinstance(self.times, bool) or not isinstance(self.times, int) or self.times < 0:
            raise ValueError(f"Backoff(times=...) is a whole number, 0 or more, not {self.times!r}")
        for name in ("first_s", "most_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"Backoff({name}=...) is a number of seconds, 0 or more")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"Backoff(factor=...) is 1 or more, not {self.factor!r}")

    def pause_s(self, n: int) -> float:
        """Return the pause in seconds before retry number `n`. The first retry is number 0."""
        return backoff_s(n, first_s=self.first_s, most_s=self.most_s, factor=self.factor)


_ONCE = Backoff(times=0)


def backoff_of(retries: int, retry: Any) -> Backoff:
    """Return what the options of a step say."""
    if retry is None and not retries:
        return _ONCE
    if retry is None:
        return Backoff(times=retries, first_s=FIRST_PAUSE_S, most_s=LONGEST_PAUSE_S)
    if not isinstance(retry, Backoff):
        raise TypeError(
            f"ctx.step(retry=...) takes a Backoff, as in retry=Backoff(times=3), not {retry!r:.80}"
        )
    if retries:
        raise TypeError(
            "ctx.step was given retries= and retry=; give one of them: retry=Backoff(times=...)"
        )
    return retry
