"""Large files are stored once, and given back as they were given."""

import contextlib
import random
import sqlite3

import pytest
from msgspec.structs import replace

from accord.store import Ages, Query, Scope, Write, open_store
from accord.store.pieces import LONG, cut, fill
from accord.store.short import lengthen

ME = Scope("", "me")
FILE, OTHER = b"A" * LONG, b"B" * (LONG + 1)
TASK = b'{"id":"t","status":{"state":"%b"},"contextId":"c","history":[{"raw":"%b"},{"text":"%b"}]}'
MADE = b'{"task":' + TASK % (b"TASK_STATE_SUBMITTED", FILE, b"\\u00e4") + b"}"
HEAD = TASK % (b"TASK_STATE_COMPLETED", FILE, b"\\u00e4")
STATUS = b'{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}'
ARTIFACT = b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"x","parts":[{"raw":"%b"}]}}}' % OTHER
SHORT = [MADE, b't["m"]', b"a" + ARTIFACT[47:], b"w" + STATUS[45:]]
ROW = b"\n".join([b"v" + MADE, b't["m"]', b"v" + ARTIFACT, b"v" + STATUS])
ARTIFACTS = b'[{"artifactId":"x","parts":[{"raw":"%b"}]}]' % OTHER


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = open_store("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    yield store
    await store.close()


def ended(store, **more):
    stands = {"state": 3, "scope": ME, "at_ms": 1_000, "seq": 3, "pos": 3, "head": HEAD, "artifacts": ARTIFACTS}
    new = {"is_new": True, "id": "t", "context_id": "c", "about": b"{}"}
    return Write(**({"key": store.new_key(), "row": 1, "lines": SHORT} | stands | new | more))


async def test_files_count_for_the_size_of_a_page(store):
    """A page is as large as what it is sent as, wherever that is kept; artifacts nobody asked for are not sent."""
    await store.commit([ended(store, id=f"t{n}", at_ms=1_000 + n) for n in range(3)], [])
    for has_artifacts, each in ((True, len(HEAD) + len(ARTIFACTS)), (False, len(HEAD))):
        asked = Query(scope=ME, limit=9, size=2 * each, has_artifacts=has_artifacts)
        assert [r.id for r in (await store.page(asked)).tasks] == ["t2", "t1"]
        assert [r.id for r in (await store.page(replace(asked, size=2 * each - 1))).tasks] == ["t2"]


async def test_a_task_with_files_is_read_back_as_it_was_written(store):
    """By its id, in a list, and event by event."""
    write = ended(store)
    await store.commit([write], [])
    record = await store.load(ME, "t")
    (listed,) = (await store.page(Query(scope=ME, limit=9))).tasks
    assert [(r.head, r.artifacts, r.tail) for r in (record, listed)] == [(HEAD, ARTIFACTS, [])] * 2
    assert await store.rows(write.key, 0) == [(1, ROW)]
    assert write.lines is SHORT, "a commit that fails is tried again with what it was given"
    assert (write.head, write.artifacts) == (HEAD, ARTIFACTS)


async def test_what_comes_later_is_added_to_what_was_put_away(store):
    """A task that has ended may be begun anew: all of it is there, and what is new is too."""
    write = ended(store)
    await store.commit([write], [])
    later = {"state": 2, "scope": ME, "was": 3, "at_ms": 2_000, "seq": 4, "pos": 5}
    await store.commit([Write(write.key, 4, [b"mx", b"w" + STATUS[45:]], **later)], [])
    record = await store.load(ME, "t")
    assert (record.head, record.tail) == (HEAD, [b"mx", b"v" + STATUS])
    both = [(1, ROW), (4, b"mx\nv" + STATUS)]
    assert await store.rows(write.key, 0) == both
    again = {"state": 3, "scope": ME, "was": 2, "at_ms": 3_000, "seq": 5, "pos": 6, "head": HEAD, "artifacts": ARTIFACTS}
    await store.commit([Write(write.key, 5, [b"a" + ARTIFACT[47:]], **again)], [])
    assert (await store.load(ME, "t")).artifacts == ARTIFACTS
    assert await store.rows(write.key, 0) == [*both, (5, b"v" + ARTIFACT)]


async def test_the_log_goes_and_the_files_stay_until_the_task_goes(store, tmp_path):
    write = ended(store)
    await store.commit([write], [])
    await store.purge(Ages(tasks_ms=0, events_ms=5_000, keys_ms=0), 10)
    assert await store.rows(write.key, 0) == []
    assert (await store.load(ME, "t")).head == HEAD
    await store.purge(Ages(tasks_ms=5_000, events_ms=5_000, keys_ms=0), 10)
    assert await store.load(ME, "t") is None
    if (path := tmp_path / "tasks.db").exists():
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            assert db.execute("SELECT count(*) FROM pieces").fetchone() == (0,)


async def test_a_file_is_in_the_database_once(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    await store.commit([ended(store)], [])
    await store.close()
    assert sum(path.read_bytes().count(FILE[:2_000]) for path in tmp_path.glob("tasks.db*")) <= len(FILE) // 2_000


async def test_a_task_whose_file_has_gone_is_read_by_nobody_and_hides_no_other(tmp_path):
    """One broken row: what is left of it is no JSON, which whoever shows it notices."""
    store = open_store(f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    await store.commit([ended(store), ended(store, id="u", head=b'{"id":"u"}', artifacts=b"[]", lines=[b"x"])], [])
    with contextlib.closing(sqlite3.connect(tmp_path / "tasks.db")) as db, db:
        db.execute("DELETE FROM pieces")
    found = {record.id: record.head for record in (await store.page(Query(scope=ME, limit=9))).tasks}
    await store.close()
    assert found["u"] == b'{"id":"u"}'
    assert b"\0" in found["t"]


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_cut_can_be_filled_again(seed):
    """Pieces alike, pieces twice, in the log only, in the snapshot only, beside each other."""
    dice = random.Random(seed)
    words = [b'"', b'":"', b"x" * (LONG - 1), b"y" * LONG, b"z" * LONG + b"\\n", b"", b"n"]
    texts = [b"".join(dice.choices(words, k=dice.randint(0, 6))) for _ in range(4)]
    lines = [dice.choice(texts) + dice.choice(texts) for _ in range(4)]
    snapshot = [dice.choice(texts) + b'"' + dice.choice(texts), dice.choice(texts)]
    short, rest, pieces = cut(lines, snapshot, 7)
    again = [fill(text, lambda n: bytes(pieces[n - 7])) for text in [*short, *rest]]
    assert again == [*lines, *snapshot]


def test_lines_are_given_back_in_full():
    """Ids a client chose may have anything in them."""
    text = lengthen(b'{"task":{}}\nw,"status":{}}}\nsw\na,"artifact":{}}}\nmw', 'a"b', "ü")
    ids = '{"taskId":"a\\"b","contextId":"ü"'.encode()
    assert text.split(b"\n") == [
        b'v{"task":{}}',
        b'v{"statusUpdate":' + ids + b',"status":{}}}',
        b"sw",
        b'v{"artifactUpdate":' + ids + b',"artifact":{}}}',
        b"mw",
    ]
