"""One commit, many items: each is stored or refused by its own condition, and none harms its
neighbours.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accord.store import FOREVER_MS
from accord.store.contract import (
    Ages,
    Can,
    Create,
    Leaves,
    Record,
)
from tests.postgres import schema_url
from tests.reliability.harness import size

from .conftest import COMPLETED, INPUT_REQUIRED, ME, WORKING, Box, key

IDS, KEYS = ["a", "b", "c"], ["k", "l"]


KEYED = st.none() | st.builds(
    lambda name, turn, kept_ms: key(name, turn=turn, kept_ms=kept_ms),
    st.sampled_from(KEYS),
    st.integers(0, 3),
    st.sampled_from([FOREVER_MS, -1]),
)


STANDS = st.sampled_from(
    [
        (WORKING, Leaves.STAY),
        (INPUT_REQUIRED, Leaves.STAY),
        (INPUT_REQUIRED, Leaves.IDLE),
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
            kept = [await box.store.idempotency(ME, name) for box in (self.memory, self.other)]
            assert len({k and (k.key, k.turn) for k in kept}) == 1
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
                ages = Ages(tasks_ms=1, events_ms=1)
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
