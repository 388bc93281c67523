"""What every store promises of tasks and their logs."""

import asyncio
import itertools
from collections.abc import Collection
from typing import Any

from ...store import Ages, Can, Fenced, Leaves, Namespace
from .box import (
    AUTH_REQUIRED,
    COMPLETED,
    FAILED,
    HOUR_MS,
    INPUT_REQUIRED,
    ME,
    OTHER,
    WORKING,
    Box,
    check,
    checks_with,
    key,
    raises,
)


@check
async def a_task_is_found_in_its_namespace_only(box: Box) -> None:
    """Agent, tenant and caller are part of the key: another's task is no task."""
    await box.commit(box.create())
    record = await box.store.load(ME, "t1")
    assert record is not None
    assert (record.namespace, record.id, record.context_id, record.skill, record.about) == (
        ME,
        "t1",
        "c1",
        "echo",
        b"{}",
    )
    for other in (OTHER, Namespace("agent", "tenant", "me"), Namespace("another", "", "me")):
        assert await box.store.load(other, "t1") is None
        assert await box.store.claim(other, "t1") is None


@check
async def two_namespaces_may_use_the_same_id(box: Box) -> None:
    """Ids clients choose (0.1) don't meet."""
    assert await box.commit(box.create(), box.create(namespace=OTHER, state=FAILED)) == [True, True]
    assert [(await box.store.load(space, "t1")).state for space in (ME, OTHER)] == [WORKING, FAILED]


@check
async def a_task_is_its_snapshot_and_the_rows_after_it(box: Box) -> None:
    """Whoever loads a task can fold it without another call; a fresh snapshot needs no rows."""
    first = box.create(pos=2, seq=1, data=b"c1\nr")
    await box.commit(first)
    second = box.append(first, data=b"w3")
    await box.commit(second)
    record = await box.store.load(ME, "t1")
    assert (record.snap, record.head, record.is_stale) == (0, b"", True)
    assert [(row.pos, row.seq, row.data) for row in record.rows] == [
        (1, 1, b"c1\nr"),
        (3, 2, b"w3"),
    ]
    third = box.append(second, head=b'{"x":1}', artifacts=b"[1]")
    await box.commit(third)
    record = await box.store.load(ME, "t1")
    assert (record.snap, record.head, record.artifacts, record.rows, record.is_stale) == (
        4,
        b'{"x":1}',
        b"[1]",
        [],
        False,
    )
    await box.commit(box.append(third, data=b"w5"))
    record = await box.store.load(ME, "t1")
    assert (record.head, [(row.pos, row.data) for row in record.rows]) == (b'{"x":1}', [(5, b"w5")])


@check
async def rows_carry_the_time_of_their_commit(box: Box) -> None:
    """The console shows when something was stored; one batch is one moment, whatever the status
    says.
    """
    first, second = box.create(at=1), box.create("t2", at=2)
    await box.commit(first, second)
    await box.commit(box.append(first))
    rows = await box.store.read({first.key: 0, second.key: 0})
    assert rows[0].at_ms == rows[2].at_ms
    assert rows[0].at_ms <= rows[1].at_ms
    assert box.is_now(rows[0].at_ms)
    assert box.is_now(rows[1].at_ms)
    assert (await box.store.load(ME, "t1")).committed_ms == rows[1].at_ms


@check
async def a_newer_format_is_remembered(box: Box) -> None:
    """A task needs the newest format its log ever had, also if its last entries are old ones."""
    first = box.create(format=3)
    await box.commit(first)
    await box.commit(box.append(first, format=2))
    assert (await box.store.load(ME, "t1")).format == 3


