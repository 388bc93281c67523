"""Pages of lists of tasks."""

from typing import Any

from ...store import Ages, Leaves, Namespace, Query
from .box import COMPLETED, FAILED, INPUT_REQUIRED, ME, OTHER, WORKING, Box, check


def query(**more: Any) -> Query:
    usual: dict[str, Any] = {"namespace": ME, "limit": 50}
    return Query(**(usual | more))


@check
async def pages_are_newest_first_and_do_not_overlap(box: Box) -> None:
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


@check
async def pages_are_oldest_first_if_that_is_asked_for(box: Box) -> None:
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


@check
async def a_page_that_is_just_full_is_the_last(box: Box) -> None:
    """No empty page follows."""
    await box.commit(*(box.create(f"t{i}") for i in range(4)))
    assert (await box.store.page(query(limit=4))).next is None
    assert (await box.store.page(query(limit=3))).next is not None


@check
async def a_page_ends_before_it_holds_too_much(box: Box) -> None:
    """One answer is made of it. The token goes on, and the total is of all pages."""
    await box.commit(
        *(box.create(f"t{i}", at=i, state=COMPLETED, head=b"{%b}" % (b" " * 998)) for i in range(5))
    )
    found, before = list[list[str]](), None
    while not found or before:
        page = await box.store.page(query(size=2_500, has_artifacts=False, before=before))
        before = page.next
        found.append([r.id for r in page.tasks])
        assert page.total == 5
    assert found == [["t4", "t3"], ["t2", "t1"], ["t0"]]


@check
async def a_task_larger_than_a_page_has_one_of_its_own(box: Box) -> None:
    """Else a list would never come past it."""
    await box.commit(
        *(box.create(f"t{i}", at=i, state=COMPLETED, head=b"{%b}" % (b" " * 998)) for i in range(3))
    )
    assert await box.ids(size=10) == ["t2", "t1", "t0"]


@check
async def tasks_of_a_page_come_with_their_rows(box: Box) -> None:
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


@check
async def artifacts_nobody_asked_for_are_not_read(box: Box) -> None:
    await box.commit(box.create(state=COMPLETED, artifacts=b"[1]"))
    assert [
        (await box.store.page(query(has_artifacts=has))).tasks[0].artifacts for has in (True, False)
    ] == [b"[1]", b"[]"]


@check
async def filters_are_anded_and_counted(box: Box) -> None:
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


@check
async def a_task_moves_in_lists_when_its_status_changes(box: Box) -> None:
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


@check
async def the_operator_sees_all_namespaces(box: Box) -> None:
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
    await box.store.purge(Ages(events_ms=1), 10)
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


@check
async def what_ended_is_read_with_when_it_was_made(box: Box) -> None:
    """The first to end first, whosever it is, no more than asked for, and on from a place; what
    goes on is not in it.
    """
    first = box.create("long", at=1000)
    await box.commit(
        first,
        box.create("quick", at=3000, state=FAILED),
        box.create("open", at=4000, state=WORKING),
    )
    await box.commit(box.append(first, at=5000, state=COMPLETED, leaves=Leaves.END))
    await box.commit(box.create("other", at=6000, state=COMPLETED, namespace=OTHER))
    found = await box.store.ended("", (0, 0), 10)
    assert [(one.at_ms, one.created_ms, one.state) for one in found] == [
        (3000, 3000, FAILED),
        (5000, 1000, COMPLETED),
        (6000, 6000, COMPLETED),
    ]
    assert await box.store.ended("", (4000, 0), 10) == found[1:]
    assert await box.store.ended("", (0, 0), 2) == found[:2]
    for at in range(3):
        place = (found[at].at_ms, found[at].key)
        assert await box.store.ended("", place, 10) == found[at + 1 :]
    assert await box.store.ended("nobody", (0, 0), 10) == []
