"""What every store promises of webhooks."""

from typing import Any

from ...protocol import NEWEST
from ...store import FOREVER_MS, Ages, Append, Create, DeadLetter, Leaves, Outcome, Push
from .box import COMPLETED, HOUR_MS, ME, OTHER, WORKING, Box, check, checks_with

LEASE = 600_000


def push(task: int, id: str = "p1", **more: Any) -> Push:
    usual: dict[str, Any] = {
        "task": task,
        "id": id,
        "namespace": ME,
        "endpoint": "https://hooks.example",
        "version": NEWEST,
        "data": b"sealed",
    }
    return Push(**(usual | more))


def outcome(of: Push, sent: int, **more: Any) -> Outcome:
    usual: dict[str, Any] = {"task": of.task, "id": of.id, "claim": of.claim, "sent": sent}
    return Outcome(**(usual | more))


def letter(of: Push, first: int, last: int, **more: Any) -> DeadLetter:
    usual: dict[str, Any] = {
        "task": of.task,
        "push": of.id,
        "first": first,
        "last": last,
    }
    return DeadLetter(**(usual | {"error": "410"} | more))


async def take(box: Box, limit: int = 10, *, lease: int = LEASE, **more: Any) -> list[Push]:
    found: list[Push] = await box.store.pushes.take(["agent"], limit, lease_ms=lease, **more)
    return found


async def settle(box: Box, *outcomes: Outcome) -> None:
    await box.store.pushes.settle(outcomes)


async def made(box: Box, id: str = "t1", **more: Any) -> Create:
    """A task that was made with a webhook."""
    first = box.create(id, last_status=1, **more)
    first.pushes = (push(first.key),)
    assert await box.commit(first) == [True]
    return first


def grown(box: Box, after: Create | Append, **more: Any) -> Append:
    return box.append(after, **({"last_status": after.seq + 1} | more))


@check
async def a_webhook_is_stored_with_its_task_or_not_at_all(box: Box) -> None:
    """What a send registers is there when its task is, and is refused with it."""
    first = await made(box)
    twice = box.create()
    twice.pushes = (push(twice.key, "p2"),)
    assert await box.commit(twice) == [False]
    [there] = await box.store.pushes.of(first.key)
    assert (there.id, there.task_id, there.context_id, there.namespace) == ("p1", "t1", "c1", ME)
    assert (there.data, there.sent, there.upto) == (b"sealed", 0, 1)
    assert await box.store.pushes.of(twice.key) == []


@check
async def a_webhook_of_no_task_is_refused(box: Box) -> None:
    assert await box.store.pushes.put(push(12345)) is False


@check
async def webhooks_are_listed_in_the_order_they_were_registered(box: Box) -> None:
    first = box.create()
    await box.commit(first)
    for name in ("b", "a", "c"):
        assert await box.store.pushes.put(push(first.key, name))
    await box.store.pushes.put(push(first.key, "a", data=b"new"))
    there = await box.store.pushes.of(first.key)
    assert [(one.id, one.data) for one in there] == [
        ("b", b"sealed"),
        ("a", b"new"),
        ("c", b"sealed"),
    ]
    await box.store.pushes.delete(first.key, "a")
    await box.store.pushes.delete(first.key, "a")  # twice is as good as once
    assert [one.id for one in await box.store.pushes.of(first.key)] == ["b", "c"]


@check
async def a_webhook_survives_a_crash(box: Box) -> None:
    first = await made(box)
    await box.crash()
    assert [one.id for one in await box.store.pushes.of(first.key)] == ["p1"]
    assert [one.id for one in await take(box)] == ["p1"]


@check
async def webhooks_on_open_tasks_are_counted_by_caller(box: Box) -> None:
    """A limit counts what can still be sent, not what has ended."""
    first, second = await made(box), await made(box, "t2")
    assert await box.store.pushes.count(ME) == 2
    assert await box.store.pushes.count(OTHER) == 0
    await box.commit(grown(box, second, state=COMPLETED))
    assert await box.store.pushes.count(ME) == 1
    await box.store.pushes.delete(first.key, "p1")
    assert await box.store.pushes.count(ME) == 0


@check
async def a_commit_makes_the_webhooks_of_its_task_due(box: Box) -> None:
    """In the event's own commit: an event that is stored is to be delivered."""
    reported: list[None] = []
    box.store.pushes.on_due = lambda: reported.append(None)
    first, other = box.create(), box.create("t2")
    await box.commit(first, other)
    await box.store.pushes.put(push(first.key, sent=1, upto=1))
    assert await take(box) == []
    reported.clear()
    await box.commit(grown(box, first))
    assert reported
    [due] = await take(box)
    assert (due.task, due.sent, due.upto) == (first.key, 1, 2)


