"""One commit, many items: each is stored or refused by its own condition, and none harms its
neighbours.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.store.contract import (
    MAX_POSTS,
    Ages,
    Can,
    Create,
    Idempotency,
    Leaves,
    PostKind,
    Record,
)
from tests.postgres import schema_url
from tests.reliability.harness import size

from .conftest import COMPLETED, INPUT_REQUIRED, ME, OTHER, WORKING, Box, key

# Ids and idempotency keys


async def test_an_id_is_given_once(box: Box) -> None:
    """The second of two that want it is refused, in one batch or two; nothing of it is stored."""
    first, second = box.create(data=b"one"), box.create(data=b"two", idempotency=key("k"))
    assert await box.commit(first, second, box.create("t2")) == [True, False, True]
    assert await box.commit(box.create()) == [False]
    assert (await box.store.load(ME, "t1")).key == first.key
    assert await box.store.read({second.key: 0}) == []
    assert await box.store.idempotency(ME, "k", 0) is None
    assert (await box.store.stats()).tasks == {WORKING: 2}


async def test_an_idempotency_key_is_stored_with_its_item(box: Box) -> None:
    """What it stands for can be found as soon as the task can, in its namespace and for its
    time.
    """
    kept = key("k", task_id="t1", turn=1)
    assert await box.commit(box.create(idempotency=kept)) == [True]
    assert await box.store.idempotency(ME, "k", 5_000) == kept
    assert await box.store.idempotency(ME, "k", 5_001) is None
    assert await box.store.idempotency(OTHER, "k", 0) is None


@pytest.mark.parametrize("kind", ["create", "append", "post", "reply"])
async def test_a_used_key_refuses_every_kind_of_item(box: Box, kind: str) -> None:
    """Whatever the first request became, the second must not be done again; and it leaves no
    trace.
    """
    first = box.create()
    reply = key("k", reply=b"r")
    await box.commit(first, reply)

    def item(again: Idempotency) -> Any:
        return {
            "create": box.create("t2", idempotency=again),
            "append": box.append(first, idempotency=again),
            "post": box.post(first.key, idempotency=again),
            "reply": again,
        }[kind]

    assert await box.commit(item(key("k", at_ms=6_000, expired_ms=5_000))) == [False]
    assert await box.store.idempotency(ME, "k", 0) == reply
    assert await box.store.load(ME, "t2") is None
    assert (await box.store.load(ME, "t1")).pos == 1
    assert await box.store.unread_posts(None) == []
    assert await box.commit(item(key("k", at_ms=6_000, expired_ms=5_001, post=7, turn=3))) == [
        True
    ], "one that has expired is free"
    again = await box.store.idempotency(ME, "k", 0)
    assert (again.at_ms, again.post, again.turn, again.reply) == (6_000, 7, 3, b"")


async def test_one_batch_uses_a_key_once(box: Box) -> None:
    """Two requests with one key may wait for the same commit."""
    outcomes = await box.commit(
        box.create(idempotency=key("k")), box.create("t2", idempotency=key("k")), key("k")
    )
    assert outcomes == [True, False, False]
    assert await box.ids() == ["t1"]


async def test_a_refused_item_uses_no_key(box: Box) -> None:
    """Its sender will try another way, with the same key."""
    assert await box.commit(box.create()) == [True]
    assert await box.commit(
        box.create(idempotency=key("k")), box.post(99, idempotency=key("k")), key("k")
    ) == [False, False, True]


# Posts


async def test_a_post_reaches_the_owner_once(box: Box) -> None:
    """It is woken, finds the post, and deletes it with the commit that deals with it."""
    first = box.create()
    await box.commit(first)
    post = box.post(first.key, kind=PostKind.CANCEL, body=b"why")
    assert await box.commit(post) == [True]
    assert [set(tasks) for tasks in box.woken] == [{first.key}]
    (unread_posts,) = await box.store.unread_posts([first.key])
    assert unread_posts == (first.key, 1, post.id, PostKind.CANCEL, b"why")
    assert await box.store.unread_posts(None) == [unread_posts]
    assert await box.store.unread_posts([99]) == []
    assert (await box.store.load(ME, "t1")).posts == 1
    await box.commit(box.append(first, posts_read=1))
    assert await box.store.unread_posts(None) == []
    record = await box.store.load(ME, "t1")
    assert (record.posts, record.posts_read) == (1, 1)


async def test_posts_come_in_order(box: Box) -> None:
    """And those that came after the last one dealt with stay."""
    first, other = box.create(), box.create("t2")
    await box.commit(first, other)
    await box.commit(
        *(box.post(first.key, body=b"%d" % n) for n in range(3)), box.post(other.key, body=b"other")
    )
    await box.commit(box.append(first, posts_read=2))
    assert [
        (unread_posts.n, unread_posts.body) for unread_posts in await box.store.unread_posts(None)
    ] == [
        (3, b"2"),
        (1, b"other"),
    ]


async def test_nobody_to_post_to(box: Box) -> None:
    """Without an owner nobody would read it: who posts claims instead."""
    rests, ended = (
        box.create("rests", state=INPUT_REQUIRED, leaves=Leaves.REST),
        box.create("ended", state=COMPLETED),
    )
    lost = box.create("lost")
    await box.commit(rests, ended, lost)
    await box.crash()
    assert (
        await box.commit(*(box.post(task) for task in (rests.key, ended.key, lost.key, 99)))
        == [False] * 4
    )


async def test_a_task_does_not_rest_on_an_unread_post(box: Box) -> None:
    """The race of a post and an owner that leaves: one of the two sees the other, whichever is
    first.
    """
    first = box.create()
    await box.commit(first, box.post(first.key))
    second = box.append(first, state=INPUT_REQUIRED, leaves=Leaves.REST)
    await box.commit(second)
    assert (await box.store.load(ME, "t1")).owner == box.store.replica, (
        "it stays, and reads its mail"
    )
    third = box.append(second, posts_read=1, leaves=Leaves.REST)
    assert await box.commit(third, box.post(first.key)) == [True, False], (
        "it has left, and the poster knows"
    )
    assert (await box.store.load(ME, "t1")).owner == 0
    await box.store.claim(ME, "t1")
    fourth = box.append(third, posts_read=1, leaves=Leaves.REST)
    assert await box.commit(box.post(first.key), fourth) == [True, True]
    assert (await box.store.load(ME, "t1")).owner == box.store.replica


async def test_an_end_deletes_what_nobody_read(box: Box) -> None:
    """And nothing of it is left for one who reopens the task: it can rest again."""
    first = box.create()
    await box.commit(first, box.post(first.key))
    second = box.append(first, state=COMPLETED, leaves=Leaves.END)
    await box.commit(second)
    assert await box.store.unread_posts([first.key]) == []
    record = await box.store.claim(ME, "t1", reopen=True)
    assert record.posts == record.posts_read
    await box.commit(box.append(second, state=INPUT_REQUIRED, leaves=Leaves.REST))
    assert (await box.store.load(ME, "t1")).owner == 0


async def test_a_post_to_what_was_only_claimed_survives(box: Box) -> None:
    """Whoever takes the task up after a crash finds it."""
    first = box.create(state=INPUT_REQUIRED, leaves=Leaves.REST)
    await box.commit(first)
    await box.store.claim(ME, "t1")
    assert await box.commit(box.post(first.key)) == [True]
    await box.crash()
    (record,) = await box.store.orphans(9, Can({"agent": {"echo"}}, 2))
    assert (record.id, len(await box.store.unread_posts(None))) == ("t1", 1)


async def test_a_flood_of_posts_is_refused(box: Box) -> None:
    """An owner that is slow or gone must not fill the store."""
    first = box.create()
    await box.commit(first)
    assert (
        await box.commit(*(box.post(first.key) for _ in range(MAX_POSTS + 2)))
        == [True] * MAX_POSTS + [False] * 2
    )
    await box.commit(box.append(first, posts_read=1))
    assert await box.commit(box.post(first.key), box.post(first.key)) == [True, False]


async def test_a_post_to_what_was_to_be_reopened_survives(box: Box) -> None:
    """Also to a task that had ended: its owner died before it began the task anew."""
    first = box.create()
    second = box.append(first, state=COMPLETED, leaves=Leaves.END)
    await box.commit(first)
    await box.commit(second)
    await box.store.claim(ME, "t1", reopen=True)
    assert await box.commit(box.post(first.key)) == [True]
    await box.crash()
    (record,) = await box.store.orphans(9, Can({"agent": {"echo"}}, 2))
    assert (record.id, len(await box.store.unread_posts(None))) == ("t1", 1)


async def test_who_leaves_a_task_it_only_claimed_gets_no_posts(box: Box) -> None:
    """The poster of the same batch sees that it has left, and claims."""
    first = box.create()
    await box.commit(first)
    await box.crash()
    await box.store.claim(ME, "t1")
    left = box.append(first, state=INPUT_REQUIRED, leaves=Leaves.REST)
    assert await box.commit(left, box.post(first.key)) == [True, False]


# All mixes: every store does what the reference does

IDS, KEYS = ["a", "b", "c"], ["k", "l"]
KEYED = st.none() | st.builds(
    lambda name, at, gone: key(name, at_ms=at, expired_ms=gone),
    st.sampled_from(KEYS),
    *[st.integers(0, 3)] * 2,
)
STANDS = st.sampled_from(
    [
        (WORKING, Leaves.STAY),
        (INPUT_REQUIRED, Leaves.STAY),
        (INPUT_REQUIRED, Leaves.REST),
        (COMPLETED, Leaves.END),
    ]
)
ITEMS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(IDS), STANDS, KEYED),
    st.tuples(
        st.just("append"),
        st.sampled_from(IDS),
        STANDS,
        KEYED,
        st.integers(0, 3),
        st.booleans(),
        st.integers(0, 9).map(bool),
    ),
    st.tuples(st.just("post"), st.sampled_from(IDS), KEYED),
    st.tuples(st.just("key"), KEYED),
)
ACTS = st.one_of(
    st.tuples(st.just("commit"), st.lists(ITEMS, max_size=6)),
    st.tuples(st.just("claim"), st.sampled_from(IDS), st.booleans()),
    st.tuples(st.sampled_from(["crash", "purge"])),
)


class Pair:
    """The same done to memory and to another store."""

    def __init__(self, place: Path | str) -> None:
        self.memory, self.other = Box(None), Box(place)
        self.last: dict[str, Create | Any] = {}  # the newest stored item of each task

    async def commit(self, wanted: list[tuple[Any, ...]]) -> None:
        items: list[Any] = []
        touched: set[str] = set()
        for what in wanted:
            items += [item for item in [self._item(touched, *what)] if item is not None]
        outcomes = await self.memory.commit(*items)
        assert await self.other.commit(*items) == outcomes
        for item, is_stored in zip(items, outcomes, strict=True):
            if is_stored and hasattr(item, "pos"):
                (id_,) = [
                    i
                    for i in IDS
                    if getattr(item, "id", None) == i
                    or (i in self.last and self.last[i].key == item.key)
                ]
                self.last[id_] = item

    def _item(self, touched: set[str], kind: str, *how: Any) -> Any:
        if kind == "key":
            return how[0]
        id_, *how_ = how
        if kind == "create":
            (state, leaves), keyed = how_
            if id_ in touched:  # a task occurs once in a batch
                return None
            touched.add(id_)
            return self.memory.create(id_, state=state, leaves=leaves, idempotency=keyed)
        if id_ not in self.last:
            return None
        if kind == "post":
            return self.memory.post(self.last[id_].key, idempotency=how_[0])
        (state, leaves), keyed, posts_read, has_snapshot, is_right = how_
        if id_ in touched:
            return None
        touched.add(id_)
        snapshot = {"head": b"{}", "artifacts": b"[]"} if has_snapshot else {}
        after = self.last[id_]
        before = {} if is_right else {"before": after.pos + 1, "pos": after.pos + 2}
        at = after.at_ms + posts_read
        return self.memory.append(
            after,
            state=state,
            leaves=leaves,
            at=at,
            posts_read=posts_read,
            idempotency=keyed,
            **snapshot,
            **before,
        )

    async def same(self) -> None:
        for id_ in IDS:
            records = [await box.store.load(ME, id_) for box in (self.memory, self.other)]
            assert _told(records[0]) == _told(records[1])
        for ask in (
            lambda store: store.unread_posts(None),
            lambda store: store.unread_posts([item.key for item in self.last.values()]),
        ):
            assert await ask(self.memory.store) == await ask(self.other.store)
        for name in KEYS:
            kept = [await box.store.idempotency(ME, name, 0) for box in (self.memory, self.other)]
            assert [k and (k.key, k.at_ms) for k in kept[:1]] == [
                k and (k.key, k.at_ms) for k in kept[1:]
            ]
        assert await self.memory.ids() == await self.other.ids()
        for state in (WORKING, INPUT_REQUIRED, COMPLETED):
            assert await self.memory.ids(state=state, context_id="c1") == await self.other.ids(
                state=state, context_id="c1"
            )
        stats = [await box.store.stats() for box in (self.memory, self.other)]
        assert [(s.tasks, s.events, s.keys) for s in stats[:1]] == [
            (s.tasks, s.events, s.keys) for s in stats[1:]
        ]


def _told(record: Record | None) -> Any:
    if record is None:
        return None
    rows = [(row.pos, row.seq, row.data) for row in record.rows]
    stands = (
        record.state,
        record.at_ms,
        record.pos,
        record.seq,
        record.owner,
        record.posts,
        record.posts_read,
    )
    return record.key, *stands, record.snap, record.head, record.artifacts, rows


@settings(max_examples=size(80, 5_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTS, max_size=12))
def test_every_mix_of_items_has_the_outcome_of_the_reference(acts: list[tuple[Any, ...]]) -> None:
    """Creates, appends, posts and keys, good and bad beside each other, with claims, deaths and
    purges in between.
    """
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder) / "tasks.db", acts))


@settings(
    derandomize=True,
    max_examples=size(20, 1_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(ACTS, max_size=12))
def test_the_same_in_postgresql(acts: list[tuple[Any, ...]]) -> None:
    with schema_url() as url:
        asyncio.run(compare(url, acts))


async def compare(place: Path | str, acts: list[tuple[Any, ...]]) -> None:
    """Do the same with the reference and with another store."""
    pair = Pair(place)
    boxes = (pair.memory, pair.other)
    for box in boxes:
        await box.open()
    try:
        for what, *how in acts:
            if what == "commit":
                await pair.commit(how[0])
            elif what == "claim":
                found = [await box.store.claim(ME, how[0], reopen=how[1]) for box in boxes]
                assert _told(found[0]) == _told(found[1])
            elif what == "purge":
                ages = Ages(tasks_ms=2_000, events_ms=2_000, keys_ms=1)
                assert len({await box.store.purge(ages, 2) for box in boxes}) == 1
                pair.last = {
                    i: item
                    for i, item in pair.last.items()
                    if await pair.memory.store.load(ME, i) is not None
                }
            else:
                for box in boxes:
                    await box.crash()
                can = Can({"agent": {"echo"}}, 2)
                orphans = [
                    [record.id for record in await box.store.orphans(9, can)] for box in boxes
                ]
                assert orphans[0] == orphans[1]
            await pair.same()
    finally:
        for box in boxes:
            await box.close()
