"""Our `.proto` files: the protocol's packages, names and numbers, in a descriptor pool of
our own.
"""

import sys
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf import descriptor_pb2, descriptor_pool

from accord.operations.table import VERSIONS
from accord.protocol.protobuf.compile import compiled
from accord.protocol.protobuf.schema import POOL, SCHEMA
from tests.processes import run_sync


def described(file):
    """Everything in a file that shows on the wire or in JSON: fields, enum values, rpcs."""
    proto = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    found: dict[Any, Any] = {}
    for message in proto.message_type:
        for field in message.field:
            in_oneof = field.HasField("oneof_index") and not field.proto3_optional
            oneof = message.oneof_decl[field.oneof_index].name if in_oneof else ""
            kind = (field.type, field.type_name, field.label, field.proto3_optional, oneof)
            found[message.name, field.number] = (field.name, field.json_name, *kind)
    for enum in proto.enum_type:
        found |= {(enum.name, value.number): value.name for value in enum.value}
    for method in proto.service[0].method:
        found[method.name] = (method.input_type, method.output_type, method.server_streaming)
    return found


def test_the_compiled_schema_is_that_of_the_sources():
    """Whoever edits a .proto file compiles it: python -m accord.protocol.protobuf.compile."""
    files = [
        descriptor_pb2.FileDescriptorSet.FromString(data).file
        for data in (SCHEMA.read_bytes(), compiled())
    ]
    assert list(files[0]) == list(files[1])


def test_1_0_is_the_protocol_s_to_the_last_number():
    """Every message, field, enum value and rpc of the reference library, and not one more."""
    assert described(POOL.FindFileByName("lf_a2a_v1.proto")) == described(a2a_pb2.DESCRIPTOR)


def test_0_3_is_a_superset_of_the_protocol_s():
    """All that the reference library of 0.3 has, the same; drafts and older names only add to
    it.
    """
    ours, theirs = (
        described(POOL.FindFileByName("a2a_v1.proto")),
        described(a2a_v0_3_pb2.DESCRIPTOR),
    )
    assert {key: ours.get(key) for key in theirs} == theirs


def test_the_default_pool_is_not_touched():
    """a2a-sdk registers the same names there; both live in this very process."""
    for name in ("lf.a2a.v1.Task", "a2a.v1.Task"):
        assert POOL.FindMessageTypeByName(
            name
        ) is not descriptor_pool.Default().FindMessageTypeByName(name)


def test_every_rpc_of_the_schema_has_an_operation():
    """A name that is listed by reflection is a name that answers."""
    for version in VERSIONS:
        if version.grpc:
            assert {
                method.name for method in POOL.FindServiceByName(version.grpc_service).methods
            } == set(version.grpc)


@pytest.mark.parametrize(
    "first", ["a2a.types.a2a_pb2, a2a.compat.v0_3.a2a_v0_3_pb2", "accord.server.grpc.service"]
)
def test_both_libraries_load_in_one_process(first):
    """Whichever comes first."""
    code = f"import {first}; import accord.server.grpc.service, a2a.types.a2a_pb2, a2a.compat.v0_3.a2a_v0_3_pb2"  # noqa: E501
    done = run_sync(sys.executable, "-W", "ignore", "-c", code)
    assert done.code == 0, done.err


def test_nothing_of_grpc_is_loaded_unless_asked_for():
    """gRPC is an extra: an agent served over HTTP runs without it."""
    code = (
        "import sys; from accord import Agent; import accord.server.process.main; Agent('A');"
        "print([name for name in sys.modules if name.split('.')[0] in ('grpc', 'google')])"
    )
    assert run_sync(sys.executable, "-c", code) == (0, "[]\n", "")
