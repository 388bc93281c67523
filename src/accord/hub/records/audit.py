"""Who did what: rows that are only added. Each holds the hash of the one before, so that a row that
was changed or taken out is noticed. The number and hash of the last one, the head, are signed with
the hub's keys: so rows can't be taken from the end either.

Whoever can write the database might put back an older head with its rows. So each hub keeps the
newest head it has seen in memory and in a file of its folder too, and compares the log with it
every second. A log that is shorter than that, because rows were taken away or an older backup was
restored, gets a row that says so.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...auth import KeyringError
from ...private import private_folder, private_opener
from ...store import Database, Sql

if TYPE_CHECKING:
    from ...auth import Keyring

__all__ = ["KEEP_S", "Audit", "AuditHead", "AuditRow", "Checked"]

log_ = logging.getLogger("accord.hub")

PAGE = 100  # rows that are checked at once, on the loop that answers calls
PAUSE = 2  # times what a page took: calls go on meanwhile
MOST_CHECKED = 5_000  # rows of one request
HEAD_FILE = "hub-{}.audit"
KEEP_S = 1.0  # between two looks at the head: what is written within it is not safe from a cut yet


class AuditRow(msgspec.Struct, frozen=True):
    """One thing that somebody did. It never holds content or secrets."""

    n: int
    at_ms: int
    who: str
    did: str
    what: str
    detail: str
    hash: str


class AuditHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last row of the log. Nothing else that the hub signs, as cards and push notifications,
    has these fields.
    """

    n: int
    hash: str


NOTHING = AuditHead(0, "")  # the head of a log without rows


class Checked(msgspec.Struct, frozen=True):
    """What was found out about a piece of the log."""

    trouble: str  # empty if nothing is wrong
    upto: int  # the last row that was looked at
    is_done: bool  # there are no more


