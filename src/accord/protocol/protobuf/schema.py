"""The schemas, loaded into a descriptor pool of their own.

The `.proto` files beside this one are the source; `schema.binpb` is what `python -m
accord.protocol.protobuf.compile` makes of them. They never enter the default pool: a2a-sdk
registers the same names there, and both must live in one process.
"""

from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)

__all__ = ["POOL", "SCHEMA", "message_class"]

SCHEMA = Path(__file__).with_name("schema.binpb")

_BORROWED = (any_pb2, empty_pb2, struct_pb2, timestamp_pb2)


def _load() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in _BORROWED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in descriptor_pb2.FileDescriptorSet.FromString(SCHEMA.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _load()


def message_class(name: str) -> Any:
    """Return the class of the message called `name` in full, as in `lf.a2a.v1.Task`."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))
