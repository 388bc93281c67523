"""A2A 1.1 over gRPC from the client's side."""

import msgspec

from ..protobuf import GrpcClientCodec
from . import client as v11_client
from .schema import POOL

__all__ = ["CODEC"]

CODEC = GrpcClientCodec(
    v11_client.version,
    "lf.a2a.v1.A2AService",
    rpcs={},
    write=lambda operation, request: msgspec.to_builtins(request),
    result=v11_client.result,
    frames=v11_client.frames,
    extensions="a2a-extensions",
    pool=POOL,
)