class Audit:
    """Writes, reads and checks the audit log."""

    def __init__(
        self, db: Database, keyring: "Callable[[], Keyring]", folder: str | Path = ""
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._file = _head_file(Path(folder), db) if folder else None
        self._kept = NOTHING  # what is in the file
        self._seen: str | None = None  # the head as it was stored when the log was last compared

    async def open(self) -> None:
        """Compare the log with what this hub saw of it last."""
        self._kept = self._read_file()
        await self.keep_head()

    async def keep_head(self) -> None:
        """Keep the newest head, here and in the file of this hub. If the row is gone or another one
        that was the last before, write that down: a log may have been cut with its older head.
        """
        signed = await self._signed()
        if signed == self._seen:
            return
        if await self._hash_of(self._kept.n) != self._kept.hash:
            last = await self._db.fetch_one("SELECT MAX(n) AS n FROM audit")
            has = (last["n"] if last is not None else None) or 0
            log_.warning(
                "the audit log had %d rows and now has %d of them at most: rows were changed or "
                "taken away, or an older backup was restored; the log says so",
                *(self._kept.n, min(has, self._kept.n)),
            )
            await self.write("hub", "audit.shortened", "*", {"had": self._kept.n, "has": has})
            self._kept = NOTHING
            signed = await self._signed()
        self._seen = signed
        with contextlib.suppress(KeyringError):  # `verify` reports it
            head = self._opened(signed)
            if head.n > self._kept.n:
                self._write_file(signed)
                self._kept = head

    async def _signed(self) -> str:
        """Return the head as it is stored."""
        row = await self._db.fetch_one("SELECT signed FROM audit_head")
        return str(row["signed"]) if row is not None else ""

    async def write(
        self,
        who: str,
        did: str,
        what: str,
        detail: Any = None,
        *,
        within: Sql | None = None,
    ) -> None:
        """Add a row: within a transaction, so that a change and its row are stored together, or by
        itself.
        """
        if within is None:
            return await self._db.write(lambda db: self.write(who, did, what, detail, within=db))
        # One chain: rows are added one after the other, also by several hubs.
        await within.execute("UPDATE changes SET n = n")
        last = await within.fetch_one("SELECT n, hash FROM audit ORDER BY n DESC LIMIT 1")
        end = AuditHead(last["n"], last["hash"]) if last is not None else NOTHING
        if lost := await self._lost(end, within):  # before a new head hides it
            end = await self._add(end, "hub", "audit.shortened", "*", lost, within)
        end = await self._add(end, who, did, what, detail, within)
        signed = self._keyring().sign(msgspec.structs.asdict(end))
        if not await within.execute("UPDATE audit_head SET signed = ?", signed):
            await within.execute("INSERT INTO audit_head (signed) VALUES (?)", signed)

    async def _add(
        self, end: AuditHead, who: str, did: str, what: str, detail: Any, db: Sql
    ) -> AuditHead:
        """Add a row after the last one; return the new end."""
        text = "" if detail is None else msgspec.json.encode(detail).decode()
        row = AuditRow(end.n + 1, self._db.now_ms(), who, did, what, text, "")
        new = AuditHead(row.n, _hash(row, end.hash))
        await db.execute(
            "INSERT INTO audit (n, at_ms, who, did, what, detail, hash) VALUES (?,?,?,?,?,?,?)",
            *(row.n, row.at_ms, who, did, what, text, new.hash),
        )
        return new

    async def _lost(self, end: AuditHead, db: Sql) -> dict[str, Any] | None:
        """Return what is wrong if the log does not end with the row that was signed last."""
        try:
            head = await self._stored_head(db)
        except KeyringError as error:
            return {"has": end.n, "head": str(error)}
        return None if head == end else {"had": head.n, "has": end.n}

    async def rows(
        self, *, before: int = 0, limit: int = 100, what: str = "", find: str = ""
    ) -> list[AuditRow]:
        """Return rows, the newest first.

        Args:
            what: Only rows about this subject.
            find: Only rows with this person or subject, or whose action begins with it.
        """
        conditions: list[str] = ["n < ?"]
        values: list[Any] = [before or 1 << 60]
        if what:
            conditions.append("what = ?")
            values.append(what)
        if find:
            conditions.append("(who = ? OR what = ? OR substr(did, 1, ?) = ?)")
            values += (find, find, len(find), find)
        sql = f"SELECT * FROM audit WHERE {' AND '.join(conditions)} ORDER BY n DESC LIMIT ?"
        found = await self._db.fetch(sql, *values, limit)
        return [msgspec.convert(row, AuditRow) for row in found]

    async def verify(self) -> str:
        """Return what is wrong with the log; empty if nothing is."""
        checked = Checked("", 0, is_done=False)
        while not checked.trouble and not checked.is_done:
            checked = await self.check(checked.upto)
        return checked.trouble

    async def check(self, after: int = 0, most: int = MOST_CHECKED) -> Checked:
        """Check the rows after one that was checked before, not more than `most` of them; at the
        end of the log that nothing is missing there.
        """
        try:
            heads = [await self._stored_head(self._db), self._kept]
        except KeyringError as error:
            return Checked(f"the end of the log: {error}", after, is_done=True)
        n, before = after, await self._hash_of(after)
        if before is None:
            return Checked(f"row {after} is missing", after, is_done=True)
        if early := await self._db.fetch_one("SELECT n FROM audit WHERE n < 1 LIMIT 1"):
            return Checked(f"row {early['n']} was added before the first", after, is_done=True)
        loop = asyncio.get_running_loop()
        while n < after + most:  # in pages: the log may be larger than the memory
            began_s = loop.time()
            rows = await self._db.fetch(
                "SELECT * FROM audit WHERE n > ? ORDER BY n LIMIT ?", n, PAGE
            )
            for found in rows:
                row, n = msgspec.convert(found, AuditRow), n + 1
                if row.n != n:
                    return Checked(f"row {n} is missing", n, is_done=True)
                if _hash(row, before) != row.hash:
                    return Checked(f"row {n} was changed", n, is_done=True)
                if any(head.n == n and head.hash != row.hash for head in heads):
                    return Checked(f"row {n} is not the one that was signed", n, is_done=True)
                before = row.hash
            if len(rows) < PAGE:
                ends = max(head.n for head in heads)
                if ends > n:
                    trouble = f"the log ended with row {ends}; rows after {n} are missing"
                    return Checked(trouble, n, is_done=True)
                return Checked(await self._unsigned(n), n, is_done=True)
            await asyncio.sleep(PAUSE * (loop.time() - began_s))
        return Checked("", n, is_done=False)

    async def _unsigned(self, n: int) -> str:
        """Return what is wrong if row `n` was added without a signature. The head is read after the
        row: hubs store both together, and may have added more meanwhile.
        """
        try:
            signed = (await self._stored_head(self._db)).n
        except KeyringError as error:
            return f"the end of the log: {error}"
        return f"rows after {signed} were not signed" if signed < n else ""

    async def _hash_of(self, n: int) -> str | None:
        """Return the hash of a row, empty before the first; None if the row is not there."""
        if not n:
            return ""
        row = await self._db.fetch_one("SELECT hash FROM audit WHERE n = ?", n)
        return str(row["hash"]) if row is not None else None

    async def _stored_head(self, db: Sql | Database) -> AuditHead:
        row = await db.fetch_one("SELECT signed FROM audit_head")
        if row is None:
            raise KeyringError("its signature is missing")
        if not row["signed"] and await db.fetch_one("SELECT n FROM audit LIMIT 1"):
            raise KeyringError("its signature was taken away")
        return self._opened(row["signed"])

    def _opened(self, signed: str) -> AuditHead:
        if not signed:
            return NOTHING  # nothing was ever written
        try:
            return msgspec.convert(self._keyring().verify(signed), AuditHead)
        except msgspec.ValidationError:
            raise KeyringError("its signature is not of the end of a log") from None

    def _write_file(self, signed: str) -> None:
        if self._file is None:
            return
        # Several hubs of one database may share the folder.
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            private_folder(self._file.parent)
            with open(new, "w", opener=private_opener) as out:
                out.write(signed + "\n")
            new.replace(self._file)
        except OSError as error:
            log_.warning("%s can't be written: %s", self._file, error.strerror)

    def _read_file(self) -> AuditHead:
        if self._file is None:
            return NOTHING
        try:
            return self._opened(self._file.read_text().strip())
        except FileNotFoundError:
            return NOTHING
        except (OSError, ValueError, KeyringError) as error:
            log_.warning(
                "%s can't be read, so the audit log is not compared with it: %s", self._file, error
            )
            return NOTHING


def _head_file(folder: Path, db: Database) -> Path:
    """Return where the head of a database's log is kept. Hubs of several databases may share a
    folder, and a folder may be moved with the file of its database.
    """
    id_ = db.id
    if not db.is_shared:
        with contextlib.suppress(ValueError):  # on Windows they may be on two drives
            id_ = os.path.relpath(id_, folder.absolute())
    return folder / HEAD_FILE.format(hashlib.sha256(id_.encode()).hexdigest()[:8])


def _hash(row: AuditRow, before: str) -> str:
    body = [before, row.n, row.at_ms, row.who, row.did, row.what, row.detail]
    return hashlib.sha256(msgspec.json.encode(body)).hexdigest()
