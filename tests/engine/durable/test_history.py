"""What is read from a log beside steps and answers. Those are in the table."""

from typing import Any

import pytest

from accord.engine.durable.history import History, Mismatch, read_history
from accord.engine.log.entries import (
    Answered,
    Asked,
    AskLeft,
    Attempt,
    Created,
    Entry,
    Mismatched,
    Patched,
    PostRefused,
    Released,
    RunStarted,
    StatusChanged,
    StepEnded,
    StepLeft,
    Worked,
)
from accord.model import Message, Part, Role, StatusUpdate, TaskState, TaskStatus
from tests.engine.durable.fake import (
    CONTEXT,
    TASK,
    artifact_entry,
    log_of,
    message_entry,
    status_entry,
    stored,
)
from tests.engine.durable.table import answered, ended


def read(*entries: Entry) -> History:
    history = read_all(log_of(entries))
    assert history is not None
    return history


def read_all(log: list[Entry]) -> History | None:
    return read_history(stored(log))


def status(
    state: TaskState, text: str = "", answers: tuple[int, ...] = (), refuses: tuple[int, ...] = ()
) -> StatusChanged:
    message = (
        Message(message_id=f"s-{text}", role=Role.AGENT, parts=[Part(text=text)]) if text else None
    )
    update = StatusUpdate(
        task_id=TASK, context_id=CONTEXT, status=TaskStatus(state=state, message=message)
    )
    return StatusChanged(update, answers, refuses)


def test_no_run_was_started() -> None:
    assert read_all(log_of(())[:1]) is None


def test_the_newest_run_counts() -> None:
    history = read(
        ended("old", 1),
        artifact_entry("artifact-1", "x", last=True),
        artifact_entry("artifact-1", "y", append=True),
        artifact_entry("own", "x", last=True),
        status(TaskState.INPUT_REQUIRED, "And?", answers=(1,)),
        message_entry("more"),
        RunStarted(8),
        ended("new", 2),
    )
    assert (history.turn, history.artifacts) == (8, 2)
    assert isinstance(history.step("", "new", 1), StepEnded)
    history.end_all()
    with pytest.raises(KeyError):
        history.history_length(1)


PROGRESS: list[Entry] = [
    ended("a", 1),
    StepLeft("", "a", 1),
    Patched("", "p"),
    Asked("", 1, "?", "str"),
    Answered("", 1, 1),
    AskLeft("", 1),
]
NO_PROGRESS: list[Entry] = [
    Released(1.0),
    Worked(1.0),
    message_entry("x"),
    PostRefused(1, "E", "t"),
    artifact_entry("a", "x"),
    status_entry("x"),
]


@pytest.mark.parametrize("entry", PROGRESS, ids=lambda entry: type(entry).__name__)
def test_what_is_recorded_resets_the_attempts(entry: Entry) -> None:
    history = read(Attempt(3), Mismatched(5, "r"), entry)
    assert (history.attempts, history.mismatched) == (0, None)
    assert read(entry, Attempt(1), Attempt(2)).attempts == 2


@pytest.mark.parametrize("entry", NO_PROGRESS, ids=lambda entry: type(entry).__name__)
def test_what_comes_again_does_not(entry: Entry) -> None:
    history = read(Attempt(3), Mismatched(5, "r"), entry)
    assert history.attempts == 3
    assert history.mismatched is not None
    assert history.mismatched.since_ms == 5


def test_how_long_it_has_worked() -> None:
    assert read().worked_s == 0
    assert read(Worked(2.5), ended("a", 1)).worked_s == 2.5
    assert read(Worked(2.5), Released(3.5)).worked_s == 3.5
    assert read(Worked(2.5), Asked("", 1, "?", "str", 4.5)).worked_s == 4.5


