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
async def what_ended_is_counted_by_minute_state_and_duration(box: Box) -> None:
    """Whosever it is, from a time to before another; what goes on is not in it."""
    minute = 60_000
    ends = [
        ("a", minute, minute + 10, COMPLETED),
        ("b", minute + 1, minute + 11, COMPLETED),
        ("c", minute, minute + 11, COMPLETED),
        ("d", minute, 2 * minute - 1, FAILED),
        ("e", minute, 2 * minute - 2, FAILED),  # as long, to a hundredth
        ("f", minute, 2 * minute, COMPLETED),
        ("g", 2 * minute + 5, 2 * minute + 4, COMPLETED),  # by a clock that was set back
    ]
    for name, made, at, state in ends:
        task = box.create(name, at=made)
        await box.commit(task)
        await box.commit(box.append(task, at=at, state=state, leaves=Leaves.END))
    await box.commit(box.create("open", at=minute + 5, state=WORKING))
    await box.commit(box.create("other", at=minute + 7, state=COMPLETED, namespace=OTHER))

    async def found(from_ms: int, to_ms: int, agent: str = "") -> list[tuple[int, ...]]:
        groups = await box.store.ended(agent, from_ms, to_ms)
        count = await box.store.count_ended(agent, from_ms, to_ms)
        assert count == sum(one.tasks for one in groups)
        return sorted(tuple(one)[:6] for one in groups)

    first = [
        (minute, COMPLETED, 0, 1, 0, minute + 7),
        (minute, COMPLETED, 10, 2, 10, minute + 11),
        (minute, COMPLETED, 11, 1, 11, minute + 11),
        (minute, FAILED, 59_904, 2, 59_999, 2 * minute - 1),
    ]
    second = [
        (2 * minute, COMPLETED, 0, 1, 0, 2 * minute + 4),
        (2 * minute, COMPLETED, 59_904, 1, 60_000, 2 * minute),
    ]
    got = await found(0, 3 * minute)
    # of those that took equally long it may be any
    assert [one[:5] for one in got] == [one[:5] for one in first + second]
    assert [one[:5] for one in await found(minute, 2 * minute)] == [one[:5] for one in first]
    assert await found(2 * minute, 3 * minute) == second
    assert [one[3] for one in await found(minute + 11, minute + 12)] == [1, 1]
    assert len(await found(0, 3 * minute, OTHER.agent)) == len(got)
    assert await found(0, 3 * minute, "nobody") == []
