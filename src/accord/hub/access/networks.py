"""Where the hub may connect: public addresses, and what an admin has allowed."""

from ...model import InvalidParams
from ...net import Guard
from ...store import Database, SqlRow
from ..errors import EntryNotFound
from ..records import Audit, Change, Changes
from .principals import Principal

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
        self._rows: list[SqlRow] = []
        changes.watch(self._load)

    def guard(self) -> Guard:
        """The guard as it is now."""
        return self._guard

    def listed(self) -> list[SqlRow]:
        fixed = [
            {"what": what, "why": "setting of the hub", "created_ms": 0} for what in self._fixed
        ]
        return [*fixed, *self._rows]

    async def add(self, by: Principal, what: str, why: str) -> None:
        """Allow a private host or network."""
        what = what.strip().lower()
        try:
            Guard([what])
        except ValueError as error:
            raise InvalidParams(str(error)) from None

        async def write(db: Change) -> None:
            await db.execute(
                "INSERT INTO networks (what, why, created_ms) VALUES (?,?,?) "
                "ON CONFLICT (what) DO UPDATE SET why = excluded.why",
                *(what, why, self._db.now_ms()),
            )
            await self._audit.write(by.name, "network.add", what, why, within=db)

        await self._changes.write(write)

    async def remove(self, by: Principal, what: str) -> None:
        async def write(db: Change) -> None:
            if not await db.execute("DELETE FROM networks WHERE what = ?", what):
                raise EntryNotFound(
                    f"{what[:80]!r} is not allowed here",
                    fix="see which there are with: accord hub network list",
                )
            await self._audit.write(by.name, "network.remove", what, within=db)

        await self._changes.write(write)

    async def _load(self) -> None:
        rows = await self._db.fetch("SELECT what, why, created_ms FROM networks ORDER BY what")
        if rows != self._rows:
            self._rows = rows
            self._guard = Guard([*self._fixed, *(row["what"] for row in rows)])