@pytest.mark.parametrize(
    ("entries", "is_open"),
    [
        ((Asked("", 1, "?", "str"),), True),
        ((Asked("", 1, "?", "str"), Released(1.0), Attempt(1), ended("a", 1, branch="0.0")), True),
        ((*answered("?", "x"),), False),
        ((Asked("", 1, "?", "str"), AskLeft("", 1)), False),
        ((*answered("?", "x"), Asked("", 2, "!", "str")), True),
        ((*answered("?", "x"), Asked("", 1, "?", "str")), True),
        ((Asked("0.0", 1, "?", "str"), Asked("0.1", 1, "!", "str"), AskLeft("0.0", 1)), True),
    ],
)
def test_the_open_question(entries: tuple[Entry, ...], is_open: bool) -> None:
    assert (read(*entries).question is not None) is is_open


def test_messages_that_wait() -> None:
    history = read(
        message_entry("a"),  # 3
        Asked("", 1, "?", "str"),
        Answered("", 1, 3),
        message_entry("b"),  # 6
        message_entry("c"),  # 7
        message_entry("d"),  # 8
        status(TaskState.WORKING, refuses=(7,)),
    )
    assert history.waiting == [6, 8]


def test_a_message_waits_over_the_end_of_a_run() -> None:
    history = read(
        message_entry("a"),
        message_entry("b"),
        status(TaskState.INPUT_REQUIRED, answers=(1,)),
        RunStarted(3),
    )
    assert (history.turn, history.waiting) == (3, [4])


def test_how_long_the_history_was_at_each_turn() -> None:
    history = read(
        status(TaskState.WORKING, "begun"),
        status(TaskState.INPUT_REQUIRED, "Where?"),
        Asked("", 1, "Where?", "str"),
        message_entry("Rome"),  # 6
        Answered("", 1, 6),
        message_entry("early"),  # 8
        Asked("", 2, "When?", "str"),
        Answered("", 2, 8),
    )
    assert history.history_length(1) == 1  # go
    assert history.history_length(6) == 4  # begun, Where?, Rome
    assert history.history_length(8) == 5  # early


def test_every_claim_after_a_mismatch_raises_it() -> None:
    history = read(ended("a", 1), ended("b", 1, branch="0.0"))
    with pytest.raises(Mismatch) as first:
        history.step("", "x", 1)
    claims: list[Any] = [
        lambda: history.step("0.0", "b", 1),
        lambda: history.answer("", 1, "?", "str", False),
        lambda: history.patched("", "p"),
        lambda: history.end("0.0"),
        history.end_all,
    ]
    for claim in claims:
        with pytest.raises(Mismatch) as again:
            claim()
        assert again.value is first.value


def test_the_texts_of_a_mismatch() -> None:
    with pytest.raises(Mismatch) as error:
        read(ended("y", 1, 2, branch="0.1/2.0")).step("0.1/2.0", "x", 1)
    assert str(error.value) == (
        "the function now calls step 'x' (call 1) in branch 0.1/2.0, where step 'y' (call "
        "2) was recorded; deploy the version that "
        "recorded it, or keep the old way for runs under way: if ctx.patched('name'): new else: old"
    )
    with pytest.raises(Mismatch, match="name it"):
        read(*answered("A" * 999, "x")).answer("", 1, "B" * 999, "str", False)


def test_a_branch_replays_until_all_is_claimed() -> None:
    history = read(ended("a", 1), Asked("", 1, "?", "str"), ended("b", 1, branch="0.0"))
    assert history.is_replaying("")
    history.step("", "a", 1)
    assert history.is_replaying("")  # what it said before the question it waits in has been sent
    assert history.answer("", 1, "?", "str", False) is None
    assert history.is_replaying("")  # a gather is to come, and has been before
    assert history.is_replaying("0.0")
    assert not history.is_replaying("0.1")
    history.step("0.0", "b", 1)
    assert not history.is_replaying("")


def test_a_cancelled_branch_has_nothing_to_answer_for() -> None:
    history = read(
        ended("a", 1, branch="0.0"), ended("b", 1, branch="0.0/0.1"), ended("c", 1, branch="0.1")
    )
    history.forget("0.0")
    assert history.step("0.1", "c", 1) is not None
    history.end_all()


def test_a_log_begins_with_its_task() -> None:
    created = log_of(())[0]
    assert isinstance(created, Created)
    with pytest.raises(AssertionError):
        read_all([RunStarted(1)])
