"""Protobuf to plain values and back: exact where JSON is, and clear where it cannot be."""

import base64
import math
from typing import Any, cast

import pytest
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

from accord.model import InvalidAgentResponse, InvalidParams, ParseError, TaskNotFound
from accord.protocol.protobuf.messages import kind
from accord.protocol.protobuf.rpc import status

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
DONE = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05.678Z"}

GOLDEN = [
    ("SendMessageRequest", {"message": MESSAGE}, "120d0a036d2d3120012a040a026869"),
    (
        "SendMessageRequest",
        {
            "tenant": "acme",
            "message": MESSAGE,
            "configuration": {"historyLength": 0, "returnImmediately": True},
        },
        "0a0461636d65120d0a036d2d3120012a040a0268691a0418002001",
    ),
    ("GetTaskRequest", {"id": "t-1"}, "1203742d31"),
    ("GetTaskRequest", {"id": "t-1", "historyLength": 0}, "1203742d311800"),
    (
        "ListTaskPushNotificationConfigsRequest",
        {"taskId": "t-1", "tenant": "acme"},
        "0a03742d31220461636d65",
    ),
    (
        "StreamResponse",
        {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": DONE}},
        "1a1c0a03742d311203632d311a1008031a0c08a5ebdcca061080eba5c302",
    ),
    (
        "Part",
        {"data": None, "mediaType": "application/json"},
        "220208003a106170706c69636174696f6e2f6a736f6e",
    ),
    ("Part", {"raw": b""}, "1200"),
]


def v1(name):
    return kind("lf.a2a.v1." + name)


@pytest.mark.parametrize(("name", "value", "data"), GOLDEN)
def test_golden_vectors(name, value, data):
    """Byte for byte, both ways."""
    assert (v1(name).encode(value).hex(), v1(name).decode(bytes.fromhex(data))) == (data, value)


def test_the_golden_error():
    """`grpc-status-details-bin` of a task that is not there."""
    golden = (
        "CAUSDlRhc2sgbm90IGZvdW5kGl8KKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5FcnJvckluZm8SMwoOVEFTS19OT1RfRk9VTkQSEGEyYS1w"
        "cm90b2NvbC5vcmcaDwoGdGFza0lkEgV0LTQwNA=="
    )
    error = TaskNotFound("Task not found", taskId="t-404")
    assert base64.b64encode(status(5, str(error), error)).decode() == golden


# Any value

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda x: not x.is_integer()
)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(words, values, max_size=3)
some = st.fixed_dictionaries
parts = (
    some({"text": words}, optional={"metadata": objects, "filename": words.filter(bool)})
    | some({"data": values})
    | some({"raw": st.binary(max_size=8)}, optional={"mediaType": words.filter(bool)})
    | some({"url": words})
)
roles = st.sampled_from(["ROLE_USER", "ROLE_AGENT"])
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999)
messages = some(
    {
        "messageId": words.filter(bool),
        "role": roles,
        "parts": st.lists(parts, min_size=1, max_size=3),
    },
    optional={"metadata": objects, "extensions": st.lists(words, min_size=1, max_size=2)},
)
states = st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"])
tasks = some(
    {"id": words.filter(bool), "status": some({"state": states}, optional={"message": messages})},
    optional={"history": st.lists(messages, min_size=1, max_size=2), "metadata": objects},
)


@given(tasks)
def test_a_value_comes_back_as_it_was(value):
    """Whatever a task holds: null, nested values, empty ones, whole numbers, bytes."""
    assert v1("Task").decode(v1("Task").encode(value)) == value


@given(tasks)
def test_other_libraries_read_what_we_write(value):
    """And we what they write: protobuf's own JSON printer and parser agree with ours."""
    theirs = a2a_pb2.Task.FromString(v1("Task").encode(value))
    assert (
        v1("Task").decode(ParseDict(MessageToDict(theirs), a2a_pb2.Task()).SerializeToString())
        == value
    )


@given(moments)
def test_times_keep_their_milliseconds(ms):
    """Our texts have three digits; protobuf has nanoseconds."""
    seconds, rest = divmod(ms, 1000)
    theirs = a2a_pb2.TaskStatus()
    theirs.timestamp.seconds, theirs.timestamp.nanos = seconds, rest * 1_000_000
    read = v1("TaskStatus").decode(theirs.SerializeToString())
    assert a2a_pb2.TaskStatus.FromString(v1("TaskStatus").encode(read)) == theirs


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1970-01-01T00:00:00.000000001Z", 0, 1),
        ("1970-01-01T01:00:00.5+01:00", 0, 500_000_000),
        ("1969-12-31T23:00:00-01:00", 0, 0),
        ("2026-01-02T03:04:05.678Z", 1_767_323_045, 678_000_000),
    ],
)
def test_times_are_read_with_any_offset_and_fraction(text, seconds, nanos):
    """RFC 3339, nothing lost."""
    moment = a2a_pb2.TaskStatus.FromString(v1("TaskStatus").encode({"timestamp": text})).timestamp
    assert (moment.seconds, moment.nanos) == (seconds, nanos)


