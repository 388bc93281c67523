"""Pauses that grow: the one place that computes how long to wait before trying again."""

__all__ = ["backoff_s"]


def backoff_s(n: int, *, first_s: float, most_s: float, factor: float = 2.0) -> float:
    """Return the pause after failure `n`, counted from 0: `first_s`, then `factor` times as long
    each time, up to `most_s`.
    """
    try:
        return min(first_s * factor**n, most_s)
    except OverflowError:
        return most_s