@check
async def artifact_events_are_due_only_where_they_are_wanted(box: Box) -> None:
    first = box.create(last_status=1)
    first.pushes = (push(first.key, "all", has_artifacts=True), push(first.key, "some"))
    await box.commit(first)
    for due in await take(box):
        await settle(box, outcome(due, 1))
    second = grown(box, first, seq=5, last_status=1)
    await box.commit(second)
    [due] = await take(box)
    assert (due.id, due.upto) == ("all", 5)
    await settle(box, outcome(due, 5))
    await box.commit(grown(box, second, seq=7, last_status=6))
    assert [(one.id, one.upto) for one in await take(box)] == [("all", 7), ("some", 6)]


@check
async def what_is_taken_is_nobody_elses_until_its_lease_ends(box: Box) -> None:
    await made(box)
    [due] = await take(box)
    assert await take(box) == []
    await settle(box, outcome(due, 0))
    [due] = await take(box, lease=0)
    [again] = await take(box)
    assert again.sent == due.sent


@check
async def after_a_crash_what_was_taken_is_due(box: Box) -> None:
    await made(box)
    await take(box, lease=0)
    await box.crash()
    assert len(await take(box)) == 1


@check
async def events_that_come_during_a_delivery_are_due_after_it(box: Box) -> None:
    """The deliverer says how far it came; both cursors stand in one row, so nothing is missed."""
    first = await made(box)
    [due] = await take(box)
    await box.commit(grown(box, first))
    assert await take(box) == []
    await settle(box, outcome(due, 1))
    [due] = await take(box)
    assert (due.sent, due.upto) == (1, 2)
    await settle(box, outcome(due, 2))
    assert await take(box) == []
    assert await box.store.pushes.next_ms(["agent"]) is None


@check
async def a_failed_attempt_is_due_at_its_time_and_new_events_do_not_change_that(
    box: Box,
) -> None:
    first = await made(box)
    [due] = await take(box)
    await settle(box, outcome(due, 0, pause_ms=HOUR_MS, tries=1, failing_ms=7, error="500"))
    later = await box.store.pushes.next_ms(["agent"])
    assert box.is_now(later - HOUR_MS)
    await box.commit(grown(box, first))
    assert await take(box) == []
    assert await box.store.pushes.next_ms(["agent"]) == later


@check
async def a_pause_ends(box: Box) -> None:
    await made(box)
    [due] = await take(box)
    await settle(box, outcome(due, 0, pause_ms=20, tries=1, failing_ms=7, error="500"))
    await box.later(40)
    [due] = await take(box)
    assert (due.tries, due.failing_ms, due.error, due.upto) == (1, 7, "500", 1)


@check
async def only_who_took_it_last_says_how_it_went(box: Box) -> None:
    """A webhook that was replaced is not moved by a delivery to its old address."""
    first = await made(box)
    [due] = await take(box)
    await box.store.pushes.put(push(first.key, data=b"new"))
    await settle(box, outcome(due, 1))
    [due] = await take(box)
    assert (due.data, due.sent, due.upto) == (b"new", 0, 1)


@check
async def the_longest_due_comes_first_and_endpoints_may_be_left_out(box: Box) -> None:
    found: list[Push] = []
    for i, endpoint in enumerate(("https://a", "https://b", "https://a")):
        first = box.create(f"t{i}", last_status=1)
        first.pushes = (push(first.key, endpoint=endpoint),)
        await box.commit(first)
        found += await take(box)
    await settle(box, *(outcome(due, 0, pause_ms=10 - i) for i, due in enumerate(found)))
    await box.later(40)
    taken = await take(box, 1)
    assert [one.task_id for one in taken] == ["t2"]
    assert [one.task_id for one in await take(box, skip=["https://a"])] == ["t1"]


@check
async def an_endpoint_can_be_postponed(box: Box) -> None:
    """While its circuit breaker is open, what is due there stands in nobody's way."""
    await made(box)
    await box.store.pushes.postpone(["agent"], "https://other", HOUR_MS)
    assert len(await take(box, lease=0)) == 1
    await box.crash()
    await box.store.pushes.postpone(["agent"], "https://hooks.example", 50)
    await box.later(100)
    assert len(await take(box, lease=0)) == 1
    await box.crash()
    await box.store.pushes.postpone(["agent"], "https://hooks.example", HOUR_MS)
    assert await take(box) == []
    assert box.is_now(await box.store.pushes.next_ms(["agent"]) - HOUR_MS)


@check
async def an_agent_takes_its_own_only(box: Box) -> None:
    await made(box)
    taken = await box.store.pushes.take(["another"], 10, lease_ms=LEASE)
    assert taken == []
    assert await box.store.pushes.next_ms(["another"]) is None