def test_nanoseconds_are_not_cut():
    """A filter in time must not move."""
    theirs = a2a_pb2.ListTasksRequest()
    theirs.status_timestamp_after.nanos = 1
    read = v1("ListTasksRequest").decode(theirs.SerializeToString())
    assert read == {"statusTimestampAfter": "1970-01-01T00:00:00.000000001Z"}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (2**53, 2**53),
        (2**53 + 1, 2**53),
        (2**60, float(2**60)),
        (1e300, 1e300),
        (-0.5, -0.5),
        (5.0, 5),
    ],
)
def test_numbers_are_doubles_and_whole_ones_come_back_whole(sent, read):
    """Up to 2^53, where every whole number is a double; past it a double stays one."""
    got = v1("Part").decode(v1("Part").encode({"data": sent}))["data"]
    assert (got, type(got)) == (read, type(read))


def test_the_order_of_members_is_always_the_same():
    """A map has none on the wire; the same request must be the same again to an idempotency key."""
    part = a2a_pb2.Part()
    for name in ("b", "c", "a"):
        part.data.struct_value.fields[name].null_value = 0
    assert list(v1("Part").decode(part.SerializeToString())["data"]) == ["a", "b", "c"]


def test_members_the_message_does_not_have_are_left_out():
    """A union card has members of every version; each reads its own."""
    assert v1("GetTaskRequest").encode({"id": "t-1", "kind": "task"}) == v1(
        "GetTaskRequest"
    ).encode({"id": "t-1"})


def test_optional_fields_are_told_from_zero():
    """False is an answer, absent is none."""
    value = {"streaming": False}
    assert v1("AgentCapabilities").decode(v1("AgentCapabilities").encode(value)) == value
    assert v1("AgentCapabilities").decode(b"") == {}


def test_maps_of_messages():
    """The card's security schemes."""
    value = {
        "securitySchemes": {
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "tls": {"mtlsSecurityScheme": {}},
        }
    }
    assert v1("AgentCard").decode(v1("AgentCard").encode(value)) == value


# What cannot be


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x12\x02\xff\xfe", b"\x07", b"hello"])
def test_what_is_not_such_a_message_is_a_parse_error(data):
    """Cut short, not UTF-8, no protobuf at all."""
    with pytest.raises(ParseError, match=r"is not a lf\.a2a\.v1\.GetTaskRequest message"):
        v1("GetTaskRequest").decode(data)


def test_unknown_fields_are_ignored():
    """Later versions may have more."""
    assert v1("GetTaskRequest").decode(
        v1("GetTaskRequest").encode({"id": "t-1"}) + b"\xfa\x7f\x01x"
    ) == {"id": "t-1"}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_json_does_not_have_is_named(number):
    """It could be sent to nobody over the other bindings."""
    request = a2a_pb2.SendMessageRequest()
    request.message.parts.add(text="hi")
    request.message.parts.add().data.number_value = number
    with pytest.raises(InvalidParams) as caught:
        v1("SendMessageRequest").decode(request.SerializeToString())
    assert [field for field, _ in caught.value.violations] == ["message.parts[1].data"]


def test_a_wrong_enum_number_is_named():
    """Protobuf lets any number pass."""
    request = a2a_pb2.SendMessageRequest()
    request.message.role = cast(Any, 7)
    with pytest.raises(InvalidParams) as caught:
        v1("SendMessageRequest").decode(request.SerializeToString())
    assert caught.value.violations == (("message.role", "7 is not one of ROLE_USER, ROLE_AGENT"),)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 1_000_000_000)]
)
def test_a_time_that_is_none_is_named(seconds, nanos):
    """Years 1 to 9999, as RFC 3339 writes them."""
    request = a2a_pb2.ListTasksRequest()
    request.status_timestamp_after.seconds, request.status_timestamp_after.nanos = seconds, nanos
    with pytest.raises(InvalidParams) as caught:
        v1("ListTasksRequest").decode(request.SerializeToString())
    assert [field for field, _ in caught.value.violations] == ["statusTimestampAfter"]


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_what_no_client_could_read_is_not_sent():
    """Protobuf readers stop at 100 levels, and every level of JSON takes three."""
    assert v1("Part").decode(v1("Part").encode({"data": nested(30)})) == {"data": nested(30)}
    with pytest.raises(InvalidAgentResponse, match="nested too deep"):
        v1("Part").encode({"data": nested(60)})
