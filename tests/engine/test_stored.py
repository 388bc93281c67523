"""A large task is read piece by piece, and is the same then."""

import asyncio

import msgspec
import pytest

from accord.codec import v1
from accord.engine.log.stored import read, shortened, snapshot_of, task_of
from accord.engine.offload import LARGE
from accord.model import Artifact, ArtifactUpdate, Limits, Message, Part, Role, StatusUpdate, Task, TaskState, TaskStatus
from accord.store import Record, Scope

LIMITS = Limits()
DONE = TaskStatus(state=TaskState.COMPLETED, timestamp="2026-03-01T00:00:00.000Z")


def message(n, size=LARGE):
    return Message(message_id=f"m{n}", role=Role.USER, parts=[Part(text="x" * size), Part(data={"n": n})])


def record(tail=(), state=TaskState.WORKING):
    """A task of three large messages and two artifacts, one of them large; and what was logged since."""
    task = Task(id="t", context_id="c", status=TaskStatus(state=state), history=[message(n) for n in range(3)])
    artifacts = [Artifact(artifact_id=f"a{n}", parts=[Part(text="y" * size)]) for n, size in enumerate((LARGE, 10))]
    lines = [
        (b"m" if isinstance(e, Message) else b"v") + (v1.encode(e) if isinstance(e, Message) else v1.encode_event(e)) for e in tail
    ]
    pos = 5 + len(lines)
    return Record(1, Scope(), "t", "c", 2, 0, 5, pos, 5, b"{}", v1.encode(task), v1.encode(artifacts), lines)


TAIL = [
    ArtifactUpdate(task_id="t", context_id="c", artifact=Artifact(artifact_id="a0", parts=[Part(text="more")]), append=True),
    message(3),
    StatusUpdate(task_id="t", context_id="c", status=DONE),
]


@pytest.mark.parametrize("tail", [[], TAIL], ids=["as stored", "gone on"])
async def test_pieces_make_the_same_task(tail):
    """And its text, of which most is what it was read from."""
    stored = record(tail)
    task, texts = await read(stored, LIMITS)
    assert task == task_of(stored, LIMITS)
    for history_length in (None, 0, 2, 9):
        assert texts.picture(task, stored.seq, history_length) == snapshot_of(stored, history_length, LIMITS)


async def test_others_have_their_turn_while_it_is_read():
    """One after each message: what the loop does for others is not held up by the whole."""
    turns, reading = 0, asyncio.create_task(read(record(), LIMITS))
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3


async def test_what_is_not_what_was_written_is_an_error():
    stored = record([StatusUpdate(task_id="t", context_id="c", status=DONE), message(3)])
    with pytest.raises(ValueError, match="the log is broken"):
        await read(stored, LIMITS)
    for head in (b'{"id":"t","status":{', b'{"id":1,"status":{"state":"TASK_STATE_WORKING"}}', b"{}", b""):
        with pytest.raises(msgspec.DecodeError):
            await read(msgspec.structs.replace(stored, head=head), LIMITS)


@pytest.mark.parametrize("length", [0, 1, 3, 9])
def test_less_history_is_the_last_of_it(length):
    stored = record()
    assert shortened(stored.head, length) == snapshot_of(stored, length, LIMITS).head
