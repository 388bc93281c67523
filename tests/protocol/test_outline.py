"""Tasks that are passed on without being read: nothing of them is lost."""

import typing

import msgspec
import pytest

from accord.model import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from accord.protocol import task_outline
from accord.protocol.task_outline import Outline, is_object, shallow_task
from accord.protocol.v1 import codec as v1

# Read from agents that speak A2A 1.1, and never stored.
NEVER_STORED = {"generation", "timeline", "artifactGenerations"}

MESSAGE = Message(
    message_id="m",
    role=Role.USER,
    parts=[Part(text="x"), Part(data={"a": [1, 2.5, None]}), Part(raw=b"xyz", filename="f")],
)
TASK = Task(
    id="t",
    context_id="c",
    status=TaskStatus(
        state=TaskState.COMPLETED, message=MESSAGE, timestamp="2026-03-01T00:00:00.000Z"
    ),
    history=[
        MESSAGE,
        msgspec.structs.replace(
            MESSAGE, metadata={"k": 1}, extensions=["e"], reference_task_ids=["r"]
        ),
    ],
    artifacts=[
        Artifact(
            artifact_id="a", name="n", description="d", parts=[Part(data=[1])], metadata={"k": []}
        )
    ],
    metadata={"k": {"l": 1}},
)


@pytest.mark.parametrize(
    ("shape", "model"),
    [
        ("_Part", Part),
        ("_Message", Message),
        ("_Artifact", Artifact),
        ("_Status", TaskStatus),
        ("_Task", Task),
    ],
)
def test_every_member_of_the_model_has_its_place(shape, model):
    """One that is added there would silently be left out here."""
    assert list(typing.get_type_hints(getattr(task_outline, shape))) == [
        f.encode_name for f in msgspec.structs.fields(model) if f.encode_name not in NEVER_STORED
    ]


def test_an_outline_has_all_that_a_task_has():
    assert [f.encode_name for f in msgspec.structs.fields(Outline)] == [
        f.encode_name for f in msgspec.structs.fields(Task) if f.encode_name not in NEVER_STORED
    ]


def test_what_was_not_read_is_written_as_it_was():
    data = v1.encode(TASK)
    assert v1.encode(task_outline.outline(data)) == data
    assert v1.encode(shallow_task(data)) == data


def test_data_stays_text_and_tells_whether_it_is_an_object():
    """Old versions have no other data than objects, and write it another way."""
    task = shallow_task(v1.encode(TASK))
    text, data, file = task["history"][0]["parts"]
    assert (text, file) == ({"text": "x"}, {"raw": "eHl6", "filename": "f"})
    assert (bytes(data["data"]), is_object(data["data"])) == (b'{"a":[1,2.5,null]}', True)
    assert not is_object(task["artifacts"][0]["parts"][0]["data"])
    assert [is_object(value) for value in ({}, [], None, "{")] == [True, False, False, False]
