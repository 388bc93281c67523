"""What was seen and the task as it stands, brought together: every missed event once, or a gap."""

import pytest

from accord.client.streams.seen import Echo, Gap, apply, own, reconcile
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


def said(id: str, role: Role = Role.AGENT) -> Message:
    return Message(message_id=id, role=role, parts=[Part(text=id)])


ASKED = said("u", Role.USER)


def task(
    state: TaskState = TaskState.WORKING, chunks: str = "", message: str = "", history: str = ""
) -> Task:
    """A task whose artifact has one chunk per letter, and whose history holds the question and one
    message per letter.
    """
    artifacts = [Artifact(artifact_id="a", parts=[Part(text=c) for c in chunks])] if chunks else []
    status = TaskStatus(state=state, message=said(message) if message else None)
    return Task(
        id="t",
        context_id="c",
        status=status,
        artifacts=artifacts,
        history=[ASKED, *map(said, history)],
    )


def story(events: list) -> list[str]:
    """Each event in a word: chunks as +text or =text, statuses as their message or state, a gap as
    !.
    """
    words = []
    for event in events:
        match event:
            case ArtifactUpdate():
                words.append(("+" if event.append else "=") + event.artifact.text)
            case StatusUpdate():
                words.append(
                    event.status.message.text if event.status.message else event.status.state.word
                )
            case Gap():
                words.append("!")
    return words


@pytest.mark.parametrize(
    ("seen", "now", "missed"),
    [
        (task(), task(), []),
        (task(chunks="ab"), task(chunks="ab"), []),
        (task(chunks="ab"), task(chunks="abcd"), ["+cd"]),
        (task(), task(chunks="ab"), ["=ab"]),
        (task(chunks="ab"), task(TaskState.COMPLETED, "abc"), ["+c", "completed"]),
        (task(message="x"), task(message="z", history="xy"), ["y", "z"]),
        (task(message="x"), task(TaskState.COMPLETED, history="xy"), ["y", "completed"]),
        (task(chunks="ab"), task(chunks="xy"), ["=xy"]),
    ],
    ids=[
        "nothing happened",
        "nothing new",
        "chunks missed",
        "a whole artifact missed",
        "the end missed",
        "messages missed",
        "messages and the end missed",
        "the artifact was replaced",
    ],
)
def test_what_was_missed_comes_once(seen, now, missed):
    """A plain subscription begins with the task as it stands; readers see the difference, not the
    task again.
    """
    assert story(reconcile(seen, now)) == missed


def test_chunks_joined_by_the_agent_are_told_apart():
    """Some agents store the chunks of a text as one part: only the rest of the text is new."""
    joined = Task(
        id="t",
        context_id="c",
        status=task().status,
        artifacts=[Artifact(artifact_id="a", parts=[Part(text="abcd")])],
        history=[ASKED],
    )
    assert story(reconcile(task(chunks="ab"), joined)) == ["+cd"]


@pytest.mark.parametrize(
    ("seen", "now", "rest"),
    [
        ("a b F c", "ab F cd", "d"),
        ("a b F", "ab F", None),
        ("a b", "abc F d", "c F d"),
        ("a b F c", "ab F c F", "F"),
        ("a F b", "a F c", "a F c"),  # another text: told as a whole
    ],
)
def test_joined_texts_between_files_are_told_apart(seen, now, rest):
    """A text is joined up to the next part that is none; only what is new is told."""
    file = Part(url="https://x.y/z")

    def made(words):
        parts = [file if word == "F" else Part(text=word) for word in words.split()]
        found = task()
        found.artifacts = [Artifact(artifact_id="a", parts=parts)]
        return found

    missed = reconcile(made(seen), made(now))
    assert [event.artifact.parts for event in missed] == (
        [made(rest).artifacts[0].parts] if rest else []
    )


def test_an_agent_without_history_leaves_a_gap():
    """Status messages in between would be in the history; where there is none, nobody can tell."""
    now = task(TaskState.COMPLETED)
    now.history = []
    assert story(reconcile(task(message="x"), now)) == ["!", "completed"]


def test_a_vanished_artifact_is_a_gap():
    """What was shown and is no longer there can't be explained by events."""
    seen = task(chunks="a")
    now = task()
    now.artifacts = [Artifact(artifact_id="other", parts=[Part(text="x")])]
    assert story(reconcile(seen, now)) == ["!", "=x"]


def test_the_difference_leads_to_the_task():
    """Applying what was missed to what was seen gives the task as it stands."""
    seen, now = task(chunks="ab", message="x"), task(TaskState.COMPLETED, "abcd", history="xy")
    folded = own(seen)
    for event in reconcile(seen, now):
        assert not isinstance(event, Gap)
        apply(folded, event)
    assert (folded.status, folded.artifacts[0].text) == (now.status, "abcd")
    assert [m.message_id for m in folded.history] == ["u", "x", "y"]


def test_folding_leaves_the_events_alone():
    """An event handed to a user does not grow under their hands."""
    first = ArtifactUpdate(
        task_id="t", context_id="c", artifact=Artifact(artifact_id="a", parts=[Part(text="a")])
    )
    folded = own(task())
    apply(folded, first)
    apply(folded, ArtifactUpdate(task_id="t", context_id="c", artifact=first.artifact, append=True))
    assert (len(first.artifact.parts), len(folded.artifacts[0].parts)) == (1, 2)


def chunk(text: str) -> ArtifactUpdate:
    artifact = Artifact(artifact_id="a", parts=[Part(text=c) for c in text])
    return ArtifactUpdate(task_id="t", context_id="c", artifact=artifact, append=True)


@pytest.mark.parametrize(
    ("stands", "comes", "fresh"),
    [
        ("abc", ["d", "e"], ["d", "e"]),
        ("abc", ["c", "d"], ["d"]),
        ("abc", ["b", "c", "d"], ["d"]),
        ("abcd", ["cd", "e"], ["e"]),
        ("abab", ["b", "a", "b"], ["a", "b"]),
        ("", ["a", "b"], ["a", "b"]),
    ],
    ids=[
        "nothing again",
        "the last again",
        "the last two again",
        "a double chunk again",
        "only once over",
        "nothing there",
    ],
)
def test_an_echo_of_the_snapshot_is_heard_once(stands, comes, fresh):
    """Agents attach a reader before they read the task: what was on its way then comes in the task,
    and again behind it.
    """
    echo = Echo(task(chunks=stands))
    assert [text for text in comes if not echo.is_repeat(chunk(text))] == fresh