@check
async def rows_are_read_from_the_one_that_holds_the_next_position(box: Box) -> None:
    """A reader that stands in the middle of a row gets it again, and knows what it has seen."""
    first = box.create(pos=3, seq=2, data=b"1\n2\n3")
    second = box.append(first, pos=4, data=b"4")
    third = box.append(second, pos=6, data=b"5\n6")
    for item in (first, second, third):
        await box.commit(item)

    async def positions(after: int) -> list[int]:
        return [row.pos for row in await box.store.read({first.key: after})]

    expected = {0: [1, 4, 5], 1: [1, 4, 5], 2: [1, 4, 5], 3: [4, 5], 4: [5], 5: [5], 6: [], 99: []}
    assert {after: await positions(after) for after in expected} == expected
    rows = await box.store.read({first.key: 0})
    for before, row in itertools.pairwise(rows):
        read = (await box.store.read({first.key: row.pos - 1}))[0]
        assert read.before_ms in (0, before.at_ms)
    assert not rows[0].before_ms


@check
async def many_tasks_are_read_with_one_call(box: Box) -> None:
    """After a wake-up a process asks for all tasks that were named."""
    first, second = box.create(), box.create("t2")
    await box.commit(first, second)
    rows = await box.store.read({second.key: 0, first.key: 0, 12345: 0})
    assert [row.task for row in rows] == [second.key, first.key]


@checks_with("size", [1, 100000])
async def a_long_log_comes_in_pieces_that_join(box: Box, size: int) -> None:
    """One call never returns a whole long log: by rows, and by bytes."""
    last: Any = box.create(data=b"x" * size)
    await box.commit(last)
    count = 600 if size == 1 else 100
    for _ in range(count - 1):
        last = box.append(last, data=b"x" * size)
        await box.commit(last)
    seen, calls = list[int](), 0
    while rows := await box.store.read({last.key: len(seen)}):
        assert len(rows) < count
        seen += [row.pos for row in rows]
        calls += 1
    assert seen == list(range(1, count + 1))
    assert calls > 1


@check
async def a_number_is_located_no_later_than_its_entry(box: Box) -> None:
    """A stream that goes on after number n reads on from there: nothing visible is missed, little
    is read twice.
    """
    first = box.create(pos=2, seq=2)
    items: list[Any] = [first, box.append(first, pos=5, seq=4)]
    items.append(box.append(items[-1], pos=6, seq=4))  # nothing visible
    items += [box.append(items[-1], pos=7, seq=5)]
    for item in items:
        await box.commit(item)
    located = {seq: await box.store.locate(first.key, seq) for seq in range(7)}
    assert located == {0: 0, 1: 1, 2: 1, 3: 3, 4: 3, 5: 7, 6: 7}
    assert await box.store.locate(12345, 1) == 0


@check
async def a_number_is_located_in_a_long_log(box: Box) -> None:
    last: Any = box.create()
    await box.commit(last)
    for _ in range(100):
        last = box.append(last, pos=last.pos + 2)
        await box.commit(last)
    assert [await box.store.locate(last.key, seq) for seq in range(1, 102)] == [
        1,
        *range(2, 202, 2),
    ]


@check
async def only_the_owner_appends(box: Box) -> None:
    """A task that nobody runs must be claimed first."""
    first = box.create(leaves=Leaves.IDLE, state=INPUT_REQUIRED)
    assert await box.commit(first) == [True]
    assert (await box.store.load(ME, "t1")).owner == 0
    second = box.append(first, state=WORKING)
    assert await box.commit(second) == [False]
    record = await box.store.claim(ME, "t1")
    assert (record.owner, record.pos) == (box.store.replica, 1)
    assert await box.commit(second) == [True]
    assert (await box.store.load(ME, "t1")).owner == box.store.replica


@check
async def a_log_that_has_gone_on_is_not_appended_to(box: Box) -> None:
    """Two writers of one process can't both follow the same entry."""
    first = box.create()
    await box.commit(first)
    assert await box.commit(box.append(first, data=b"one")) == [True]
    assert await box.commit(box.append(first, data=b"two")) == [False]
    assert await box.commit(box.append(first, before=5, pos=6)) == [False]
    assert [row.data for row in await box.store.read({first.key: 1})] == [b"one"]


