"""Large tasks: what is large is encoded once, read in pieces, and the same in every answer."""

import base64
import json
from typing import Any

import msgspec
import pytest

from accord import Agent, Artifact, Context, File, Limits, Message, Part
from accord.engine.log.entries import (
    ENCODE,
    STATE_NUMBER,
    ArtifactChanged,
    Entry,
    Ids,
    MessageAdded,
    StatusChanged,
    Visible,
    entries_of,
)
from accord.engine.log.snapshot import encode_task, read_snapshot, read_task, shorten
from accord.engine.offloading import LARGE
from accord.model import ArtifactUpdate, Fold, Role, StatusUpdate, Task, TaskState, TaskStatus
from accord.protocol.v1 import codec as v1
from accord.store.contract import Namespace, Record, Row
from tests.drive import say
from tests.engine.processes import Disk, message

FILE = bytes(range(256)) * 400
TEXT = base64.b64encode(FILE).decode()


def files_of(said: dict[str, Any]) -> list[str]:
    return [part["raw"] for part in said["parts"] if "raw" in part]


async def test_files_that_come_and_go_are_the_same_in_every_answer(
    connect_rpc: Any, store: str
) -> None:
    """The answer, the stored task, the same with part of its history, and the list."""
    agent = Agent("Copier")

    @agent.skill
    async def copy(file: File, ctx: Context) -> File:
        ctx.write(Artifact(artifact_id="long", parts=[Part(text="x" * 70_000)]))
        ctx.write(Artifact(artifact_id="twice", parts=[Part(raw=FILE)]))
        ctx.write(Artifact(artifact_id="twice", parts=[Part(raw=FILE[::-1])]))
        return file

    async with connect_rpc(agent, store=store) as client:
        task = (await client.send(say([{"raw": TEXT, "filename": "a.bin"}, {"text": "here"}])))[
            "task"
        ]
        assert files_of(task["history"][0]) == [TEXT]
        assert [(a["artifactId"], files_of(a)) for a in task["artifacts"]] == [
            ("long", []),
            ("twice", [base64.b64encode(FILE[::-1]).decode()]),
            ("artifact-1", [TEXT]),
        ]
        assert await client.get(task["id"]) == task
        assert await client.get(task["id"], historyLength=1) == task
        without = await client.get(task["id"], historyLength=0)
        assert without == {key: value for key, value in task.items() if key != "history"}


async def test_a_conversation_with_files_shows_all_of_them(connect_rpc: Any) -> None:
    """Messages that come later are in their place, with the agent's words between them."""
    agent = Agent("Collector")

    @agent.skill
    async def collect(first: Message, ctx: Context) -> str:
        second = await ctx.ask("And?", Message)
        raws: Any = first.parts[0].raw, second.parts[0].raw
        return str(sum(map(len, raws)))

    async with connect_rpc(agent) as client:
        parts = [{"raw": TEXT}]
        task = (await client.send(say(parts)))["task"]
        task = (await client.send(say(parts, taskId=task["id"])))["task"]
    assert [json.dumps(m["parts"]) for m in task["history"]] == [
        json.dumps(parts),
        json.dumps([{"text": "And?"}]),
        json.dumps(parts),
    ]


# As stored


LIMITS = Limits()
IDS = Ids("t", "c")
DONE = StatusUpdate(
    task_id="t",
    context_id="c",
    status=TaskStatus(state=TaskState.COMPLETED, timestamp="2026-03-01T00:00:00.000Z"),
)


def large(n: int, size: int = LARGE) -> Message:
    return Message(
        message_id=f"m{n}", role=Role.USER, parts=[Part(text="x" * size), Part(data={"n": n})]
    )


def task() -> Task:
    """Three large messages, and two artifacts, one of them large."""
    artifacts = [
        Artifact(artifact_id=f"a{n}", parts=[Part(text="y" * size)])
        for n, size in enumerate((LARGE, 10))
    ]
    history = [large(n) for n in range(3)]
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.WORKING),
        history=history,
        artifacts=artifacts,
    )


