"""Which event may follow which, as a table."""

import pytest

from accord.model import (
    FINAL,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
    Message,
    Part,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)


def task(state=TaskState.WORKING, message=None):
    return Task(id="t", context_id="c", status=TaskStatus(state=state, message=message))


def said(text, role=Role.AGENT):
    return Message(message_id=text, role=role, parts=[Part(text=text)])


def status(state, message=None, metadata=None):
    return StatusUpdate(
        task_id="t",
        context_id="c",
        status=TaskStatus(state=state, message=message),
        metadata=metadata,
    )


def chunk(text, id="a", append=False, **more):
    return ArtifactUpdate(
        task_id="t",
        context_id="c",
        artifact=Artifact(artifact_id=id, parts=[Part(text=text)], **more),
        append=append,
    )


@pytest.mark.parametrize("before", [s for s in TaskState if s not in FINAL])
@pytest.mark.parametrize("after", [s for s in TaskState if s is not TaskState.UNSPECIFIED])
def test_an_open_task_may_go_anywhere(before, after):
    """MSG-4: no transition table is given; only the end is an end."""
    draft = task(before)
    draft.apply(status(after))
    assert draft.state is after


@pytest.mark.parametrize("end", sorted(FINAL))
@pytest.mark.parametrize("event", [status(TaskState.WORKING), chunk("x")])
def test_nothing_follows_the_end(end, event):
    with pytest.raises(InvalidAgentResponse, match="already"):
        task(end).apply(event)
    with pytest.raises(InvalidAgentResponse):
        task(end).add(said("late", Role.USER))


def test_chunks_join_their_artifact_and_others_are_left_alone():
    """STR-9: append adds parts, its absence creates or replaces."""
    draft = task()
    for event in (
        chunk("1", name="first"),
        chunk("b", id="b"),
        chunk("2", append=True),
        chunk("3", append=True),
    ):
        draft.apply(event)
    assert [(a.artifact_id, a.name, a.text) for a in draft.artifacts] == [
        ("a", "first", "123"),
        ("b", "", "b"),
    ]
    draft.apply(chunk("new"))
    assert [a.text for a in draft.artifacts] == ["new", "b"]


def test_an_event_is_not_changed_by_what_follows_it():
    """Events are encoded and shared; the draft must own what it lets grow."""
    first = chunk("1")
    draft = task()
    draft.apply(first)
    draft.apply(chunk("2", append=True))
    assert first.artifact.text == "1"


def test_a_chunk_for_an_unknown_artifact_is_the_agents_fault():
    with pytest.raises(InvalidAgentResponse, match="never started"):
        task().apply(chunk("x", append=True))


def test_the_status_message_moves_to_the_history_once():
    """A34: what the agent said with a status is history when the status changes, in the order it
    was said.
    """
    draft = task(TaskState.INPUT_REQUIRED, said("question"))
    draft.add(said("answer", Role.USER))
    draft.apply(status(TaskState.WORKING, said("thinking")))
    draft.apply(status(TaskState.COMPLETED))
    assert [m.message_id for m in draft.history] == ["question", "answer", "thinking"]


def test_status_metadata_is_added_to_the_tasks():
    draft = task()
    draft.apply(status(TaskState.WORKING, metadata={"a": 1}))
    draft.apply(status(TaskState.WORKING, metadata={"b": 2}))
    assert draft.metadata == {"a": 1, "b": 2}
