"""The schemas, loaded into a descriptor pool of their own.

The `.proto` files beside this one are the source; `schema.binpb` is what `python -m
accord.protocol.protobuf.compile` makes of them. They never enter the default pool: a2a-sdk
registers the same names there, and both must live in one process.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    struct_pb2,
    timestamp_pb2,
)

__all__ = ["POOL", "SCHEMA", "load_schema"]

SCHEMA = Path(__file__).with_name("schema.binpb")

_BORROWED = (any_pb2, empty_pb2, struct_pb2, timestamp_pb2)


def load_schema(amend: Callable[[Any], None] | None = None) -> Any:
    """Return a pool with the schemas. `amend` may change each file before it is added: for a
    version that has the messages of another, and more.
    """
    pool = descriptor_pool.DescriptorPool()
    for module in _BORROWED:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in descriptor_pb2.FileDescriptorSet.FromString(SCHEMA.read_bytes()).file:
        if amend is not None:
            amend(file)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = load_schema()
