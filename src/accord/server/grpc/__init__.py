"""The gRPC endpoint, on HTTP/2 by h2."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .listener import GrpcServer as GrpcServer
    from .service import GrpcEndpoint as GrpcEndpoint

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
