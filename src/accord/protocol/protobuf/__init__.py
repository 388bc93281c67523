"""Protobuf for gRPC: the schemas of every version, and messages as plain values."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .client import GrpcClientCodec as GrpcClientCodec
    from .messages import kind as kind
    from .rpc import Rpc as Rpc
    from .rpc import rpcs as rpcs
    from .rpc import status as status
    from .schema import POOL as POOL
    from .schema import load_schema as load_schema

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
