"""What is printed of a stream: everything the agent made, once."""

import pytest

from accord import Artifact, Message, Part
from accord.cli.show import Printer
from accord.model import ArtifactUpdate, Role, StatusUpdate, Task, TaskState, TaskStatus

SHOWN = "[image/svg+xml a.svg, 123 bytes]"


def made(text):
    return Artifact(artifact_id="a", parts=[Part(text=text)])


def update(text, *, append):
    return ArtifactUpdate(task_id="t", context_id="c", artifact=made(text), append=append)


def file(id="f", size=123):
    part = Part(raw=b"x" * size, filename="a.svg", media_type="image/svg+xml")
    artifact = Artifact(artifact_id=id, parts=[part])
    return ArtifactUpdate(task_id="t", context_id="c", artifact=artifact)


def task(*texts):
    status = TaskStatus(state=TaskState.COMPLETED)
    return Task(id="t", context_id="c", status=status, artifacts=[made(t) for t in texts])


def status(state, text):
    said = Message(message_id="m", role=Role.AGENT, parts=[Part(text=text)])
    return StatusUpdate(task_id="t", context_id="c", status=TaskStatus(state=state, message=said))


@pytest.mark.parametrize(("events", "shown"), [
    ([update("Day 1\n", append=False), update("Day 2\n", append=True)], "Day 1\nDay 2\n\n"),
    ([task("Day 1\nDay 2\n")], "Day 1\nDay 2\n\n"),
    ([task("Day 1\n"), update("Day 2\n", append=True)], "Day 1\nDay 2\n\n"),
    ([update("half", append=False), update("half a loaf", append=False)], "half a loaf\n"),
    ([update("half", append=False), update("half", append=False)], "half\n"),
    ([update("bread", append=False), update("cake", append=False)], "bread\ncake\n"),
    ([status(TaskState.WORKING, "thinking")], ""),
    ([file(), update("8 in all", append=False)], f"{SHOWN}\n8 in all\n"),
    ([update("8 in all", append=False), file()], f"8 in all\n{SHOWN}\n"),
    ([update("8 in all\n", append=False), file(), file("g")], f"8 in all\n{SHOWN}\n{SHOWN}\n"),
    ([file(), file()], f"{SHOWN}\n"),
], ids=["chunks", "task", "task and chunk", "grown", "again", "replaced", "status", "file and text",
        "text and file", "text and files", "file again"])  # fmt: skip
def test_each_piece_is_printed_once(capsys, events, shown):
    printer = Printer()
    for event in events:
        printer.take(event)
    printer.end()
    assert capsys.readouterr().out == shown
    assert printer.has_written == bool(shown)


def test_progress_is_shown_beside_the_answer(capsys):
    Printer().take(status(TaskState.WORKING, "thinking"))
    assert capsys.readouterr().err == "[working] thinking\n"
