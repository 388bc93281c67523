"""Large files are stored once, and given back as they were given."""

import contextlib
import random
import sqlite3
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from accord.store.contract import Ages, Leaves, Query
from accord.store.sqlite.large_values import LONG, cut, fill

from .conftest import COMPLETED, ME, WORKING, Box

IO = Path("/proc/self/io")
FILE, OTHER = b"A" * LONG, b"B" * (LONG + 1)
TASK = b'{"id":"t","status":{"state":"%b"},"contextId":"c","history":[{"raw":"%b"},{"text":"%b"}]}'
MADE = b'c{"task":' + TASK % (b"TASK_STATE_SUBMITTED", FILE, b"\\u00e4") + b"}"
HEAD = TASK % (b"TASK_STATE_COMPLETED", FILE, b"\\u00e4")
STATUS = b'w,"status":{"state":"TASK_STATE_COMPLETED"}}}'
ARTIFACT = b'a,"artifact":{"artifactId":"x","parts":[{"raw":"%b"}]}}}' % OTHER
DATA = b"\n".join([MADE, b"r[1]", ARTIFACT, STATUS])
ARTIFACTS = b'[{"artifactId":"x","parts":[{"raw":"%b"}]}]' % OTHER


def ended(box: Box, id: str = "t", **more: Any) -> Any:
    return box.create(
        id,
        **(
            {
                "state": COMPLETED,
                "pos": 4,
                "seq": 3,
                "data": DATA,
                "head": HEAD,
                "artifacts": ARTIFACTS,
            }
            | more
        ),
    )


async def test_files_count_for_the_size_of_a_page(box: Box) -> None:
    """A page is as large as what it is sent as, wherever that is kept; artifacts nobody asked for
    are not sent.
    """
    await box.commit(*(ended(box, f"t{n}", at=1_000 + n) for n in range(3)))
    for has_artifacts, each in ((True, len(HEAD) + len(ARTIFACTS)), (False, len(HEAD))):
        asked: dict[str, Any] = {"namespace": ME, "limit": 9, "has_artifacts": has_artifacts}
        assert [r.id for r in (await box.store.page(Query(**asked, size=2 * each))).tasks] == [
            "t2",
            "t1",
        ]
        assert [r.id for r in (await box.store.page(Query(**asked, size=2 * each - 1))).tasks] == [
            "t2"
        ]


async def test_a_task_with_files_is_read_back_as_it_was_written(box: Box) -> None:
    """By its id, in a list, and row by row."""
    item = ended(box)
    await box.commit(item)
    record = await box.store.load(ME, "t")
    (listed,) = (await box.store.page(Query(namespace=ME, limit=9))).tasks
    assert [(r.head, r.artifacts, r.rows) for r in (record, listed)] == [(HEAD, ARTIFACTS, [])] * 2
    assert [row.data for row in await box.store.read({item.key: 0})] == [DATA]
    assert (item.data, item.head, item.artifacts) == (DATA, HEAD, ARTIFACTS), (
        "a commit that fails is given again as it is"
    )


@pytest.mark.skipif(not IO.exists(), reason="what a process has read is told by Linux")
async def test_a_file_is_stored_without_reading_others(tmp_path: Path) -> None:
    """Each costs its own size, not that of those that stand beside it in the table."""
    box = Box(tmp_path / "tasks.db")
    await box.open()
    file = b"A" * (1 << 20)
    data, head = MADE.replace(FILE, file), HEAD.replace(FILE, file)
    items = [ended(box, f"t{n}", data=data, head=head, artifacts=b"[]") for n in range(8)]
    read = [_bytes_read()]
    for item in items:
        await box.commit(item)
        read.append(_bytes_read())
    await box.close()
    # Of every few commits one has the write-ahead log folded into the database, which is read.
    assert min(after - before for before, after in pairwise(read[4:])) < len(file) // 2


def _bytes_read() -> int:
    (line,) = [line for line in IO.read_text().splitlines() if line.startswith("rchar:")]
    return int(line.split()[1])


async def test_files_that_come_later_are_beside_those_that_were_there(box: Box) -> None:
    """Every commit of a task may bring some; each is found under its own number."""
    first = ended(box)
    await box.commit(first)
    await box.store.claim(ME, "t", reopen=True)
    second = box.append(first, state=WORKING, data=b"mx")
    await box.commit(second)
    more = ARTIFACT.replace(b"B", b"C")
    both = ARTIFACTS[:-1] + b"," + ARTIFACTS[1:].replace(b"B", b"C")
    await box.commit(
        box.append(second, data=more, state=COMPLETED, leaves=Leaves.END, head=HEAD, artifacts=both)
    )
    record = await box.store.load(ME, "t")
    assert (record.head, record.artifacts) == (HEAD, both)
    assert [row.data for row in await box.store.read({first.key: 0})] == [DATA, b"mx", more]


async def test_the_log_goes_and_the_files_stay_until_the_task_goes(box: Box) -> None:
    item = ended(box)
    await box.commit(item)
    await box.store.purge(Ages(events_ms=1), 10)
    assert await box.store.read({item.key: 0}) == []
    assert (await box.store.load(ME, "t")).head == HEAD
    await box.store.purge(Ages(tasks_ms=1, events_ms=1), 10)
    assert await box.store.load(ME, "t") is None
    if box.path is not None:
        with contextlib.closing(sqlite3.connect(box.path)) as db, db:
            assert db.execute("SELECT count(*) FROM pieces").fetchone() == (0,)


async def test_a_file_is_in_the_database_once(file_box: Box) -> None:
    assert file_box.path is not None
    await file_box.commit(ended(file_box))
    await file_box.restart()
    assert (
        sum(
            path.read_bytes().count(FILE[:2_000]) for path in file_box.path.parent.glob("tasks.db*")
        )
        <= len(FILE) // 2_000
    )


async def test_a_task_whose_file_has_gone_is_read_by_nobody_and_hides_no_other(
    file_box: Box,
) -> None:
    """One broken row: what is left of it is no JSON, which whoever shows it notices."""
    assert file_box.path is not None
    await file_box.commit(
        ended(file_box), file_box.create("u", state=COMPLETED, head=b'{"id":"u"}')
    )
    with contextlib.closing(sqlite3.connect(file_box.path)) as db, db:
        db.execute("DELETE FROM pieces")
    found = {
        record.id: record.head
        for record in (await file_box.store.page(Query(namespace=ME, limit=9))).tasks
    }
    assert found["u"] == b'{"id":"u"}'
    assert b"\0" in found["t"]


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_cut_can_be_filled_again(seed: int) -> None:
    """Pieces alike, pieces twice, in the log only, in the snapshot only, beside each other."""
    dice = random.Random(seed)
    words = [b'"', b'":"', b"x" * (LONG - 1), b"y" * LONG, b"z" * LONG + b"\\n", b"", b"n"]
    texts = [b"".join(dice.choices(words, k=dice.randint(0, 6))) for _ in range(4)]
    lines = [dice.choice(texts) + dice.choice(texts) for _ in range(4)]
    snapshot = [dice.choice(texts) + b'"' + dice.choice(texts), dice.choice(texts)]
    short, rest, pieces = cut(lines, snapshot, 7)
    again = [fill(text, lambda n: bytes(pieces[n - 7])) for text in [*short, *rest]]
    assert again == [*lines, *snapshot]
