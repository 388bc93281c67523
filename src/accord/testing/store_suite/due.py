"""Tasks that are due at a time: those whose function sleeps, and those whose question has a
deadline.
"""

from typing import Any

from ...store import Append, Can, Create, Leaves, Namespace
from .box import INPUT_REQUIRED, ME, Box, check

__all__: list[str] = []

LATER = 1 << 52  # some 140,000 years from 1970


def can(**more: Any) -> Can:
    usual: dict[str, Any] = {"agents": {"agent": {"echo"}}, "format": 2}
    return Can(**(usual | more))


async def due(box: Box, limit: int = 9, **more: Any) -> list[str]:
    return [record.id for record in await box.store.due(limit, can(**more))]


def sleeping(box: Box, id: str, due_ms: int, **more: Any) -> Create:
    """A task that was made and given up in one commit."""
    return box.create(id, leaves=Leaves.IDLE, due_ms=due_ms, **more)


@check
async def what_is_due_comes_once_in_order_and_in_bites(box: Box) -> None:
    """A million that are due at nine o'clock must not start at once; none is forgotten."""
    await box.commit(*(sleeping(box, f"t{n}", 10 - n) for n in range(5)))
    assert await due(box, 0) == []
    assert await due(box, 2) == ["t4", "t3"]
    assert await due(box) == ["t2", "t1", "t0"]
    assert await due(box) == []
    assert sorted(task.id for task in await box.store.owned()) == ["t0", "t1", "t2", "t3", "t4"]


@check
async def nothing_is_due_before_its_time(box: Box) -> None:
    """A timer is never early."""
    await box.commit(sleeping(box, "t1", LATER), box.create("t2", leaves=Leaves.IDLE))
    assert await due(box) == []
    record = await box.store.load(ME, "t1")
    assert (record.due_ms, record.owner) == (LATER, 0)
    assert (await box.store.load(ME, "t2")).due_ms == 0


@check
async def what_has_an_owner_is_not_due(box: Box) -> None:
    """Its owner looks after it."""
    await box.commit(box.create(due_ms=5))
    assert await due(box) == []


@check
async def a_commit_says_when_a_task_is_due_or_leaves_it_as_it_is(box: Box) -> None:
    """A message is stored without waking whoever sleeps; an answer ends the deadline."""
    first = sleeping(box, "t1", LATER)
    await box.commit(first)
    await box.store.claim(ME, "t1")
    second = box.append(first, leaves=Leaves.IDLE)
    await box.commit(second)
    assert (await box.store.load(ME, "t1")).due_ms == LATER
    third = await _again(box, second, due_ms=7)
    assert (await box.store.load(ME, "t1")).due_ms == 7
    await _again(box, third, due_ms=0)
    assert (await box.store.load(ME, "t1")).due_ms == 0
    assert await due(box) == []


async def _again(box: Box, after: Append, due_ms: int) -> Append:
    await box.store.claim(ME, "t1")
    item = box.append(after, leaves=Leaves.IDLE, due_ms=due_ms)
    assert await box.commit(item) == [True]
    return item


@check
async def one_that_was_claimed_and_given_back_is_due_again(box: Box) -> None:
    """A message that was refused must not cost the task its timer."""
    first = sleeping(box, "t1", 5)
    await box.commit(first)
    await box.store.claim(ME, "t1")
    assert await due(box) == []
    await box.store.unclaim(first.key, first.pos)
    assert await due(box) == ["t1"]


@check
async def one_that_is_given_back_after_a_commit_is_due_again(box: Box) -> None:
    """Its owner stayed with its last commit, and leaves without another one."""
    first = sleeping(box, "t1", 5)
    await box.commit(first)
    await box.store.claim(ME, "t1")
    refused = box.append(first)
    assert await box.commit(refused) == [True]
    await box.store.unclaim(refused.key, first.pos)
    assert await due(box) == [], "its log has grown since"
    await box.store.unclaim(refused.key, refused.pos)
    assert await box.store.owned() == []
    assert await due(box) == ["t1"]


@check
async def what_a_dead_process_had_taken_is_due_again_or_an_orphan(box: Box) -> None:
    """It died before it could store anything: the timer must fire all the same."""
    await box.commit(sleeping(box, "t1", 5))
    assert await due(box) == ["t1"]
    await box.crash()
    orphans = [record.id for record in await box.store.orphans(9, can())]
    assert orphans + await due(box) == ["t1"]


@check
async def a_question_with_a_deadline_keeps_it_when_its_process_dies(box: Box) -> None:
    """It waits for its client without an owner, and is due all the same; it is not failed for
    being open for long.
    """
    await box.commit(box.create(state=INPUT_REQUIRED, due_ms=5))
    await box.crash()
    assert await box.store.orphans(9, can(unanswered_ms=0)) == []
    assert await due(box) == ["t1"]


@check
async def what_we_cannot_do_is_left_to_others_and_in_nobodys_way(box: Box) -> None:
    """Tasks of another agent, and in a newer format."""
    another = Namespace("another", "", "me")
    await box.commit(
        sleeping(box, "theirs", 1, namespace=another),
        sleeping(box, "newer", 2, format=3),
        sleeping(box, "mine", 3),
    )
    assert await due(box, 1) == ["mine"]
    assert await due(box, format=3) == ["newer"]
    assert await due(box, agents={"another": {"echo"}}) == ["theirs"]


@check
async def two_processes_share_what_is_due(box: Box) -> None:
    """Each timer fires in one of them."""
    if not box.is_shared:
        return
    other = await box.another()
    await box.commit(*(sleeping(box, f"t{n}", n + 1) for n in range(6)))
    ours = await due(box, 2)
    theirs = [record.id for record in await other.due(9, can())]
    assert sorted(ours + theirs) == [f"t{n}" for n in range(6)]
    assert await due(box) == []
