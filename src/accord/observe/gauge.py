"""What something is at the moment of a scrape."""

from typing import NamedTuple

__all__ = ["Gauge"]


class Gauge(NamedTuple):
    """A metric that is read when it is asked for, by its labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: dict[tuple[str, ...], float]
