"""What every store promises, asked of each of them."""

import asyncio
import sqlite3
import subprocess
import sys

import pytest

from accord.store import Ages, Fenced, Keep, Query, Scope, Write, open_store

WORKING, COMPLETED, FAILED, INPUT_REQUIRED = 2, 3, 4, 6
ME, OTHER = Scope("", "me"), Scope("", "other")


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = open_store("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    yield store
    await store.close()


def write(
    store, id="t1", *, key=None, scope=ME, state=COMPLETED, was=0, at=1000, seq=1, pos=1, row=1, lines=(b'v{"task":{}}',), **more
):
    """One commit's share of one task; new unless a key is given."""
    more.setdefault("head", b"{}" if key is None else None)
    return Write(
        key=key if key is not None else store.new_key(),
        scope=scope,
        id=id,
        context_id=more.pop("context", "c1"),
        is_new=key is None,
        state=state,
        was=was,
        at_ms=at,
        seq=seq,
        pos=pos,
        row=row,
        lines=list(lines),
        about=b"{}",
        artifacts=b"[]",
        **more,
    )


def query(**more):
    return Query(**({"scope": ME, "limit": 50} | more))


async def test_a_stored_task_is_found_in_its_scope_only(store):
    """The scope is part of the key: another owner's task is no task (spec AZN-1)."""
    await store.commit([write(store)], [])
    assert (await store.load(ME, "t1")).state == COMPLETED
    assert await store.load(OTHER, "t1") is None
    assert await store.load(Scope("tenant", "me"), "t1") is None


async def test_two_scopes_may_use_the_same_id(store):
    """Client-chosen ids (0.1) of two callers don't meet."""
    await store.commit([write(store), write(store, scope=OTHER, state=FAILED)], [])
    assert [(await store.load(s, "t1")).state for s in (ME, OTHER)] == [COMPLETED, FAILED]


async def test_lines_after_the_snapshot_come_with_the_task(store):
    """Loading is the snapshot and the lines since that change the task, in order; private ones are read with the log."""
    first = write(store, state=WORKING, lines=[b"v1", b"ta"])
    await store.commit([first], [])
    more = {"key": first.key, "state": WORKING, "was": WORKING}
    await store.commit([write(store, **more, pos=2, lines=[b"mx", b"sa"])], [])
    await store.commit([write(store, **more, pos=4, seq=2, row=2, lines=[b"v2", b"q1", b"my", b"sb"])], [])
    await store.commit([], [], [(first.key, 2, b"sc")])
    record = await store.load(ME, "t1")
    assert record.is_stale
    assert record.tail == [b"mx", b"v2", b"my"]


async def test_private_lines_alone_leave_the_snapshot_fresh(store):
    """The task stands as it did: it is shown as stored, and its log holds the lines."""
    first = write(store, state=WORKING)
    await store.commit([first], [])
    await store.commit([], [], [(first.key, 1, b"sa")])
    await store.commit([], [], [(first.key, 1, b"sb")])
    record = await store.load(ME, "t1")
    assert (record.is_stale, record.tail) == (False, [])
    assert await store.rows(first.key, 0) == [(1, b'v{"task":{}}')]
    assert await store.notes(first.key) == [(1, b"sa"), (1, b"sb")]


async def test_a_new_snapshot_leaves_no_tail(store):
    first = write(store, state=WORKING)
    await store.commit([first], [])
    await store.commit([write(store, key=first.key, was=WORKING, pos=2, seq=2, row=2, lines=[b"v2"], head=b'{"x":1}')], [])
    record = await store.load(ME, "t1")
    assert (record.head, record.tail, record.is_stale) == (b'{"x":1}', [], False)


async def test_rows_are_read_from_the_cursor_on(store):
    """A reader at number n gets the row that holds n + 1, and all after it."""
    first = write(store, state=WORKING, lines=[b"v1", b"v2"], seq=2, pos=2)
    await store.commit([first], [])
    await store.commit([write(store, key=first.key, state=WORKING, was=WORKING, seq=2, pos=3, row=2, lines=[b"mA"])], [])
    await store.commit([write(store, key=first.key, state=WORKING, was=WORKING, seq=2, pos=4, row=2, lines=[b"mB"])], [])
    await store.commit([write(store, key=first.key, state=WORKING, was=WORKING, seq=3, pos=5, row=3, lines=[b"v3"])], [])
    assert await store.rows(first.key, 0) == [(1, b"v1\nv2"), (2, b"mA\nmB"), (3, b"v3")]
    assert await store.rows(first.key, 2) == [(2, b"mA\nmB"), (3, b"v3")]
    assert await store.rows(first.key, 3) == [(3, b"v3")]


async def test_long_logs_come_in_pieces_that_join(store):
    first = write(store, state=WORKING, lines=[b"v1"])
    await store.commit([first], [])
    for n in range(2, 601):
        await store.commit([write(store, key=first.key, state=WORKING, was=WORKING, seq=n, pos=n, row=n, lines=[b"v%d" % n])], [])
    seen, after = [], 0
    while new := [(row, data) for row, data in await store.rows(first.key, after) if row > after]:
        seen += [row for row, _ in new]
        after = seen[-1]
    assert seen == list(range(1, 601))


async def test_pages_are_newest_first_and_do_not_overlap(store):
    """Ties in time are broken by the order of creation, so a cursor never skips or repeats (spec LST-3)."""
    await store.commit([write(store, f"t{i}", at=1000 + i // 3) for i in range(10)], [])
    first = await store.page(query(limit=4))
    second = await store.page(query(limit=4, before=first.next))
    third = await store.page(query(limit=4, before=second.next))
    ids = [r.id for page in (first, second, third) for r in page.tasks]
    assert ids == [f"t{i}" for i in range(9, -1, -1)]
    assert third.next is None
    assert first.total == 10


async def test_a_page_ends_before_it_holds_too_much(store):
    """One answer is made of it, and everyone waits while it is made. The token goes on, and the total is of all pages."""
    await store.commit([write(store, f"t{i}", at=1000 + i, head=b"{%b}" % (b" " * 998)) for i in range(5)], [])
    first = await store.page(query(size=2_500, has_artifacts=False))
    second = await store.page(query(size=2_500, has_artifacts=False, before=first.next))
    third = await store.page(query(size=2_500, has_artifacts=False, before=second.next))
    assert [[r.id for r in page.tasks] for page in (first, second, third)] == [["t4", "t3"], ["t2", "t1"], ["t0"]]
    assert [page.total for page in (first, second, third)] == [5, 5, 5]
    assert third.next is None


async def test_a_task_larger_than_a_page_has_one_of_its_own(store):
    """Else a list would never come past it."""
    await store.commit([write(store, f"t{i}", at=1000 + i, head=b"{%b}" % (b" " * 998)) for i in range(3)], [])
    seen, before = [], None
    while not seen or before:
        page = await store.page(query(size=10, before=before))
        before = page.next
        seen.append([r.id for r in page.tasks])
    assert seen == [["t2"], ["t1"], ["t0"]]


async def test_what_is_only_begun_has_its_place_on_a_page_that_ends_early(store):
    """Told and begun tasks are one list, and both are cut at the same place."""
    begun = write(store, "begun", state=WORKING, at=1001, lines=[b'v{"task":{"id":"begun","contextId":"c1"}}'], head=None)
    tasks = [write(store, f"t{at}", at=at, head=b"{%b}" % (b" " * 998)) for at in (1000, 1002)]
    await store.commit([tasks[0], begun, tasks[1]], [])
    first = await store.page(query(size=1_500, has_artifacts=False))
    second = await store.page(query(size=1_500, has_artifacts=False, before=first.next))
    assert [[r.id for r in page.tasks] for page in (first, second)] == [["t1002", "begun"], ["t1000"]]
    assert (first.total, second.next) == (3, None)


async def test_filters_are_anded_and_counted(store):
    await store.commit(
        [
            write(store, "a", context="c1", state=COMPLETED, at=1),
            write(store, "b", context="c1", state=FAILED, at=2),
            write(store, "c", context="c2", state=COMPLETED, at=3),
        ],
        [],
    )

    async def ids(**more):
        page = await store.page(query(**more))
        assert page.total == len(page.tasks)
        return [record.id for record in page.tasks]

    assert await ids(context_id="c1") == ["b", "a"]
    assert await ids(state=COMPLETED) == ["c", "a"]
    assert await ids(context_id="c1", state=COMPLETED) == ["a"]
    assert await ids(since_ms=2) == ["c", "b"]
    assert await ids(state=COMPLETED, since_ms=2) == ["c"]
    assert await ids(context_id="nowhere") == []


async def test_a_task_moves_in_lists_when_its_status_changes(store):
    old = write(store, "old", state=WORKING, at=1)
    await store.commit([old, write(store, "new", state=WORKING, at=2)], [])
    await store.commit([write(store, "old", key=old.key, state=COMPLETED, was=WORKING, at=3, seq=2, pos=2, row=2)], [])
    assert [r.id for r in (await store.page(query())).tasks] == ["old", "new"]
    assert (await store.page(query(state=WORKING))).total == 1
    assert (await store.page(query(state=COMPLETED))).total == 1


async def test_an_idempotency_key_is_kept_with_its_commit(store):
    task, keep = write(store), Keep(ME, "k", b"digest", 5000, task_id="t1")
    await store.commit([task], [keep])
    assert await store.kept(ME, "k", 4000) == keep
    assert await store.kept(ME, "k", 6000) is None
    assert await store.kept(OTHER, "k", 0) is None


async def test_a_restart_takes_over_what_was_submitted_or_working(tmp_path):
    """D4: what a dead process left running is found, once, and what waits for an authorization; questions are left alone."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    dead = open_store(url)
    await dead.open()
    await dead.commit([write(dead, str(n), state=n) for n in range(1, 9)], [])
    dead._lock.close()  # as the system does when a process is killed
    heir = open_store(url)
    await heir.open()
    assert [record.id for record in await heir.take_over(15_000)] == ["1", "2", "8"]
    await heir.commit([write(heir, "1", key=1, state=FAILED, was=1, seq=2, pos=2, row=2)], [])
    assert [record.id for record in await heir.take_over(15_000)] == ["2", "8"]
    await heir.close()
    await close_dead(dead)


async def test_a_task_that_is_only_begun_is_found_and_listed_like_others(store):
    """Nothing is told of it yet but that it was made: its log is all there is, and it has its place in every list."""
    made = (b'{"task":{"id":"t","contextId":"c"}}', b't["m",0]', b'w,"status":{"state":"TASK_STATE_WORKING"}}}')
    whole = b'v{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}'
    begun = write(store, "t", state=WORKING, at=1500, seq=2, pos=2, lines=made, head=None, context="c")
    await store.commit([write(store, "old", at=1000), begun, write(store, "new", at=2000)], [])
    record = await store.load(ME, "t")
    assert (record.state, record.head, record.artifacts, record.tail) == (WORKING, b'{"id":"t","contextId":"c"}', b"[]", [whole])
    assert [r.id for r in (await store.page(query())).tasks] == ["new", "t", "old"]
    assert [r.id for r in (await store.page(query(limit=1, before=(2000, 0)))).tasks] == ["t"]
    for more, total in (
        ({}, 3),
        ({"state": WORKING}, 1),
        ({"context_id": "c"}, 1),
        ({"since_ms": 1500}, 2),
        ({"state": FAILED}, 0),
    ):
        assert (await store.page(query(**more))).total == total, more
    assert (await store.stats()).tasks == {WORKING: 1, COMPLETED: 2}
    assert [lines.split(b"\n")[-1] for _, lines in await store.rows(begun.key, 0)] == [whole]

    await store.commit([], [], [(begun.key, 2, b"sx")])  # a step: nothing to tell
    assert (await store.page(query(state=WORKING))).total == 1
    end = {"state": COMPLETED, "at": 3000, "seq": 3, "pos": 3, "row": 3, "lines": (b'w,"status":{}}}',), "head": b'{"x":1}'}
    await store.commit([write(store, "t", key=begun.key, was_begun=True, context="c", **end)], [])
    record = await store.load(ME, "t")
    assert (record.state, record.head, record.is_stale, record.is_begun) == (COMPLETED, b'{"x":1}', False, False)
    assert [r.id for r in (await store.page(query())).tasks] == ["t", "new", "old"]
    assert (await store.stats()).tasks == {COMPLETED: 3}


async def test_a_task_that_is_only_begun_is_taken_over_and_its_number_not_given_again(tmp_path):
    url = f"sqlite:///{tmp_path}/tasks.db"
    dead = open_store(url)
    await dead.open()
    lines = (b'{"task":{"id":"t1","contextId":"c1"}}',)
    await dead.commit([write(dead, state=WORKING, lines=lines, head=None)], [])
    dead._lock.close()
    heir = open_store(url)
    await heir.open()
    assert heir.new_key() == 2
    (record,) = await heir.take_over(15_000)
    assert (record.id, record.is_begun, record.head) == ("t1", True, b'{"id":"t1","contextId":"c1"}')
    await heir.commit([write(heir, key=1, state=FAILED, was_begun=True, seq=2, pos=2, row=2, head=b"{}")], [])
    assert await heir.take_over(15_000) == []
    assert [(r.id, r.state) for r in (await heir.page(query())).tasks] == [("t1", FAILED)]
    await heir.close()
    await close_dead(dead)


async def test_a_stale_owner_may_not_write(tmp_path):
    """D5: a process taken for dead that comes back is refused by its fencing number, and stores nothing."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    stale = open_store(url)
    await stale.open()
    for round_ in range(20):
        await stale.commit([write(stale, f"mine-{round_}")], [])
        stale._lock.close()
        heir = open_store(url)
        await heir.open()
        await heir.take_over(15_000)
        with pytest.raises(Fenced):
            await stale.commit([write(stale, f"late-{round_}")], [])
        with pytest.raises(Fenced):
            await stale.beat()
        await heir.beat()
        assert await heir.load(ME, f"late-{round_}") is None
        await close_dead(stale)
        stale = heir
    await stale.close()


async def close_dead(store):
    """Let go of a store whose process is pretended dead: what it holds, not what it says."""
    await store._worker.stop()
    store._reader.close()
    store._db.close()


async def test_old_tasks_go_and_their_logs_go_before_them(store):
    """Retention: first the log of an ended task, whose snapshot says it all, then the task; never an open one."""
    writes = [write(store, "old", at=1_000), write(store, "newer", at=5_000), write(store, "open", at=1, state=INPUT_REQUIRED)]
    await store.commit(writes, [Keep(ME, "k", b"", 1_000), Keep(ME, "k2", b"", 9_000)])
    assert await store.purge(Ages(tasks_ms=0, events_ms=2_000, keys_ms=2_000), 100) == 2
    assert await store.rows(writes[0].key, 0) == []
    assert (await store.load(ME, "old")).head == b"{}"
    assert await store.kept(ME, "k", 0) is None
    await store.purge(Ages(tasks_ms=6_000, events_ms=6_000, keys_ms=0), 100)
    page = await store.page(query())
    assert ([r.id for r in page.tasks], page.total) == (["open"], 1)
    assert await store.purge(Ages(tasks_ms=6_000, events_ms=6_000, keys_ms=0), 100) == 0


async def test_a_task_begun_anew_after_its_log_went_is_open_again(store):
    """It is not deleted as an ended one, is found waiting, and when it has ended again its new log goes too."""
    first = write(store, at=1_000)
    await store.commit([first], [])
    assert await store.purge(Ages(tasks_ms=0, events_ms=2_000, keys_ms=0), 10) == 1
    anew = write(store, key=first.key, state=INPUT_REQUIRED, was=COMPLETED, at=3_000, seq=2, pos=2, row=2, lines=[b"v2"])
    await store.commit([anew], [])
    assert [r.id for r in await store.waiting(9_000, 10)] == ["t1"]
    assert await store.purge(Ages(tasks_ms=9_000, events_ms=9_000, keys_ms=0), 10) == 0
    again = {"was": INPUT_REQUIRED, "at": 4_000, "seq": 3, "pos": 3, "row": 3, "lines": [b"v3"], "head": b'{"x":1}'}
    await store.commit([write(store, key=first.key, **again)], [])
    assert await store.purge(Ages(tasks_ms=0, events_ms=9_000, keys_ms=0), 10) == 1
    assert await store.rows(first.key, 0) == []
    assert await store.purge(Ages(tasks_ms=9_000, events_ms=9_000, keys_ms=0), 10) == 1
    assert await store.load(ME, "t1") is None


async def test_purging_goes_in_batches(store):
    await store.commit([write(store, str(n), at=n) for n in range(25)], [])
    ages = Ages(tasks_ms=1_000, events_ms=1_000, keys_ms=0)
    assert [await store.purge(ages, 10) for _ in range(4)] == [20, 20, 10, 0]


async def test_what_waits_too_long_is_found_by_age(store):
    await store.commit(
        [write(store, "w", at=10, state=INPUT_REQUIRED), write(store, "a", at=20, state=8), write(store, "d", at=1)], []
    )
    assert [r.id for r in await store.waiting(15, 10)] == ["w"]
    assert {r.id for r in await store.waiting(99, 10)} == {"w", "a"}


async def test_stats_count_what_there_is(store):
    await store.commit([write(store, "a"), write(store, "b", state=FAILED)], [Keep(ME, "k", b"", 1)])
    stats = await store.stats()
    assert (stats.tasks, stats.events, stats.keys) == ({COMPLETED: 1, FAILED: 1}, 2, 1)


async def test_sqlite_keeps_everything_over_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path}/tasks.db"
    store = open_store(url)
    await store.open()
    task = write(store, state=INPUT_REQUIRED)
    await store.commit([task], [Keep(ME, "k", b"d", 1, reply=b"r")])
    await store.close()
    again = open_store(url)
    await again.open()
    assert (await again.load(ME, "t1")).state == INPUT_REQUIRED
    assert (await again.kept(ME, "k", 0)).reply == b"r"
    assert again.new_key() > task.key
    await again.close()


async def test_sqlite_refuses_a_second_process_by_name(tmp_path):
    """One writer per file (design, rule 19): the second is told who has it and what to do."""
    store = open_store(f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    code = (
        "import asyncio; from accord.store import open_store\n"
        f"store = open_store('sqlite:///{tmp_path}/tasks.db')\n"
        "try: asyncio.run(store.open())\n"
        "except RuntimeError as error: print(error)"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert "is in use by process" in done.stdout
    assert "--store" in done.stdout
    await store.close()


async def test_a_failed_sqlite_commit_stores_nothing(tmp_path):
    """All or nothing: the good half of a bad batch is not kept, and counters don't move."""
    from accord.store import CommitFailed

    store = open_store(f"sqlite:///{tmp_path}/tasks.db")
    await store.open()
    await store.commit([write(store, "there")], [])
    with pytest.raises(CommitFailed):
        await store.commit([write(store, "fine"), write(store, "there")], [])
    assert await store.load(ME, "fine") is None
    assert (await store.page(query())).total == 1
    await store.close()


def test_a_database_of_a_newer_accord_is_refused(tmp_path):
    db = sqlite3.connect(tmp_path / "tasks.db")
    db.execute("PRAGMA user_version = 9999")
    db.close()

    async def open_it():
        await open_store(f"sqlite:///{tmp_path}/tasks.db").open()

    with pytest.raises(RuntimeError, match="use a newer Accord"):
        asyncio.run(open_it())


@pytest.mark.parametrize("url", ["redis://x", "memory://x", "sqlite://", "sqlite:///", "tasks.db"])
def test_an_unknown_store_is_named_with_the_way_out(url):
    with pytest.raises(ValueError, match="use memory:// or sqlite:///"):
        open_store(url)