@check
async def what_a_newer_release_wrote_is_not_claimed(box: Box) -> None:
    """Its entries could not be read: it is given as it stands, and whoever can read it claims
    it.
    """
    item = box.create(state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    item.format = 3
    await box.commit(item)
    record = await box.store.claim(ME, "t1", format=2)
    assert (record.owner, record.format) == (0, 3)
    record = await box.store.claim(ME, "t1", format=2, known=1)
    assert record.owner == 0
    record = await box.store.claim(ME, "t1", format=3)
    assert record.owner == box.store.replica


@check
async def what_has_ended_is_claimed_only_to_be_reopened(box: Box) -> None:
    """A version whose tasks can be reopened says so; else an ended task is as it is."""
    first = box.create(state=COMPLETED)
    await box.commit(first)
    assert (await box.store.claim(ME, "t1")).owner == 0
    assert await box.commit(box.append(first, state=WORKING)) == [False]
    assert (await box.store.claim(ME, "t1", reopen=True)).owner == box.store.replica
    assert (await box.store.load(ME, "t1")).owner == box.store.replica
    assert await box.commit(box.append(first, state=WORKING)) == [True]


@check
async def a_task_of_a_living_owner_is_shown_as_it_stands(box: Box) -> None:
    """A file has one process only."""
    if not box.is_shared:
        return
    first = box.create()
    await box.commit(first)
    owner, store = box.store.replica, await box.another()
    record = await store.claim(ME, "t1")
    assert (record.owner, store.replica == owner) == (owner, False)
    assert await store.commit([box.append(first)]) == [False]


@check
async def a_dead_process_writes_nothing_more(box: Box) -> None:
    """Fencing: one that was declared dead and comes back, paused or cut off, is refused whole, and
    knows it.
    """
    first = box.create()
    await box.commit(first)
    dead = await box.crash()
    with raises(Fenced):
        await dead.commit([box.append(first)])
    with raises(Fenced):
        await dead.commit([box.create("late")])
    with raises(Fenced):
        await dead.beat()
    assert not dead.is_sure
    assert box.store.is_sure
    assert box.store.replica > dead.replica
    assert await box.store.load(ME, "late") is None
    await box.store.beat()


@check
async def a_dead_owners_task_can_be_claimed(box: Box) -> None:
    """Whoever gets a message for it need not wait for the look for orphans."""
    first = box.create()
    await box.commit(first)
    dead = await box.crash()
    assert (await box.store.load(ME, "t1")).owner == dead.replica
    record = await box.store.claim(ME, "t1")
    assert record.owner == box.store.replica
    assert box.is_now(record.died_ms)
    assert await box.commit(box.append(first)) == [True]
    assert await box.store.orphans(10, can()) == []


@check
async def a_store_that_was_closed_leaves_orphans(box: Box) -> None:
    """A stop in good order hands over at once what could not be finished."""
    await box.commit(box.create(), box.create("t2", state=COMPLETED))
    await box.restart()
    assert [record.id for record in await box.store.orphans(10, can())] == ["t1"]


def can(**more: Any) -> Can:
    usual: dict[str, Any] = {"agents": {"agent": {"echo"}}, "format": 2}
    return Can(**(usual | more))


@check
async def orphans_are_taken_up_once_in_order_and_in_bites(box: Box) -> None:
    """Each is returned to one taker only, with when its owner was last heard of, and can be
    appended to.
    """
    items = [
        box.create(f"t{n}", at=100 - n, state=state)
        for n, state in enumerate([WORKING, 1, AUTH_REQUIRED, WORKING, 1])
    ]
    await box.commit(*items)
    await box.crash()
    assert await box.store.orphans(0, can()) == []
    found = await box.store.orphans(2, can())
    found += await box.store.orphans(9, can())
    assert [record.id for record in found] == ["t0", "t1", "t2", "t3", "t4"]
    assert {record.owner for record in found} == {box.store.replica}
    assert all(box.is_now(record.died_ms) for record in found)
    assert await box.store.orphans(9, can()) == []
    assert (
        await box.commit(*(box.append(item, state=FAILED, leaves=Leaves.END) for item in items))
        == [True] * 5
    )


@check
async def an_orphan_that_somebody_ended_first_is_none_any_more(box: Box) -> None:
    """A caller may cancel a task before a server has room to take it up."""
    items = [box.create(id_) for id_ in ("t1", "t2")]
    await box.commit(*items)
    await box.crash()
    assert [record.id for record in await box.store.orphans(1, can())] == ["t1"]
    await box.store.claim(ME, "t2")
    end = box.append(items[1], state=FAILED, leaves=Leaves.END, head=b"{}", artifacts=b"[]")
    assert await box.commit(end) == [True]
    assert await box.store.orphans(9, can()) == []
    assert [one.id for one in await box.store.owned()] == ["t1"]
    for _ in range(2):
        await box.store.purge(Ages(tasks_ms=0, events_ms=0), 10)
    assert await box.store.load(ME, "t2") is None
    assert await box.store.orphans(9, can()) == []


@check
async def our_own_tasks_are_no_orphans(box: Box) -> None:
    await box.commit(box.create(), box.create("t2", state=INPUT_REQUIRED))
    assert await box.store.orphans(9, can(unanswered_ms=1)) == []


@check
async def a_store_lists_what_names_us_as_its_owner_and_changes_nothing(box: Box) -> None:
    """Of a claim whose answer was lost only the store knows. Who compares its list with what is
    here decides what to do: the list is out of date when it arrives.
    """
    mine = box.create()
    await box.commit(
        mine, box.create("idle", state=INPUT_REQUIRED, leaves=Leaves.IDLE), box.create("theirs")
    )
    await box.crash()
    claimed = box.create("new", state=INPUT_REQUIRED)
    await box.commit(claimed, box.create("ended", state=COMPLETED))
    await box.store.claim(ME, "t1")
    owned = await box.store.owned()
    assert [(one.id, one.namespace, one.pos) for one in owned] == [("t1", ME, 1), ("new", ME, 1)]
    assert [one.key for one in owned] == [mine.key, claimed.key]
    assert await box.store.owned() == owned
    assert await box.commit(box.append(claimed)) == [True]
    assert [one.pos for one in await box.store.owned()] == [1, 2]
    await box.store.unclaim(mine.key, 1)
    assert [one.id for one in await box.store.owned()] == ["new"]


@check
async def the_ends_of_logs_are_returned_and_what_is_gone_has_none(box: Box) -> None:
    first, second = box.create(), box.create("t2")
    await box.commit(first, second)
    await box.commit(box.append(first))
    rows = await box.store.read({first.key: 1, second.key: 0})
    assert await box.store.ends([first.key, second.key, 999]) == {
        first.key: (2, rows[0].at_ms),
        second.key: (1, rows[1].at_ms),
    }
    assert await box.store.ends([]) == {}


@check
async def what_was_made_while_orphans_were_looked_for_keeps_its_owner(box: Box) -> None:
    """A server that looks for orphans goes on to take and answer messages meanwhile."""
    first = [box.create(f"t{n}") for n in range(20)]
    await box.commit(*first)

    async def work() -> None:
        for n in range(20):
            made = box.create(f"new{n}", state=INPUT_REQUIRED)
            await box.commit(made, box.append(first[n], state=INPUT_REQUIRED))
            assert await box.commit(box.append(made)) == [True]

    async def look() -> None:
        for _ in range(20):
            assert await box.store.orphans(9, can(unanswered_ms=HOUR_MS)) == []
            await box.store.owned()

    await asyncio.gather(work(), look())
    assert len(await box.store.owned()) == 40


@check
async def what_waits_for_input_is_left_without_an_owner(box: Box) -> None:
    """There is nothing to do for it before its answer comes, which anybody may then claim."""
    first = box.create(state=INPUT_REQUIRED)
    await box.commit(first)
    await box.crash()
    assert await box.store.orphans(9, can()) == []
    assert (await box.store.load(ME, "t1")).owner == 0
    assert (await box.store.claim(ME, "t1")).owner == box.store.replica
    assert await box.commit(box.append(first)) == [True]


@check
async def what_waits_for_input_and_has_an_unread_post_is_taken_up(box: Box) -> None:
    """A task without an owner has no unread posts: nobody would read them."""
    first = box.create(state=INPUT_REQUIRED)
    await box.commit(first, box.post(first.key))
    await box.crash()
    assert [record.id for record in await box.store.orphans(9, can())] == ["t1"]
    assert [unread_posts.body for unread_posts in await box.store.unread_posts(None)] == [b"hello"]


@check
async def tasks_nobody_answers_come_too(box: Box) -> None:
    """To be failed: of dead owners, and of none. Each once."""
    waiting = [
        box.create(f"t{n}", at=n * HOUR_MS, state=s, leaves=Leaves.IDLE)
        for n, s in enumerate([INPUT_REQUIRED, AUTH_REQUIRED] * 2)
    ]
    owned = [
        box.create("u0", at=0, state=INPUT_REQUIRED),
        box.create("u9", at=9 * HOUR_MS, state=INPUT_REQUIRED),
    ]
    await box.commit(*waiting, *owned)
    await box.crash()
    old = can(unanswered_ms=box.age(3 * HOUR_MS - HOUR_MS // 2))
    older = can(unanswered_ms=box.age(4 * HOUR_MS))
    found = await box.store.orphans(2, old)
    found += await box.store.orphans(9, old)
    assert sorted(record.id for record in found) == ["t0", "t1", "t2", "u0"]
    assert await box.store.orphans(9, old) == []
    assert [record.id for record in await box.store.orphans(9, older)] == ["t3"]


@check
async def orphans_of_another_agent_or_a_newer_format_are_left(box: Box) -> None:
    """Several agents may share a store, and an older release must not touch what it can't read."""
    another = Namespace("another", "", "me")
    await box.commit(
        box.create("theirs", namespace=another), box.create("newer", format=3), box.create("mine")
    )
    await box.crash()
    assert [record.id for record in await box.store.orphans(9, can())] == ["mine"]
    assert [record.id for record in await box.store.orphans(9, can(format=3))] == ["newer"]
    assert [
        record.id for record in await box.store.orphans(9, can(agents={"another": {"echo"}}))
    ] == ["theirs"]


@check
async def what_is_worked_on_and_has_no_owner_is_taken_up_when_asked_for(box: Box) -> None:
    """Nobody's death would ever show it. What sleeps is left until it is due."""
    await box.commit(
        box.create(leaves=Leaves.IDLE, state=WORKING),
        box.create("sleeps", leaves=Leaves.IDLE, state=WORKING, due_ms=1 << 50),
        box.create("waits", leaves=Leaves.IDLE, state=INPUT_REQUIRED),
        box.create("ours", state=WORKING),
    )
    assert await box.store.orphans(9, can()) == []
    (found,) = await box.store.orphans(9, can(unowned=True))
    assert (found.id, found.owner, found.died_ms) == ("t1", box.store.replica, 0)
    assert await box.store.orphans(9, can(unowned=True)) == []


@check
async def an_orphan_of_an_unknown_skill_waits_for_who_has_it(box: Box) -> None:
    """In a file nobody else will ever come for it, so it is given out, to be failed."""
    await box.commit(box.create(skill="gone"))
    await box.crash()
    assert [record.id for record in await box.store.orphans(9, can())] == (
        [] if box.is_shared else ["t1"]
    )


@check
async def logs_go_before_their_tasks(box: Box) -> None:
    """An ended task is what its snapshot says; open ones stay, whatever their age."""
    old, newer = (
        box.create("old", state=COMPLETED, at=HOUR_MS),
        box.create("newer", state=FAILED, at=5 * HOUR_MS),
    )
    waiting = box.create("open", at=1, state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    await box.commit(old, newer, waiting, key("k"))
    assert await box.store.purge(Ages(events_ms=box.age(2 * HOUR_MS), keys_ms=HOUR_MS), 100) == 1
    assert await box.store.read({old.key: 0}) == []
    assert await box.store.locate(old.key, 1) == 0
    assert (await box.store.load(ME, "old")).head == b"{}"
    assert await box.store.idempotency(ME, "k") is not None
    await box.later()
    await box.store.purge(Ages(tasks_ms=1, events_ms=1, keys_ms=1), 100)
    assert await box.ids() == ["open"]
    assert (await box.store.stats()).tasks == {INPUT_REQUIRED: 1}
    assert await box.store.idempotency(ME, "k") is None
    assert await box.store.purge(Ages(tasks_ms=1, events_ms=1, keys_ms=1), 100) == 0


@check
async def a_store_has_one_clock(box: Box) -> None:
    """It tells the time of now, which only grows, and can be waited for."""
    first = box.store.now_ms()
    assert first > 1_600_000_000_000, "milliseconds since 1970"
    await box.store.clock.sleep_until(first + 5)
    assert first + 5 <= box.store.now_ms() == box.store.clock.now_ms() or box.is_now(first)
    elapsed = box.store.clock.elapsed_s()
    await box.later()
    assert box.store.clock.elapsed_s() > elapsed
    await box.crash()
    assert box.is_now(first)


@check
async def nothing_goes_before_its_age(box: Box) -> None:
    """What was stored a moment ago is not an hour old, whatever the clock of a process says."""
    now = box.store.now_ms()
    ended, asked = (
        box.create("ended", state=COMPLETED, at=now),
        box.create("asked", state=INPUT_REQUIRED, at=now, leaves=Leaves.IDLE),
    )
    await box.commit(ended, asked, key("k"))
    hour = Ages(HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS)
    assert await box.store.purge(hour, 100) == 0
    assert await box.store.orphans(9, can(unanswered_ms=HOUR_MS)) == []
    assert await box.ids() == ["asked", "ended"]
    assert await box.store.purge(Ages(), 100) == 0


@check
async def what_has_an_owner_is_not_purged(box: Box) -> None:
    """One that ended and is being reopened, for example."""
    await box.commit(box.create(state=COMPLETED))
    await box.store.claim(ME, "t1", reopen=True)
    assert await box.store.purge(Ages(tasks_ms=1, events_ms=1), 100) == 0


@check
async def tasks_of_one_agent_are_purged_alone(box: Box) -> None:
    theirs = Namespace("another")
    await box.commit(
        box.create(state=COMPLETED), box.create("t2", state=COMPLETED, namespace=theirs)
    )
    one = Ages(tasks_ms=1, events_ms=1, agent="another")
    assert await box.store.purge(one, 100) == 2  # its log, and itself
    assert await box.store.load(theirs, "t2") is None
    assert await box.store.load(ME, "t1") is not None


@check
async def a_task_that_ended_without_a_snapshot_keeps_its_log(box: Box) -> None:
    """The log is all there is of it, until it goes itself."""
    first = box.create(state=COMPLETED, head=None)
    await box.commit(first)
    assert await box.store.purge(Ages(events_ms=1), 100) == 1
    assert [row.data for row in (await box.store.load(ME, "t1")).rows] == [b"c{}"]
    assert await box.store.purge(Ages(tasks_ms=1, events_ms=1), 100) == 1
    assert await box.store.load(ME, "t1") is None
    assert (await box.store.stats()).events == 0


@check
async def a_task_reopened_after_its_log_went_has_a_gap(box: Box) -> None:
    """Readers see by the first position that something is missing; it is open again, and its new
    log goes in its time.
    """
    first = box.create(state=COMPLETED, pos=3, seq=2)
    await box.commit(first)
    await box.store.purge(Ages(events_ms=1), 10)
    await box.store.claim(ME, "t1", reopen=True)
    second = box.append(first, state=INPUT_REQUIRED, at=3_000, leaves=Leaves.IDLE)
    await box.commit(second)
    assert [row.pos for row in await box.store.read({first.key: 0})] == [4]
    assert await box.store.locate(first.key, 1) == 0
    assert (await box.store.load(ME, "t1")).head == b"{}"
    assert await box.store.purge(Ages(tasks_ms=1, events_ms=1), 10) == 0
    await box.store.claim(ME, "t1")
    await box.commit(
        box.append(
            second, state=COMPLETED, at=4_000, leaves=Leaves.END, head=b'{"x":1}', artifacts=b"[]"
        )
    )
    assert await box.store.purge(Ages(events_ms=1), 10) == 1
    assert await box.store.read({first.key: 0}) == []
    assert await box.store.purge(Ages(tasks_ms=1), 10) == 1
    assert await box.store.load(ME, "t1") is None


@check
async def purging_goes_in_batches(box: Box) -> None:
    await box.commit(*(box.create(str(n), state=COMPLETED, at=n) for n in range(25)))
    old = Ages(tasks_ms=1, events_ms=1)
    assert [await box.store.purge(old, 10) for _ in range(4)] == [20, 20, 10, 0]


@check
async def stats_count_what_there_is(box: Box) -> None:
    first = box.create("a")
    await box.commit(first, box.create("b", state=FAILED), key("k"))
    await box.commit(box.append(first))
    stats = await box.store.stats()
    assert (stats.tasks, stats.events, stats.keys) == ({WORKING: 1, FAILED: 1}, 3, 1)
    assert (stats.size > 0) == (not box.store.is_volatile)


@check
async def a_claim_watches_what_another_owns(box: Box) -> None:
    """Whoever is denied a task waits for what its owner writes: between the two nothing is missed.
    What becomes ours is watched by nobody.
    """
    if not box.is_shared:
        return
    first, idle = box.create(), box.create("t2", state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    await box.commit(first, idle)
    woken = Woken()
    other = await box.another(woken)
    record = await other.claim(ME, "t1", watch=True)
    assert (record.owner, record.pos) == (box.store.replica, 1)
    assert (await other.claim(ME, "t2", watch=True)).owner == other.replica
    await box.commit(box.append(first))
    await woken.by(first.key)
    assert idle.key not in {key for tasks in woken.tasks for key in tasks}


@check
async def posts_are_given_to_the_owner_alone(box: Box) -> None:
    """Who watches a task is woken for it too, and must not deal with what is its owner's."""
    if not box.is_shared:
        return
    first = box.create()
    await box.commit(first)
    other = await box.another()
    await other.load(ME, "t1", watch=True)
    assert await other.commit([box.post(first.key)]) == [True]
    assert await other.unread_posts([first.key]) == []
    assert len(await box.store.unread_posts([first.key])) == 1


@check
async def views_elsewhere_are_woken_and_our_own_commits_wake_nobody(box: Box) -> None:
    """A process knows what it commits itself."""
    first = box.create()
    await box.commit(first)
    await box.store.load(ME, "t1", watch=True)
    second = box.append(first)
    await box.commit(second)
    assert box.woken == []
    if box.is_shared:
        woken = Woken()
        other = await box.another(woken)
        await other.load(ME, "t1", watch=True)
        third = box.append(second)
        await box.commit(third, box.create("t2"))
        await woken.by(first.key)
        await other.unwatch([first.key])
        count = len(woken.tasks)
        await box.commit(box.append(third))
        mine = box.create("t3")
        assert await other.commit([mine]) == [True]
        assert await box.commit(box.post(mine.key)) == [True]  # comes after what came before
        await woken.by(mine.key)
        assert {key for tasks in woken.tasks[count:] for key in tasks} == {mine.key}


class Woken:
    """Which tasks a store woke us for."""

    def __init__(self) -> None:
        self.tasks: list[set[int]] = []
        self._more = asyncio.Event()

    def __call__(self, tasks: Collection[int] | None) -> None:
        if tasks is not None:
            self.tasks.append(set(tasks))
            self._more.set()

    async def by(self, key: int) -> None:
        async with asyncio.timeout(20):
            while not any(key in tasks for tasks in self.tasks):
                self._more.clear()
                await self._more.wait()


@check
async def what_a_caller_has_stored_is_counted(box: Box) -> None:
    """Snapshots, and logs without one; of this caller of this agent alone."""
    assert await box.store.stored("agent", "me") == 0
    running = box.create("running", data=b"c" + b"x" * 999)
    ended = box.create("ended", state=COMPLETED, head=b"h" * 500, artifacts=b"a" * 300)
    tenant = box.create("tenant", namespace=ME._replace(tenant="acme"), data=b"c" + b"x" * 99)
    other = box.create("other", namespace=OTHER, data=b"c" + b"x" * 9_999)
    assert await box.commit(running, ended, tenant, other) == [True] * 4
    assert await box.store.stored("agent", "me") == 1_000 + 800 + 100
    assert await box.store.stored("agent", "nobody") == 0
