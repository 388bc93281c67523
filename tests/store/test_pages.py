"""Lists: newest first, never overlapping, never more work than a page is worth."""

import asyncio
import contextlib
import random
import sqlite3
import threading
from typing import Any

import pytest

from accord.store.contract import Ages, Append, Create, Leaves, Namespace, Query
from accord.store.sqlite import pages
from accord.store.sqlite.store import SqliteStore

from .conftest import COMPLETED, FAILED, INPUT_REQUIRED, ME, OTHER, WORKING, Box


def query(**more: Any) -> Query:
    usual: dict[str, Any] = {"namespace": ME, "limit": 50}
    return Query(**(usual | more))


async def test_pages_are_newest_first_and_do_not_overlap(box: Box) -> None:
    """Ties in time are broken by the order of creation, so a cursor never skips or repeats,
    whatever the states.
    """
    states = [COMPLETED, WORKING, INPUT_REQUIRED]
    await box.commit(
        *(box.create(f"t{i}", at=1000 + i // 3, state=states[i % 3]) for i in range(10))
    )
    first = await box.store.page(query(limit=4))
    second = await box.store.page(query(limit=4, before=first.next))
    third = await box.store.page(query(limit=4, before=second.next))
    assert [r.id for page in (first, second, third) for r in page.tasks] == [
        f"t{i}" for i in range(9, -1, -1)
    ]
    assert [(page.total, page.is_exact) for page in (first, second, third)] == [(10, True)] * 3
    assert third.next is None


async def test_pages_are_oldest_first_if_that_is_asked_for(box: Box) -> None:
    """What waits longest is what a person should see first, however much waits."""
    states = [COMPLETED, WORKING, INPUT_REQUIRED]
    await box.commit(
        *(box.create(f"t{i}", at=1000 + i // 3, state=states[i % 3]) for i in range(10))
    )
    everything = await box.ids()
    assert await box.ids(oldest_first=True, limit=4) == everything[::-1]
    assert await box.ids(oldest_first=True, limit=2, namespace=None) == everything[::-1]
    assert await box.ids(oldest_first=True, state=WORKING, limit=1) == ["t1", "t4", "t7"]
    assert await box.ids(oldest_first=True, since_ms=1002, limit=2) == ["t6", "t7", "t8", "t9"]


async def test_a_page_that_is_just_full_is_the_last(box: Box) -> None:
    """No empty page follows."""
    await box.commit(*(box.create(f"t{i}") for i in range(4)))
    assert (await box.store.page(query(limit=4))).next is None
    assert (await box.store.page(query(limit=3))).next is not None


async def test_a_page_ends_before_it_holds_too_much(box: Box) -> None:
    """One answer is made of it. The token goes on, and the total is of all pages."""
    await box.commit(
        *(box.create(f"t{i}", at=i, state=COMPLETED, head=b"{%b}" % (b" " * 998)) for i in range(5))
    )
    found, before = [], None
    while not found or before:
        page = await box.store.page(query(size=2_500, has_artifacts=False, before=before))
        before = page.next
        found.append([r.id for r in page.tasks])
        assert page.total == 5
    assert found == [["t4", "t3"], ["t2", "t1"], ["t0"]]


async def test_a_task_larger_than_a_page_has_one_of_its_own(box: Box) -> None:
    """Else a list would never come past it."""
    await box.commit(
        *(box.create(f"t{i}", at=i, state=COMPLETED, head=b"{%b}" % (b" " * 998)) for i in range(3))
    )
    assert await box.ids(size=10) == ["t2", "t1", "t0"]


async def test_tasks_of_a_page_come_with_their_rows(box: Box) -> None:
    """One that has no snapshot yet is its log: whoever lists it folds it; and what it holds counts
    for the size.
    """
    first = box.create(at=2, data=b"x" * 900)
    await box.commit(first, box.create("old", at=1, state=COMPLETED))
    await box.commit(box.append(first, data=b"y" * 200))
    page = await box.store.page(query(size=1_000))
    (record,) = page.tasks
    assert [row.data[:1] for row in record.rows] == [b"x", b"y"]
    assert page.next is not None
    assert (await box.store.page(query(before=page.next))).tasks[0].rows == []


async def test_artifacts_nobody_asked_for_are_not_read(box: Box) -> None:
    await box.commit(box.create(state=COMPLETED, artifacts=b"[1]"))
    assert [
        (await box.store.page(query(has_artifacts=has))).tasks[0].artifacts for has in (True, False)
    ] == [b"[1]", b"[]"]


async def test_filters_are_anded_and_counted(box: Box) -> None:
    """Of every state, running or ended: indexes differ in which tasks they hold."""
    await box.commit(
        box.create("a", context="c1", state=COMPLETED, at=1),
        box.create("b", context="c1", state=FAILED, at=2),
        box.create("c", context="c2", state=COMPLETED, at=3),
        box.create("d", context="c1", state=WORKING, at=4),
    )

    async def ids(**more: Any) -> list[str]:
        page = await box.store.page(query(**more))
        assert (page.total, page.is_exact, page.next) == (len(page.tasks), True, None)
        return [record.id for record in page.tasks]

    assert await ids(context_id="c1") == ["d", "b", "a"]
    assert await ids(state=COMPLETED) == ["c", "a"]
    assert await ids(context_id="c1", state=COMPLETED) == ["a"]
    assert await ids(context_id="c1", state=WORKING) == ["d"]
    assert await ids(since_ms=2) == ["d", "c", "b"]
    assert await ids(state=COMPLETED, since_ms=2) == ["c"]
    assert await ids(context_id="c1", since_ms=2) == ["d", "b"]
    assert await ids(context_id="c1", state=FAILED, since_ms=3) == []
    assert await ids(context_id="nowhere") == []
    assert await ids(namespace=OTHER) == []


async def test_a_task_moves_in_lists_when_its_status_changes(box: Box) -> None:
    old = box.create("old", at=1)
    await box.commit(old, box.create("new", at=2))
    await box.commit(box.append(old, state=COMPLETED, at=3, leaves=Leaves.END))
    assert await box.ids() == ["old", "new"]
    assert [await box.ids(state=state) for state in (WORKING, COMPLETED)] == [["new"], ["old"]]
    assert [(await box.store.page(query(state=state))).total for state in (WORKING, COMPLETED)] == [
        1,
        1,
    ]
    assert await box.ids(context_id="c1") == ["old", "new"]


async def test_the_operator_sees_all_namespaces(box: Box) -> None:
    """By time and by state, of one agent or of all; callers still see their own only. Also what has
    no log any more.
    """
    another = Namespace("another", "", "me")
    await box.commit(
        box.create("a", at=1, state=COMPLETED),
        box.create("b", at=2, namespace=OTHER),
        box.create("c", at=3, namespace=another),
        box.create("d", at=4, namespace=another, state=COMPLETED, context="c2"),
        box.create("e", at=5, namespace=OTHER, state=FAILED),
    )
    await box.store.purge(Ages(tasks_ms=0, events_ms=5, keys_ms=0), 10)
    expected: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["e", "d", "c", "b", "a"]),
        ({"agent": "agent"}, ["e", "b", "a"]),
        ({"agent": "another"}, ["d", "c"]),
        ({"agent": "nobody"}, []),
        ({"state": COMPLETED}, ["d", "a"]),
        ({"state": WORKING, "agent": "another"}, ["c"]),
        ({"since_ms": 3}, ["e", "d", "c"]),
        ({"since_ms": 2, "agent": "agent", "state": WORKING}, ["b"]),
        ({"context_id": "c2"}, ["d"]),
        ({"context_id": "c1", "agent": "agent", "state": COMPLETED}, ["a"]),
    ]
    for more, ids in expected:
        page = await box.store.page(query(namespace=None, **more))
        assert ([r.id for r in page.tasks], page.total, page.is_exact) == (ids, len(ids), True), (
            more
        )
        assert await box.ids(namespace=None, limit=1, **more) == ids, more
    record = (await box.store.page(query(namespace=None, limit=1))).tasks[0]
    assert record.namespace == OTHER


@pytest.mark.parametrize("seed", range(5))
async def test_every_list_is_that_of_the_reference(lasting_box: Box, seed: int) -> None:
    """Namespaces, contexts, states, times, moves, and pages of every size."""
    dice = random.Random(seed)
    memory, file = Box(None), lasting_box
    await memory.open()
    spaces = [ME, OTHER, Namespace("another", "", "me")]
    for _ in range(10):
        items: list[Create | Append] = []
        for _ in range(20):
            state = dice.choice([1, 2, 3, 4, 6, 8])
            where = {
                "namespace": dice.choice(spaces),
                "context": dice.choice("xyz"),
                "at": dice.randrange(8),
            }
            items.append(memory.create(str(memory.key()), state=state, leaves=Leaves.STAY, **where))
        moved = [
            memory.append(item, state=dice.choice([2, 3, 6]), at=dice.randrange(8))
            for item in items
            if dice.random() < 0.5
        ]
        for batch in (items, moved):
            for box in (memory, file):
                assert all(await box.store.commit(batch))
    for _ in range(60):
        asked = {
            "namespace": dice.choice([*spaces, None]),
            "agent": dice.choice(["", "agent", "another"]),
            "context_id": dice.choice(["", "", "x"]),
            "state": dice.choice([0, 0, 2, 3]),
            "since_ms": dice.choice([None, None, 4]),
            "limit": dice.choice([1, 7, 50]),
            "oldest_first": dice.choice([False, False, True]),
        }
        assert await memory.ids(**asked) == await file.ids(**asked), asked
        totals = [(await box.store.page(query(**asked))).total for box in (memory, file)]
        assert totals[0] == totals[1], asked


# Bounds, which only a file needs


async def test_a_filter_without_an_index_reads_a_bounded_piece(
    file_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be short or empty and still go on: the whole list is found, and no page reads more
    than its share.
    """
    monkeypatch.setattr(pages, "SCAN", 10)
    await file_box.commit(
        *(
            file_box.create(f"t{n}", at=n, state=FAILED if n in (3, 40) else COMPLETED)
            for n in range(50)
        )
    )
    asked = {"context_id": "c1", "state": FAILED}
    first = await file_box.store.page(query(**asked))
    assert ([r.id for r in first.tasks], first.next, first.is_exact) == (
        ["t40"],
        (40, first.next[1]),
        False,
    )
    second = await file_box.store.page(query(**asked, before=first.next))
    assert (second.tasks, second.next) == ([], (30, second.next[1]))
    assert await file_box.ids(**asked) == ["t40", "t3"]
    assert await file_box.ids(
        namespace=None, context_id="c1", state=COMPLETED, limit=3
    ) == await file_box.ids(state=COMPLETED)


async def test_a_total_is_counted_up_to_a_bound(
    file_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept is exact whatever the size; what has to be counted says when it is not all."""
    monkeypatch.setattr(pages, "SCAN", 10)
    await file_box.commit(
        *(file_box.create(f"t{n}", at=n, state=COMPLETED if n % 2 else WORKING) for n in range(30))
    )

    async def total(**more: Any) -> tuple[int, bool]:
        page = await file_box.store.page(query(**({"limit": 1} | more)))
        return page.total, page.is_exact

    assert await total() == (30, True)
    assert await total(state=WORKING) == (15, True)
    assert await total(namespace=None, agent="agent") == (30, True)
    assert await total(since_ms=20) == (10, True)
    assert await total(since_ms=19) == (10, False)
    assert await total(context_id="c1") == (10, False)
    assert await total(state=COMPLETED, since_ms=11) == (10, True)
    assert await total(context_id="c1", since_ms=25) == (5, True)


async def test_lists_are_read_beside_the_loop(file_box: Box) -> None:
    """A long list holds up nobody: the loop goes on while it is read."""
    store = file_box.store
    assert isinstance(store, SqliteStore)
    await file_box.commit(file_box.create())
    go_on, is_reading = threading.Event(), threading.Event()

    def wait(sql: str) -> None:
        is_reading.set()
        go_on.wait(20)

    store._lister.set_trace_callback(wait)
    listing = asyncio.create_task(store.page(query()))
    await asyncio.to_thread(is_reading.wait, 20)
    assert await store.load(ME, "t1") is not None
    assert not listing.done()
    go_on.set()
    assert (await listing).total == 1
    store._lister.set_trace_callback(None)


PLANS = [
    query(),
    query(state=COMPLETED),
    query(state=COMPLETED, since_ms=5),
    query(context_id="c1"),
    query(context_id="c1", since_ms=5, before=(7, 7)),
    query(namespace=None),
    query(namespace=None, state=COMPLETED, oldest_first=True, before=(3, 3)),
    query(namespace=None, agent="agent", state=COMPLETED, since_ms=5),
]


@pytest.mark.parametrize("asked", PLANS)
async def test_no_list_is_sorted(file_box: Box, asked: Query) -> None:
    """Every range comes from its index in order: sorting would read all of it first."""
    assert file_box.path is not None
    await file_box.commit(*(file_box.create(f"t{n}", at=n, state=3 - n % 2) for n in range(9)))
    with contextlib.closing(sqlite3.connect(file_box.path)) as db:
        said = list[str]()
        db.set_trace_callback(said.append)
        pages.page(db, asked, file_box.store._namespaces)
        db.set_trace_callback(None)
        lists = [sql for sql in said if "ORDER BY at_ms" in sql]
        assert lists
        for sql in lists:
            plan = " ".join(str(row[3]) for row in db.execute("EXPLAIN QUERY PLAN " + sql))
            assert "SEARCH tasks USING" in plan
            assert "TEMP B-TREE" not in plan
