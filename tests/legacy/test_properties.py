"""Any task the model can hold, written as an old version writes it and read again: kept is what the
version has a place for.

What each version cannot say is listed in `_as_0_1` and `_as_proto`; everything else must come back
as it went.
"""

import base64
from copy import deepcopy as copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

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
from accord.protocol import legacy
from accord.protocol.v01 import codec as v01
from accord.protocol.v03 import codec as v03
from accord.protocol.v03 import proto_json
from accord.protocol.v03.file_bytes import Form

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
ids = st.text("abcdefgh0123456789-", min_size=1, max_size=12)
kinds = st.sampled_from(["", "text/plain", "text/markdown", "application/json", "image/png"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
metadata = st.none() | st.dictionaries(words, json_values, min_size=1, max_size=3)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    content = draw(
        st.fixed_dictionaries({"text": words})
        | st.fixed_dictionaries({"raw": st.binary(max_size=24)})
        | st.fixed_dictionaries({"url": words.map("https://example.net/".__add__)})
        | st.fixed_dictionaries({"data": json_values})
    )
    return Part(**content, metadata=draw(metadata), filename=draw(words), media_type=draw(kinds))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    return Message(
        message_id=draw(ids),
        role=draw(st.sampled_from([Role.USER, Role.AGENT])),
        parts=draw(st.lists(parts(), min_size=1, max_size=3)),
        context_id=draw(ids),
        task_id=draw(ids),
        metadata=draw(metadata),
        extensions=draw(st.lists(words, max_size=2)),
        reference_task_ids=draw(st.lists(ids, max_size=2)),
    )


@st.composite
def artifacts(draw: st.DrawFn) -> Artifact:
    return Artifact(
        artifact_id=draw(ids),
        parts=draw(st.lists(parts(), min_size=1, max_size=2)),
        name=draw(words),
        description=draw(words),
        metadata=draw(metadata),
        extensions=draw(st.lists(words, max_size=2)),
    )


@st.composite
def statuses(draw: st.DrawFn) -> TaskStatus:
    return TaskStatus(
        state=draw(st.sampled_from(TaskState)),
        message=draw(st.none() | messages()),
        timestamp=draw(st.sampled_from(["", "2026-01-02T03:04:05.678Z"])),
    )


tasks = st.builds(
    Task,
    id=ids,
    context_id=ids,
    status=statuses(),
    artifacts=st.lists(artifacts(), max_size=2),
    history=st.lists(messages(), max_size=2),
    metadata=metadata,
)


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _each_part(task: Task) -> list[Part]:
    said = [*task.history, *([task.status.message] if task.status.message else [])]
    holders: list[Any] = [*said, *task.artifacts]
    return [part for holder in holders for part in holder.parts]


def _drop_plain_kinds(task: Task) -> Task:
    """A text part of text/plain says no more than a text part."""
    for part in _each_part(task):
        if (isinstance(part.text, str), part.media_type) == (True, "text/plain"):
            part.media_type = ""
        if part.data is not msgspec.UNSET and part.media_type == "application/json":
            part.media_type = ""
    return task


def _as_proto(task: Task, *, has_references: bool) -> Task:
    """0.3's proto has neither names nor types on text and data; the released one has no
    references.
    """
    for part in _each_part(task):
        if isinstance(part.text, str) or part.data is not msgspec.UNSET:
            part.filename = part.media_type = ""
        if isinstance(part.raw, bytes) and part.media_type.startswith("text/"):
            # bytes that are no text under a text type are read as they lie: a known ambiguity
            part.media_type = "image/png"
    for message in (*task.history, *([task.status.message] if task.status.message else [])):
        message.reference_task_ids = message.reference_task_ids if has_references else []
    return task


def _as_0_1(task: Task) -> Any:
    """0.1 has no ids on messages, knows artifacts by their place, and no extensions."""
    value = plain(_drop_plain_kinds(task))
    for i, artifact in enumerate(value.get("artifacts", [])):
        artifact["artifactId"] = f"artifact-{i}"
        artifact.pop("extensions", None)
    said = [
        *value.get("history", []),
        *([value["status"]["message"]] if "message" in value["status"] else []),
    ]
    for message in said:
        for name in ("messageId", "contextId", "taskId", "extensions", "referenceTaskIds"):
            message.pop(name, None)
    return value


@given(tasks)
@settings(deadline=None, max_examples=150)
def test_0_3_keeps_a_task_whole(task):
    """JSON of 0.2 and 0.3 has a place, or a mark, for everything."""
    assert legacy.convert(v03.read_task(v03.write_task(plain(task))), Task) == _drop_plain_kinds(
        copy(task)
    )


@given(tasks, st.booleans())
@settings(deadline=None, max_examples=150)
def test_0_3_rest_keeps_what_its_proto_has_fields_for(task, is_draft):
    """The strict readers of 0.3's proto get its fields and no others; those keep their values."""
    task = _as_proto(task, has_references=is_draft)
    names = proto_json.DRAFT if is_draft else proto_json.RELEASED
    assert (
        legacy.convert(proto_json.read_task(proto_json.write_task(plain(task), names)), Task)
        == task
    )


@given(tasks)
@settings(deadline=None, max_examples=150)
def test_0_1_keeps_content_and_the_true_state(task):
    """A rejected task is failed to a 0.1 client, and still rejected to who reads the mark (legacy
    10.2).
    """
    read = plain(legacy.convert(v01.read_task(v01.write_task(plain(task))), Task))
    for message in [
        *read.get("history", []),
        *([read["status"]["message"]] if "message" in read["status"] else []),
    ]:
        assert message.pop("messageId")
    assert read == _as_0_1(copy(task))


@given(statuses(), metadata, st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_status_event_survives_0_3_and_says_whether_it_is_the_last(status, about, is_last):
    """`final` is the stream's, not the task's: it is written and not read back."""
    update = StatusUpdate(task_id="t", context_id="c", status=status, metadata=about)
    written = v03.write_event({"statusUpdate": plain(update)}, is_last=is_last)
    assert written["final"] is is_last
    assert v03.read_event(written)["statusUpdate"].keys() <= plain(update).keys() | {"contextId"}
    assert (
        "final"
        in proto_json.write_event({"statusUpdate": plain(update)}, is_last=is_last)["statusUpdate"]
    ) is is_last


@given(artifacts(), st.booleans(), st.booleans(), st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_an_artifact_event_survives_every_old_version(artifact, append, last_chunk, index):
    """0.1 has the flags on the artifact, later versions on the event."""
    update = ArtifactUpdate(
        task_id="t", context_id="c", artifact=artifact, append=append, last_chunk=last_chunk
    )
    event = {"artifactUpdate": plain(update)}
    flags = {name: event["artifactUpdate"].get(name, False) for name in ("append", "lastChunk")}
    [old_event] = v01.write_events(copy(event), is_last=False, index=lambda _: index)
    assert {name: old_event["artifact"][name] for name in flags} == flags
    assert old_event["artifact"]["index"] == index
    for read in (
        v01.read_event(old_event),
        v03.read_event(v03.write_event(copy(event))),
        proto_json.read_event(proto_json.write_event(copy(event))),
    ):
        assert {name: read["artifactUpdate"].get(name, False) for name in flags} == flags


@given(st.binary(max_size=64), st.sampled_from(Form))
def test_file_content_survives_in_either_form(content, form):
    """0.3's Python and Go libraries put base64 text in the bytes field, the JavaScript one the
    bytes.
    """
    raw = base64.b64encode(content).decode()
    written = proto_json.write_part({"raw": raw}, proto_json.RELEASED._replace(form=form))
    stored = base64.b64decode(written["file"]["fileWithBytes"])
    assert stored == (content if form is Form.RAW else raw.encode())
    assert proto_json.read_part(written, form=form) == {"raw": raw}
