"""The timeline of a task is the same however its log is cut into rows, and costs what it shows."""

import itertools
import time

import pytest

from accord.engine.log import ArtifactChanged, Created, Ids, MessageAdded, StatusChanged, entries_of
from accord.engine.log.entries import ENCODE, RunStarted
from accord.engine.reading.timeline import TimelineScan
from accord.model import (
    Artifact,
    ArtifactUpdate,
    Message,
    Part,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from accord.protocol import Snapshot
from accord.protocol.v1 import codec as v1
from accord.store import Row

IDS = Ids("task", "context")


def said(id_: str, role: Role = Role.USER) -> Message:
    return Message(message_id=id_, role=role, parts=[Part(text=f"a\n{id_}")])


def status(state: TaskState, id_: str = "") -> StatusChanged:
    message = said(id_, Role.AGENT) if id_ else None
    return StatusChanged(
        StatusUpdate(
            task_id=IDS.task_id,
            context_id=IDS.context_id,
            status=TaskStatus(state=state, message=message),
        )
    )


def piece(id_: str, *, branch: str = "") -> ArtifactChanged:
    artifact = Artifact(artifact_id=id_, parts=[Part(text='"artifactId":"other"')])
    update = ArtifactUpdate(
        task_id=IDS.task_id, context_id=IDS.context_id, artifact=artifact, append=True
    )
    return ArtifactChanged(update, branch)


FIRST = Task(
    id=IDS.task_id,
    context_id=IDS.context_id,
    status=TaskStatus(state=TaskState.SUBMITTED),
    history=[said("m1")],
)
ENTRIES = [
    Created(FIRST),
    RunStarted(1),
    status(TaskState.WORKING),
    piece("a"),
    piece("a"),
    piece('a"b'),
    piece("a", branch="0"),
    status(TaskState.INPUT_REQUIRED, "q1"),
    MessageAdded(said("m2")),
    status(TaskState.WORKING),
    piece("a"),
    piece("é\n"),
    status(TaskState.COMPLETED, "end"),
]
VISIBLE = (Created, StatusChanged, ArtifactChanged)


def rows_of(entries: list, cuts: tuple[int, ...]) -> list[Row]:
    """The log, cut into rows before these entries."""
    rows, seq = [], 0
    for begin, end in itertools.pairwise((0, *cuts, len(entries))):
        some = entries[begin:end]
        seq += sum(isinstance(entry, VISIBLE) for entry in some)
        rows.append(
            Row(1, begin + 1, seq, 0, b"\n".join(ENCODE[type(entry)](entry)[0] for entry in some))
        )
    return rows


def snapshot(seq: int, shown: list[str]) -> Snapshot:
    head = v1.encode({"id": IDS.task_id, "history": [{"messageId": id_} for id_ in shown]})
    return Snapshot(seq, TaskState.WORKING, head, b"[]")


@pytest.mark.parametrize("cuts", [*itertools.combinations(range(1, len(ENTRIES)), 2), ()])
def test_it_does_not_depend_on_the_rows(cuts):
    rows = rows_of(ENTRIES, cuts)
    scan = TimelineScan(IDS, snapshot(11, ["m1", "q1", "m2"]), None)
    for row in rows:
        scan.take([row])
    made = scan.timeline()
    assert made.artifacts == {"a": (3, 9), 'a"b': (5, 5), "é\n": (10, 10)}
    assert [(one.generation, one.message is not None) for one in made.entries] == [
        *((1, True), (1, False), (2, False), (7, False), (7, True), (8, False), (11, False))
    ]


def test_it_ends_with_the_snapshot():
    """What was logged since is left out, in the middle of a row too."""
    scan = TimelineScan(IDS, snapshot(6, ["m1"]), None)
    scan.take(rows_of(ENTRIES, (4,)))
    assert scan.is_done
    made = scan.timeline()
    assert made.artifacts == {"a": (3, 6), 'a"b': (5, 5)}
    assert [one.generation for one in made.entries] == [1, 1, 2]


@pytest.mark.parametrize("count", range(1, len(ENTRIES)))
def test_a_log_that_is_purged_while_it_is_read_is_not_whole(count):
    """Else half a timeline would look like a whole one."""
    whole, cut = (TimelineScan(IDS, snapshot(11, ["m1"]), None) for _ in range(2))
    rows = rows_of(ENTRIES, tuple(range(1, len(ENTRIES))))
    whole.take(rows)
    cut.take(rows[:count])
    assert whole.is_whole
    assert not cut.is_whole


@pytest.mark.parametrize(
    ("length", "shown", "generations"),
    [(0, [], [11]), (1, ["m2"], [7, 11]), (2, ["q1", "m2"], [7, 8, 11]), (9, ["m1"], [1, 1, 2])],
)
def test_a_length_bounds_messages_and_statuses(length, shown, generations):
    scan = TimelineScan(IDS, snapshot(11, shown), length)
    scan.take(rows_of(ENTRIES, (4, 7)))
    entries = scan.timeline().entries
    assert [one.generation for one in entries][:3] == generations
    assert entries[-1].status.message.message_id == "end"  # the current one keeps it
    past = [one.status.message for one in entries[:-1] if one.status is not None]
    assert all(message is None or message.message_id in shown for message in past)


def test_pieces_of_artifacts_are_not_decoded():
    """A task with thousands of them is as quick as what is shown of it."""
    entries = [Created(FIRST), *[piece("a")] * 5000]
    rows = rows_of(entries, tuple(range(100, len(entries), 100)))

    def seconds(work) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    def scan() -> None:
        found = TimelineScan(IDS, snapshot(len(entries), ["m1"]), None)
        found.take(rows)
        assert found.timeline().artifacts == {"a": (2, len(entries))}

    quick = min(seconds(scan) for _ in range(5))
    assert quick * 5 < min(seconds(lambda: list(entries_of(rows, IDS))) for _ in range(3))