def record(*since: Entry, head: bytes | None = None) -> Record:
    """The task as stored: its snapshot at position 5, and what was logged since."""
    made = encode_task(task(), 5)
    lines = [ENCODE[type(entry)](entry)[0] for entry in since]
    seq = 5 + sum(isinstance(entry, Visible) for entry in since)
    found = Record(
        key=1,
        namespace=Namespace(),
        id="t",
        context_id="c",
        skill="skill",
        about=b"{}",
        state=STATE_NUMBER[TaskState.WORKING],
        at_ms=0,
        pos=5 + len(lines),
        seq=seq,
        format=1,
        owner=0,
        posts=0,
        posts_read=0,
        snap=5,
        head=made.head if head is None else head,
        artifacts=made.artifacts,
    )
    found.rows = [Row(1, 6, seq, 0, b"\n".join(lines))] if lines else []
    return found


MORE = ArtifactUpdate(
    task_id="t",
    context_id="c",
    artifact=Artifact(artifact_id="a0", parts=[Part(text="more")]),
    append=True,
)
SINCE: list[Entry] = [ArtifactChanged(MORE), MessageAdded(large(3)), StatusChanged(DONE)]


@pytest.mark.parametrize("since", [[], SINCE], ids=["as stored", "gone on"])
async def test_a_task_read_in_pieces_is_the_same(since: list[Entry]) -> None:
    """And its text, of which most is what it was read from."""
    fold, parts = read_task(record(*since), LIMITS)
    expected = Fold(task())
    if since:
        expected.apply(MORE, LIMITS)
        expected.draft.add(large(3), LIMITS)
        expected.apply(DONE, LIMITS)
    assert parts is not None  # it is large
    assert fold.joined() == expected.joined()
    for history_length in (None, 0, 2, 9):
        found = await read_snapshot(record(*since), history_length, LIMITS)
        whole = shorten(encode_task(expected.joined(), found.seq), history_length)
        assert v1.decode_task(found.head) == v1.decode_task(whole.head)
        assert v1.decode_artifacts(found.artifacts) == v1.decode_artifacts(whole.artifacts)
        assert parts.snapshot(fold.joined(), found.seq, history_length).data == whole.data


def test_what_is_not_what_was_written_is_an_error() -> None:
    with pytest.raises(ValueError, match="the log is broken"):
        read_task(record(StatusChanged(DONE), MessageAdded(large(3))), LIMITS)
    for head in (
        b'{"id":"t","status":{',
        b'{"id":1,"status":{"state":"TASK_STATE_WORKING"}}',
        b"{}",
        b"",
    ):
        with pytest.raises(msgspec.DecodeError):
            read_task(record(head=head), LIMITS)


async def test_a_stored_task_is_read_with_the_limits_it_was_made_with(disk: Disk) -> None:
    """What a full history did not take then is not in it after a restart, and a lower limit makes
    nothing unreadable.
    """
    agent = Agent("Talker")

    async def note() -> None:
        pass

    @agent.skill
    async def talk(text: str, ctx: Context) -> str:
        await ctx.step(note)  # stored: what follows comes after the first commit
        for word in "abcde":
            ctx.artifact(word)
            await ctx.status(word)
        return await ctx.ask("More?")

    async with disk.process(agent, limits=Limits(history=3)) as process:
        before = await process.send(message("go"))
    async with disk.process(agent, limits=Limits(history=3, artifacts=2)) as process:
        assert await process.get(before["id"]) == before


async def test_a_task_as_it_was_has_the_number_of_its_last_event_then(any_place: Any) -> None:
    """Also where a snapshot was made, and at entries that nobody is shown: by this number a client
    of A2A 1.1 says which state of a task it knows.
    """
    agent = Agent("Numbers")

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        ctx.write("x" * LARGE)  # enough for a snapshot before the task ends
        return await ctx.ask("Go on?") + await ctx.ask("Sure?")

    async with any_place.process(agent) as process:
        task = await process.send(message("begin"))
        task = await process.send(message("yes", task_id=task["id"]))
        tasks = process.app._engine.tasks
        record = await tasks.store.load(Namespace("Numbers"), task["id"])
        assert 0 < record.snap < record.pos
        rows = await tasks.store.read({record.key: 0})
        numbered = list(entries_of(rows, Ids(record.id, record.context_id)))
        shown = [
            await tasks.reader.snapshot_after(record.namespace, record.id, entry.pos)
            for entry in numbered
        ]
        assert [snapshot.seq for snapshot in shown] == [entry.seq for entry in numbered]
