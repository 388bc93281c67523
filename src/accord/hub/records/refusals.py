"""Requests that were refused. Anybody can send as many as they like, so they are counted, and not
written down one by one.
"""

from collections import Counter
from typing import TYPE_CHECKING

from ...store import Database, Sql
from .audit import Audit

if TYPE_CHECKING:
    from ..access import Principal

__all__ = ["FLUSH_S", "Refusals"]

FLUSH_S = 60.0
CALLERS = 1000  # counted by name within a minute
MOST_NAMED = 20  # of what one caller was refused
OTHERS = "others"


class Refusals:
    """Counts the refused requests of each caller: one row in the audit log per caller and minute,
    and none if there were none.
    """

    def __init__(self, db: Database, audit: Audit) -> None:
        self._db = db
        self._audit = audit
        self._counts: dict[str, Counter[str]] = {}  # by caller

    def count(self, who: "Principal", what: str) -> None:
        """Count a request: to an agent, by its name, or to the REST interface, by verb and path."""
        name = who.name if who.name in self._counts or len(self._counts) < CALLERS else OTHERS
        counts = self._counts.setdefault(name, Counter())
        counts[what if what in counts or len(counts) < MOST_NAMED else OTHERS] += 1

    async def flush(self) -> None:
        """Write what was counted since the last time."""
        if not self._counts:
            return
        counts, self._counts = self._counts, {}

        async def write(db: Sql) -> None:
            for name, found in counts.items():
                detail = {"requests": found.total(), "what": dict(found.most_common())}
                await self._audit.write(name, "refused", "*", detail, within=db)

        await self._db.write(write)
