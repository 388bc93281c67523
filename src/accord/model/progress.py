"""The progress of a task in numbers, as an agent reports it and clients read it."""

import math
from typing import Any, NamedTuple

from .base import Metadata
from .extensions import PROGRESS

__all__ = ["Progress"]


class Progress(NamedTuple):
    """The progress of a task: 3 of 10. It stands in the metadata of a status under
    `urn:accord:progress:1`.

    Attributes:
        done: How much is done.
        total: Of how much; None if that is not known.
    """

    done: float
    total: float | None = None

    @classmethod
    def read(cls, metadata: Metadata | None) -> "Progress | None":
        """Return what stands in metadata; None if that is nothing, or makes no sense."""
        found = metadata.get(PROGRESS) if metadata else None
        if not isinstance(found, dict) or not _is_amount(found.get("done")):
            return None
        total: Any = found.get("total")
        return cls(found["done"], total if _is_amount(total) and total > 0 else None)

    @classmethod
    def of(cls, done: float, total: float | None) -> "Progress":
        """Return the progress. Raises ValueError for numbers that make no sense."""
        if not _is_amount(done):
            raise ValueError(f"progress is a number, 0 or more, not {done!r:.40}")
        if total is not None and not (_is_amount(total) and total > 0):
            raise ValueError(f"the total of a progress is a number above 0, not {total!r:.40}")
        return cls(done, total)

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a status that reports this progress."""
        total = {} if self.total is None else {"total": self.total}
        return {PROGRESS: {"done": self.done, **total}}

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None without a total."""
        return None if self.total is None else min(self.done / self.total, 1.0)

    def __str__(self) -> str:
        return f"{self.done:.12g}" + ("" if self.total is None else f" of {self.total:.12g}")


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
