"""One commit, many items: each is stored or refused by its own condition, and none harms its
neighbours."""

from typing import Any

from msgspec.structs import replace

from ...store import (
    FOREVER_MS,
    MAX_POSTS,
    Can,
    Idempotency,
    Leaves,
    PostKind,
)
from .box import (
    COMPLETED,
    HOUR_MS,
    INPUT_REQUIRED,
    ME,
    OTHER,
    WORKING,
    Box,
    check,
    checks_with,
    key,
)


@check
async def an_id_is_given_once(box: Box) -> None:
    """The second of two that want it is refused, in one batch or two; nothing of it is stored."""
    first, second = box.create(data=b"one"), box.create(data=b"two", idempotency=key("k"))
    assert await box.commit(first, second, box.create("t2")) == [True, False, True]
    assert await box.commit(box.create()) == [False]
    assert (await box.store.load(ME, "t1")).key == first.key
    assert await box.store.read({second.key: 0}) == []
    assert await box.store.idempotency(ME, "k") is None
    assert (await box.store.stats()).tasks == {WORKING: 2}


@check
async def an_idempotency_key_is_stored_with_its_item(box: Box) -> None:
    """What it stands for can be found as soon as the task can, in its namespace and for its
    time.
    """
    kept = key("k", task_id="t1", turn=1)
    assert await box.commit(box.create(idempotency=kept)) == [True]
    found = await box.store.idempotency(ME, "k")
    assert box.is_now(found.at_ms)
    assert replace(found, at_ms=0, kept_ms=kept.kept_ms) == kept
    await box.later()
    assert await box.store.idempotency(ME, "k", HOUR_MS) == found
    assert await box.store.idempotency(ME, "k", 1) is None
    assert await box.store.idempotency(OTHER, "k") is None


@checks_with("kind", ["create", "append", "post", "reply"])
async def a_used_key_refuses_every_kind_of_item(box: Box, kind: str) -> None:
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

    before = await box.store.idempotency(ME, "k")
    assert before.reply == b"r"
    await box.later()
    for kept_ms in (HOUR_MS, FOREVER_MS):
        assert await box.commit(item(key("k", kept_ms=kept_ms))) == [False]
    assert await box.store.idempotency(ME, "k") == before
    assert await box.store.load(ME, "t2") is None
    assert (await box.store.load(ME, "t1")).pos == 1
    assert await box.store.unread_posts(None) == []
    assert await box.commit(item(key("k", kept_ms=1, post=7, turn=3))) == [True], (
        "one that has expired is free"
    )
    again = await box.store.idempotency(ME, "k")
    assert (again.post, again.turn, again.reply) == (7, 3, b"")
    assert before.at_ms < again.at_ms, "and its time begins anew"
    second = box.create("t3", idempotency=key("k", kept_ms=-1))
    assert await box.commit(second) == [True], "one that stands for nothing is free"


@check
async def one_batch_uses_a_key_once(box: Box) -> None:
    """Two requests with one key may wait for the same commit."""
    outcomes = await box.commit(
        box.create(idempotency=key("k")), box.create("t2", idempotency=key("k")), key("k")
    )
    assert outcomes == [True, False, False]
    assert await box.ids() == ["t1"]


@check
async def a_refused_item_uses_no_key(box: Box) -> None:
    """Its sender will try another way, with the same key."""
    assert await box.commit(box.create()) == [True]
    assert await box.commit(
        box.create(idempotency=key("k")), box.post(99, idempotency=key("k")), key("k")
    ) == [False, False, True]


@check
async def a_post_reaches_the_owner_once(box: Box) -> None:
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


@check
async def posts_come_in_order(box: Box) -> None:
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


@check
async def nobody_to_post_to(box: Box) -> None:
    """Without an owner nobody would read it: who posts claims instead."""
    idle, ended = (
        box.create("idle", state=INPUT_REQUIRED, leaves=Leaves.IDLE),
        box.create("ended", state=COMPLETED),
    )
    lost = box.create("lost")
    await box.commit(idle, ended, lost)
    await box.crash()
    assert (
        await box.commit(*(box.post(task) for task in (idle.key, ended.key, lost.key, 99)))
        == [False] * 4
    )


@check
async def a_task_with_an_unread_post_keeps_its_owner(box: Box) -> None:
    """The race of a post and an owner that leaves: one of the two sees the other, whichever is
    first.
    """
    first = box.create()
    await box.commit(first, box.post(first.key))
    second = box.append(first, state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    await box.commit(second)
    assert (await box.store.load(ME, "t1")).owner == box.store.replica, (
        "it stays, and reads the post"
    )
    third = box.append(second, posts_read=1, leaves=Leaves.IDLE)
    assert await box.commit(third, box.post(first.key)) == [True, False], (
        "it has left, and the poster knows"
    )
    assert (await box.store.load(ME, "t1")).owner == 0
    await box.store.claim(ME, "t1")
    fourth = box.append(third, posts_read=1, leaves=Leaves.IDLE)
    assert await box.commit(box.post(first.key), fourth) == [True, True]
    assert (await box.store.load(ME, "t1")).owner == box.store.replica


@check
async def an_end_deletes_what_nobody_read(box: Box) -> None:
    """And nothing of it is left for one who reopens the task: that can be given up again."""
    first = box.create()
    await box.commit(first, box.post(first.key))
    second = box.append(first, state=COMPLETED, leaves=Leaves.END)
    await box.commit(second)
    assert await box.store.unread_posts([first.key]) == []
    record = await box.store.claim(ME, "t1", reopen=True)
    assert record.posts == record.posts_read
    await box.commit(box.append(second, state=INPUT_REQUIRED, leaves=Leaves.IDLE))
    assert (await box.store.load(ME, "t1")).owner == 0


@check
async def a_post_to_what_was_only_claimed_survives(box: Box) -> None:
    """Whoever takes the task up after a crash finds it."""
    first = box.create(state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    await box.commit(first)
    await box.store.claim(ME, "t1")
    assert await box.commit(box.post(first.key)) == [True]
    await box.crash()
    (record,) = await box.store.orphans(9, Can({"agent": {"echo"}}, 2))
    assert (record.id, len(await box.store.unread_posts(None))) == ("t1", 1)


@check
async def a_flood_of_posts_is_refused(box: Box) -> None:
    """An owner that is slow or gone must not fill the store."""
    first = box.create()
    await box.commit(first)
    assert (
        await box.commit(*(box.post(first.key) for _ in range(MAX_POSTS + 2)))
        == [True] * MAX_POSTS + [False] * 2
    )
    await box.commit(box.append(first, posts_read=1))
    assert await box.commit(box.post(first.key), box.post(first.key)) == [True, False]


@check
async def a_post_to_what_was_to_be_reopened_survives(box: Box) -> None:
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


@check
async def who_leaves_a_task_it_only_claimed_gets_no_posts(box: Box) -> None:
    """The poster of the same batch sees that it has left, and claims."""
    first = box.create()
    await box.commit(first)
    await box.crash()
    await box.store.claim(ME, "t1")
    left = box.append(first, state=INPUT_REQUIRED, leaves=Leaves.IDLE)
    assert await box.commit(left, box.post(first.key)) == [True, False]
