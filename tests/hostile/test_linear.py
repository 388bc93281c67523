"""What a long task costs the disk: in proportion to what it says (promise D7).

Counted are the bytes the server process gives to write calls (`wchar` of /proc/<pid>/io) from its
start to its end, the folding of the write-ahead log into the database included: the same on every
file system, and repeatable. Answers leave by other calls, and next to nothing is asked.
"""

import contextlib
import sqlite3

import pytest

from tests.drive import say
from tests.hostile.process import served
from tests.reliability.harness import report, size

pytestmark = pytest.mark.alone

LENGTH = 2_000


async def cost(folder, count, pace):
    """Return the bytes written for `count` artifacts, and the rows they were stored in."""
    folder.mkdir()
    async with served(folder) as server:
        client = server.door()
        await client.send(
            say(
                f"{count} {LENGTH} {pace}",
                metadata={"skill": "make"},
                configuration={"returnImmediately": True},
            )
        )
        await made(client)
        written = await server.stop()
    with contextlib.closing(sqlite3.connect(folder / "accord.db")) as db, db:
        (stored,) = db.execute("SELECT length(artifacts) FROM tasks WHERE state = 3").fetchone()
        (rows,) = db.execute("SELECT count(*) FROM events").fetchone()
    assert stored > count * LENGTH
    return written, rows


async def made(client):
    """Return when the artifacts are made."""
    while True:
        with contextlib.suppress(TimeoutError):  # the door's patience is shorter than a slow disk's
            return await client.send(say("?", metadata={"skill": "wait"}))


@pytest.mark.parametrize(("pace", "most"), [("burst", 9), ("each", 21)])
async def test_bytes_written_grow_with_what_is_said_and_no_faster(tmp_path, pace, most):
    """At most `most` times the payload, of eight times the artifacts as of few (a2a-sdk, 1,000:
    1,559 times).

    In a burst that is the log (once the payload), a snapshot whenever the task has tripled (at most
    one and a half times), the one at the end (once), all of it written twice, to the write-ahead
    log and to the file, and some of each page. How much it is depends on how the commits fell.
    """
    counts = tuple(size(n, 2 * n) for n in (125, 1_000))
    costs = [await cost(tmp_path / str(count), count, pace) for count in counts]
    times = [written / (count * LENGTH) for count, (written, _) in zip(counts, costs, strict=True)]
    rows = [rows for _, rows in costs]
    report(
        {"burst": "D7 in a burst", "each": "D7 one by one"}[pace],
        artifacts=counts,
        times_the_payload=[round(t, 2) for t in times],
        commits=rows,
    )
    assert max(times) <= most
    assert pace == "burst" or all(n >= count for n, count in zip(rows, counts, strict=True)), (
        "not one by one"
    )
    assert max(times) <= 2 * min(times), "more than in proportion"
