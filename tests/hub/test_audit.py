"""The audit log: what was done to it shows, wherever it was done."""

import base64
import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord.hub.access import SYSTEM
from accord.store import Database, Sql
from tests.hub.hubs import Desk, hub_at, serving_card
from tests.hub.test_db import opened
from tests.processes import until


async def trouble(desk: Desk) -> Any:
    return (await desk.call("GET", "/audit:verify")).body["trouble"]


async def test_the_audit_log_shows_what_was_done_to_it(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        await desk.call("POST", "/agents/baker:suspend")
        await desk.call("POST", "/agents/baker:resume")
        rows = (await desk.call("GET", "/audit")).body["rows"]
        assert [row["did"] for row in rows][:2] == ["agent.approved", "agent.suspended"]
        assert (await desk.call("GET", "/audit:verify")).body["whole"] is True
        await desk.hub.db.execute("UPDATE audit SET who = 'nobody' WHERE n = 2")
        assert (await desk.call("GET", "/audit:verify")).body["trouble"] == "row 2 was changed"
        await desk.hub.db.execute("DELETE FROM audit WHERE n = 2")
        assert (await desk.call("GET", "/audit:verify")).body["trouble"] == "row 2 is missing"


@pytest.mark.parametrize("at", ["before the first", "after the last"])
async def test_a_row_that_no_hub_has_written_is_found(tmp_path, store, at):
    """Its hash is right: everybody can make one. Nobody else can sign the end of the log."""
    async with hub_at(tmp_path, **store) as desk:
        await desk.call("POST", "/teams", {"name": "hr"})
        [last] = await desk.hub.audit.rows(limit=1)
        n, before = (last.n + 1, last.hash) if at == "after the last" else (0, "")
        body = [before, n, 1, "ada", "agent.add", "hr", ""]
        digest = hashlib.sha256(msgspec.json.encode(body)).hexdigest()
        await desk.hub.db.execute(
            "INSERT INTO audit (n, at_ms, who, did, what, detail, hash) VALUES (?,?,?,?,?,?,?)",
            *(*body[1:], digest),
        )
        found = "row 0 was added" if not n else f"rows after {last.n} were not signed"
        assert found in await trouble(desk)


async def test_a_long_audit_log_is_checked_to_its_end(tmp_path, store):
    """It is read in pages."""
    async with hub_at(tmp_path, **store) as desk:

        async def write(db):
            for n in range(1100):
                await desk.hub.audit.write("mia", "test", str(n), within=db)

        await desk.hub.db.write(write)
        assert (await desk.call("GET", "/audit:verify")).body["whole"] is True
        await desk.hub.db.execute("UPDATE audit SET who = 'nobody' WHERE n = 1050")
        assert (await desk.call("GET", "/audit:verify")).body["trouble"] == "row 1050 was changed"
        for n in (501, 500):  # at the border of a page
            await desk.hub.db.execute("DELETE FROM audit WHERE n = ?", n)
            trouble = (await desk.call("GET", "/audit:verify")).body["trouble"]
            assert trouble == f"row {n} is missing"


async def fill(desk: Desk, rows: int = 5) -> None:
    for n in range(rows):
        await desk.hub.audit.write("mia", "test", str(n))


async def test_rows_that_are_taken_from_the_end_are_missed(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk:
        await fill(desk)
        assert await trouble(desk) == ""
        [newest] = await desk.hub.audit.rows(limit=1)
        await desk.hub.db.execute("DELETE FROM audit WHERE n > ?", newest.n - 2)
        wanted = f"the log ended with row {newest.n}; rows after {newest.n - 2} are missing"
        assert await trouble(desk) == wanted
        await desk.hub.db.execute("DELETE FROM audit")
        assert await trouble(desk) == f"the log ended with row {newest.n}; rows after 0 are missing"


async def test_rows_that_are_taken_from_the_end_are_missed_by_the_next_row(tmp_path, store):
    """Its head is a new one, and would hide what the last head shows."""
    async with hub_at(tmp_path, **store) as desk:
        for spoil, said in (
            ("DELETE FROM audit WHERE n = 0", '"had":'),  # the head stays as it was
            ("UPDATE audit_head SET signed = ''", "was taken away"),
            ("DELETE FROM audit_head", "is missing"),
        ):
            await fill(desk)
            [newest] = await desk.hub.audit.rows(limit=1)
            await desk.hub.db.execute("DELETE FROM audit WHERE n > ?", newest.n - 2)
            await desk.hub.db.execute(spoil)
            await fill(desk, 2)
            rows = await desk.hub.audit.rows(limit=3)
            assert [row.did for row in rows] == ["test", "test", "audit.shortened"]
            assert rows[2].n == newest.n - 1
            assert said in rows[2].detail


async def test_a_head_needs_the_keys_of_the_hub(tmp_path, store):
    """Neither without a signature, nor with one of another row or another key."""
    async with hub_at(tmp_path, **store) as desk:
        await fill(desk)
        head = await desk.hub.db.fetch_one("SELECT signed FROM audit_head")
        forged = head["signed"][:-6] + "AAAAAA"
        other = desk.hub.app.keyring.sign({"iss": "hub", "aud": "a webhook"})
        for signed, said in (
            ("", "taken away"),
            (forged, "no key of this keyring signed this"),
            ("x.y.z", "no key of this keyring signed this"),
            (other, "not of the end of a log"),
        ):
            await desk.hub.db.execute("UPDATE audit_head SET signed = ?", signed)
            assert said in await trouble(desk)
        await desk.hub.db.execute("UPDATE audit_head SET signed = ?", head["signed"])
        assert await trouble(desk) == ""
        # A chain of one's own, from the last row on, does not have the hash that was signed.
        await desk.hub.db.execute("DELETE FROM audit WHERE n = (SELECT MAX(n) FROM audit)")
        await desk.hub.audit.write("eve", "test", "another")
        await desk.hub.db.execute("UPDATE audit_head SET signed = ?", head["signed"])
        assert "is not the one that was signed" in await trouble(desk)


async def cut(db: Database, upto: int, head: str) -> None:
    """Take rows from the end, and put the head of that time in its place: as whoever can write the
    database may do, and as an older copy of it has.
    """

    async def write(db: Sql) -> None:
        await db.execute("DELETE FROM audit WHERE n > ?", upto)
        await db.execute("UPDATE audit_head SET signed = ?", head)

    await db.write(write)


async def test_an_older_log_with_its_own_head_is_noticed_at_the_next_start(tmp_path, store):
    async with hub_at(tmp_path, **store) as desk:
        await fill(desk, 3)
        old = await desk.hub.db.fetch_one("SELECT signed FROM audit_head")
        [last] = await desk.hub.audit.rows(limit=1)
        await fill(desk, 4)
    async with hub_at(tmp_path, **store) as desk:
        assert await trouble(desk) == "", "a restart changes nothing"
        assert "audit.shortened" not in [row.did for row in await desk.hub.audit.rows()]
    async with opened(desk.hub.settings.store) as db:
        await cut(db, last.n, old["signed"])
    async with hub_at(tmp_path, **store) as desk:
        [row] = [row for row in await desk.hub.audit.rows() if row.did == "audit.shortened"]
        assert row.detail == f'{{"had":{last.n + 4},"has":{last.n}}}'
        assert await trouble(desk) == ""


async def test_an_older_log_with_its_own_head_is_noticed_while_the_hub_runs(tmp_path, store):
    """Also if rows were added since, up to the number that the hub has seen and beyond."""
    async with hub_at(tmp_path, **store) as desk:
        for added in (0, 2, 9):
            await fill(desk, 3)
            old = await desk.hub.db.fetch_one("SELECT signed FROM audit_head")
            [last] = await desk.hub.audit.rows(limit=1)
            await fill(desk, 4)
            await kept(tmp_path, last.n + 4)
            await cut(desk.hub.db, last.n, old["signed"])
            await fill(desk, added)
            await kept(tmp_path, last.n + added + 1)
            found = [row for row in await desk.hub.audit.rows() if row.did == "audit.shortened"]
            assert found[0].n > last.n
            assert await trouble(desk) == ""


async def test_hubs_of_two_databases_in_one_folder_keep_the_ends_of_both_logs(tmp_path):
    """One never takes the other's for its own: it would miss rows that were never there, and the
    other would not miss its own.
    """
    keys = {"key_file": str(tmp_path / "keys")}
    async with hub_at(tmp_path, **keys) as desk:
        await fill(desk, 3)
        old = await desk.hub.db.fetch_one("SELECT signed FROM audit_head")
        [last] = await desk.hub.audit.rows(limit=1)
        await fill(desk, 4)
    async with hub_at(tmp_path, store=f"sqlite:///{tmp_path}/other.db", **keys) as other:
        assert "audit.shortened" not in [row.did for row in await other.hub.audit.rows()]
    async with opened(desk.hub.settings.store) as db:
        await cut(db, last.n, old["signed"])
    async with hub_at(tmp_path, **keys) as desk:
        assert "audit.shortened" in [row.did for row in await desk.hub.audit.rows()]


async def kept(folder: Path, n: int) -> None:
    """Wait until row `n` is the last one that the hub has kept in its folder."""

    def is_kept() -> bool:
        with contextlib.suppress(ValueError):  # it is not there yet
            [file] = folder.glob("hub-*.audit")
            body = file.read_text().split(".")[1]
            return json.loads(base64.urlsafe_b64decode(body + "=="))["n"] == n
        return False

    await until(is_kept)


async def test_a_log_is_checked_piece_by_piece(tmp_path):
    async with hub_at(tmp_path) as desk:
        await fill(desk, 20)
        checked, pieces = await desk.hub.audit.check(0, most=1), 1
        while not checked.is_done:
            checked, pieces = await desk.hub.audit.check(checked.upto, most=1), pieces + 1
        assert (checked.trouble, pieces) == ("", 1), "a page is read whole"
        beyond = (await desk.call("GET", "/audit:verify?after=999")).body
        assert (beyond["whole"], beyond["trouble"]) == (False, "row 999 is missing")


async def test_a_key_that_was_rotated_still_opens_the_head(tmp_path):
    async with hub_at(tmp_path) as desk:
        await fill(desk)
        for _ in range(3):
            desk.hub.app.keyring.rotate()
        assert await trouble(desk) == ""


async def test_what_was_counted_of_refusals_is_stored_when_a_hub_stops(tmp_path):
    async with hub_at(tmp_path) as desk:
        for _ in range(30):
            desk.hub.refusals.count(SYSTEM, "baker")
    async with hub_at(tmp_path) as desk:
        found = [row for row in await desk.hub.audit.rows() if row.did == "refused"]
        assert [row.detail for row in found] == ['{"requests":30,"what":{"baker":30}}']
