"""What every store promises of the states of conversations, asked of each of them."""

import logging

import pytest

from accord.store.contract import ConversationState
from accord.testing.store_suite.conversations import write

from .conftest import ME, Box


async def test_the_later_of_two_turns_wins_whole_and_that_is_logged(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    """In one commit or in two. A task that writes again overwrites nobody."""
    caplog.set_level(logging.WARNING, "accord")
    one, two = box.create("one"), box.create("two")
    await box.commit(one, two)
    second = box.append(one, conversation=write(b'{"one":1}'))
    assert await box.commit(second, box.append(two, conversation=write(b'{"two":1}'))) == [True] * 2
    assert await box.store.conversation_state(ME, "c1") == ConversationState(2, b'{"two":1}')
    assert [r.message.partition(":")[0] for r in caplog.records] == ["conversation c1"]
    caplog.clear()
    third = box.append(second, conversation=write(b'{"one":2}'))
    await box.commit(third)
    assert len(caplog.records) == 1
    caplog.clear()
    await box.commit(box.append(third, conversation=write(b'{"one":3}')))
    assert await box.store.conversation_state(ME, "c1") == ConversationState(4, b'{"one":3}')
    assert caplog.records == []


async def test_a_turn_that_read_the_newest_state_overwrites_nobody(
    box: Box, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "accord")
    await box.commit(box.create("one", conversation=write(b'{"n":1}')))
    await box.commit(box.create("two", conversation=write(b'{"n":2}', 1)))
    assert await box.store.conversation_state(ME, "c1") == ConversationState(2, b'{"n":2}')
    assert caplog.records == []


async def test_a_state_outlives_its_process(lasting_box: Box) -> None:
    """Also a large one."""
    data = b'"%b"' % (b"x" * 1_000_000)
    await lasting_box.commit(lasting_box.create(conversation=write(data)))
    await lasting_box.crash()
    assert await lasting_box.store.conversation_state(ME, "c1") == ConversationState(1, data)
