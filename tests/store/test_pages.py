"""Lists: newest first, never overlapping, never more work than a page is worth."""

import asyncio
import contextlib
import random
import sqlite3
import threading
from typing import Any

import pytest

from accord.store.contract import Append, Create, Leaves, Namespace, Query
from accord.store.sqlite import pages
from accord.store.sqlite.store import SqliteStore
from accord.testing.store_suite.lists import query

from .conftest import COMPLETED, FAILED, ME, OTHER, WORKING, Box


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
