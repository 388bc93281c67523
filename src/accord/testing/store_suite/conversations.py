"""What every store promises of the states of conversations."""

from ...store import Ages, ConversationState, Namespace, StateWrite
from .box import COMPLETED, INPUT_REQUIRED, ME, OTHER, WORKING, Box, check, key


def write(data: bytes, read: int = 0, context: str = "c1") -> StateWrite:
    return StateWrite(context, read, data)


def purge_all() -> Ages:
    return Ages(tasks_ms=1, events_ms=1)


@check
async def a_state_is_stored_with_the_item_it_came_with(box: Box) -> None:
    """It is found by (agent, tenant, caller) and context, and counts its writes."""
    first = box.create(conversation=write(b'{"a":1}'))
    await box.commit(first)
    assert await box.store.conversation_state(ME, "c1") == ConversationState(1, b'{"a":1}')
    await box.commit(box.append(first, conversation=write(b'{"a":2}', 1)))
    assert await box.store.conversation_state(ME, "c1") == ConversationState(2, b'{"a":2}')
    for place in ((OTHER, "c1"), (ME, "c2"), (Namespace("agent", "acme", "me"), "c1")):
        assert await box.store.conversation_state(*place) is None


@check
async def an_item_that_is_refused_leaves_the_state_alone(box: Box) -> None:
    first = box.create(conversation=write(b"{}"), idempotency=key("k"))
    await box.commit(first)
    late = box.append(first, before=7, conversation=write(b'{"late":1}', 1))
    twin = box.create("t2", conversation=write(b'{"twin":1}', 1), idempotency=key("k"))
    assert await box.commit(late, twin) == [False, False]
    assert await box.store.conversation_state(ME, "c1") == ConversationState(1, b"{}")


@check
async def a_state_goes_with_the_last_task_of_its_conversation(box: Box) -> None:
    """One that waits or is worked on keeps it too."""
    for id_, context, state in (
        ("a", "gone", COMPLETED),
        ("b", "gone", COMPLETED),
        ("c", "waits", COMPLETED),
        ("d", "waits", INPUT_REQUIRED),
        ("e", "works", COMPLETED),
        ("f", "works", WORKING),
    ):
        made = box.create(id_, context=context, state=state, conversation=write(b"{}", 0, context))
        assert await box.commit(made) == [True]
    await box.store.purge(purge_all(), 100)
    await box.store.purge(purge_all(), 100)
    assert await box.ids() == ["f", "d"]
    assert await box.store.conversation_state(ME, "gone") is None
    assert await box.store.conversation_state(ME, "waits") is not None
    assert await box.store.conversation_state(ME, "works") is not None


@check
async def a_state_counts_as_stored_by_its_caller(box: Box) -> None:
    made = box.create(data=b"c" * 100, conversation=write(b" " * 900))
    other = box.create(namespace=OTHER, conversation=write(b" " * 7))
    await box.commit(made, other)
    assert await box.store.stored("agent", "me") == 1_000


@check
async def another_replica_finds_it(box: Box) -> None:
    if not box.is_shared:
        return
    other = await box.another()
    await box.commit(box.create(conversation=write(b'{"a":1}')))
    assert await other.conversation_state(ME, "c1") == ConversationState(1, b'{"a":1}')
