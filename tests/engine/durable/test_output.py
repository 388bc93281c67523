"""What becomes of output. What replay does with it is in the table; here is what the table can't
show.
"""

import time

import pytest

from accord.engine.durable.history import History, read_history
from accord.engine.durable.output import Output
from accord.engine.log.entries import Entry
from accord.model import Artifact, Part
from tests.engine.durable.fake import artifact_entry, log_of, stored
from tests.engine.durable.table import ended


def history_of(*entries: Entry) -> History:
    history = read_history(stored(log_of(entries)))
    assert history is not None
    return history


def text(value: str) -> list[Part]:
    return [Part(text=value)]


def test_ids_are_counted_after_what_was_there() -> None:
    output = Output(None, 2)
    ids = []
    for send in (
        output.chunk(text("a")),
        output.artifact(Artifact(artifact_id="", parts=text("b"))),
        output.chunk(text("c")),
    ):
        assert send is not None
        ids.append((send.artifact.artifact_id, send.append, send.last_chunk))
    assert ids == [
        ("artifact-3", False, False),
        ("artifact-4", False, True),
        ("artifact-3", True, False),
    ]
    send = output.child("0.1").chunk(text("x"))
    assert send is not None
    assert send.artifact.artifact_id == "artifact-0.1-3"


@pytest.mark.parametrize("path", ["", "0.1"])
def test_an_id_of_the_users_that_looks_like_ours_is_not_given_again(path: str) -> None:
    output = Output(None, 0, path)
    prefix = f"artifact-{path}-" if path else "artifact-"
    output.artifact(Artifact(artifact_id=f"{prefix}7", parts=text("x")))
    output.artifact(Artifact(artifact_id="artifact-x9", parts=text("x")))
    send = output.chunk(text("y"))
    assert send is not None
    assert send.artifact.artifact_id == f"{prefix}8"


def test_the_artifact_given_is_not_changed() -> None:
    artifact = Artifact(artifact_id="", parts=text("x"))
    Output(None, 0).artifact(artifact)
    assert artifact.artifact_id == ""


def test_a_single_last_chunk_is_a_whole_artifact() -> None:
    output = Output(history_of(artifact_entry("artifact-1", "x", last=True)), 0)
    assert output.chunk(text("x"), is_last=True) is None
    assert output.chunk(text("y"), is_last=True) is not None


def test_what_finish_sends() -> None:
    history = history_of(
        artifact_entry("artifact-1", "a"),
        artifact_entry("artifact-0.0-1", "old", branch="0.0"),
        ended("s", 1),
        ended("s", 1, branch="0.0"),
    )
    output = Output(history, 0)
    child = output.child("0.0")
    assert output.chunk(text("a")) is None
    assert child.chunk(text("new")) is None
    assert child.chunk(text("er"), is_last=True) is None
    (found,) = output.finish()
    path, send = found
    assert (path, send.artifact.artifact_id, send.artifact.text, send.append, send.last_chunk) == (
        "0.0",
        "artifact-0.0-1",
        "newer",
        False,
        True,
    )
    assert output.finish() == []


def test_an_artifact_sent_as_a_whole_in_a_step_is_not_doubled() -> None:
    """In the second attempt the step was done again, and its first chunk sent all that had been
    said before it.
    """
    history = history_of(
        artifact_entry("artifact-1", "a"),
        ended("one", 1),
        artifact_entry("artifact-1", "ab", step="two#1"),
        artifact_entry("artifact-1", "c", append=True, last=True, step="two#1"),
        ended("two", 1),
        ended("three", 1),
    )
    output = Output(history, 0)
    output.chunk(text("a"))
    for name in ("one", "two", "three"):
        history.step("", name, 1)
        output.claim(f"{name}#1")
    assert output.finish() == []
    send = output.chunk(text("d"))
    assert send is not None
    assert send.artifact.artifact_id == "artifact-2"


def test_gathering_many_chunks_takes_no_time() -> None:
    history = history_of(ended("s", 1))
    output = Output(history, 0)
    begun = time.thread_time()
    for _ in range(100_000):
        output.chunk(text("x"))
    history.step("", "s", 1)
    send = output.chunk(text("y"))
    assert send is not None
    assert len(send.artifact.text) == 100_001
    assert time.thread_time() - begun < 10
