"""Where the hub may connect: public addresses, and what an admin has allowed."""

from ...model import InvalidParams, now_ms
from ...net import Guard
from ..errors import EntryNotFound
from ..storage import Audit, Changes, Database, Row
from .people import Person

__all__ = ["Networks"]

LOOPBACK = ("127.0.0.0/8", "::1", "localhost")


class Networks:
    """The outbound guard, which follows what admins allow."""

    def __init__(
        self, db: Database, changes: Changes, audit: Audit, allowed: tuple[str, ...]
    ) -> None:
        self._db = db
        self._changes = changes
        self._audit = audit
        self._fixed = allowed
        self._guard = Guard(allowed)
        self._rows: list[Row] = []
        changes.watch(self._load)

    def guard(self) -> Guard:
        """The guard as it is now."""
        return self._guard

    def listed(self) -> list[Row]:
        fixed = [
            {"what": what, "why": "setting of the hub", "created_ms": 0} for what in self._fixed
        ]
        return [*fixed, *self._rows]

    async def add(self, by: Person, what: str, why: str) -> None:
        """Allow a private host or network."""
        what = what.strip().lower()
        try:
            Guard([what])
        except ValueError as error:
            raise InvalidParams(str(error)) from None
        async with self._changes.transaction() as db:
            await db.execute(
                "INSERT INTO networks (what, why, created_ms) VALUES (?,?,?) "
                "ON CONFLICT (what) DO UPDATE SET why = excluded.why",
                *(what, why, now_ms()),
            )
            await self._audit.write(by.name, "network.add", what, why, within=db)

    async def remove(self, by: Person, what: str) -> None:
        async with self._changes.transaction() as db:
            if not await db.execute("DELETE FROM networks WHERE what = ?", what):
                raise EntryNotFound(
                    f"{what[:80]!r} is not allowed here", fix="accord hub network list"
                )
            await self._audit.write(by.name, "network.remove", what, within=db)

    async def _load(self) -> None:
        rows = await self._db.fetch("SELECT what, why, created_ms FROM networks ORDER BY what")
        if rows != self._rows:
            self._rows = rows
            self._guard = Guard([*self._fixed, *(row["what"] for row in rows)])