@check
async def a_disabled_webhook_is_not_due_and_says_why(box: Box) -> None:
    first = await made(box)
    [due] = await take(box)
    await settle(box, outcome(due, 0, disabled="410 Gone", error="410 Gone", failing_ms=3))
    await box.commit(grown(box, first))
    assert await take(box) == []
    [there] = await box.store.pushes.of(first.key)
    assert there.disabled == "410 Gone"
    [listed] = await box.store.pushes.listed(10, is_troubled=True)
    assert listed.id == "p1"
    await box.store.pushes.put(push(first.key))  # registered again, it is enabled
    [due] = await take(box)
    assert (due.sent, due.upto, due.disabled) == (0, 2, "")


@check
async def dead_letters_are_kept_and_replayed(box: Box) -> None:
    first = await made(box)
    second = grown(box, first)
    await box.commit(second)
    [due] = await take(box)
    await settle(box, outcome(due, 1, letter=letter(due, 1, 1)))
    [due] = await take(box)
    await settle(box, outcome(due, 2))
    await box.crash()
    [dead] = await box.store.pushes.letters(10)
    assert box.is_now(dead.at_ms)
    assert (dead.task_id, dead.push, dead.first, dead.last, dead.error) == ("t1", "p1", 1, 1, "410")
    assert await box.store.pushes.letters(10, task_id="other") == []
    [troubled] = await box.store.pushes.listed(10, is_troubled=True)
    assert troubled.id == dead.push
    assert await box.store.pushes.replay([dead.n, 999]) == 1
    assert await box.store.pushes.listed(10, is_troubled=True) == []
    [due] = await take(box)
    assert (due.sent, due.upto) == (0, 2)
    assert await box.store.pushes.letters(10) == []


@check
async def a_letter_of_a_delivery_that_does_not_count_is_not_kept(box: Box) -> None:
    first = await made(box)
    [due] = await take(box)
    await box.store.pushes.put(push(first.key))
    await settle(box, outcome(due, 1, letter=letter(due, 1, 1)))
    assert await box.store.pushes.letters(10) == []


async def _ended(box: Box) -> Append:
    first = await made(box)
    last = grown(box, first, state=COMPLETED, head=b"{}", artifacts=b"[]", leaves=Leaves.END)
    await box.commit(last)
    return last


async def _purge(box: Box, letters_ms: int = FOREVER_MS) -> None:
    await box.later()
    await box.store.purge(Ages(1, 1, 1, letters_ms), 100)


@checks_with("how", ["due", "failing", "dead"])
async def what_is_still_to_be_delivered_is_not_purged(box: Box, how: str) -> None:
    last = await _ended(box)
    if how != "due":
        [due] = await take(box)
        reported = {"pause_ms": HOUR_MS, "tries": 3, "failing_ms": 1}
        dead = {"letter": letter(due, 1, 2)}
        await settle(
            box,
            outcome(
                due,
                *((0,) if how == "failing" else (2,)),
                **(reported if how == "failing" else dead),
            ),
        )
    await _purge(box)
    await _purge(box)
    assert len(await box.store.read({last.key: 0})) == 2
    assert await box.store.load(ME, "t1") is not None


@check
async def what_was_delivered_is_purged_with_its_task(box: Box) -> None:
    last = await _ended(box)
    [due] = await take(box)
    await settle(box, outcome(due, 1, letter=letter(due, 2, 2)))
    [due] = await take(box)
    await settle(box, outcome(due, 2))
    await _purge(box)
    assert await box.store.read({last.key: 0}) != []
    await _purge(box, HOUR_MS)
    assert len(await box.store.pushes.letters(10)) == 1
    await _purge(box, letters_ms=1)
    assert await box.store.pushes.letters(10) == []
    await _purge(box)
    await _purge(box)
    assert await box.store.load(ME, "t1") is None
    assert await box.store.pushes.of(last.key) == []


@check
async def a_disabled_webhook_holds_no_log(box: Box) -> None:
    last = await _ended(box)
    [due] = await take(box)
    await settle(box, outcome(due, 0, disabled="gone"))
    await _purge(box)
    assert await box.store.read({last.key: 0}) == []


@check
async def a_task_without_webhooks_is_as_it_was(box: Box) -> None:
    """Nothing is due, and nothing is called."""
    reported: list[None] = []
    box.store.pushes.on_due = lambda: reported.append(None)
    first = box.create(state=WORKING, last_status=1)
    await box.commit(first)
    await box.commit(grown(box, first))
    assert (reported, await take(box)) == ([], [])


@check
async def an_outcome_counts_once_though_its_answer_was_lost(box: Box) -> None:
    """Given again, it makes no second dead letter."""
    await made(box)
    (taken,) = await take(box)
    said = outcome(taken, 1, letter=letter(taken, 1, 1))
    await settle(box, said)
    await settle(box, said)
    assert len(await box.store.pushes.letters(10)) == 1
