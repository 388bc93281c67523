"""Serving an agent: HTTP/1.1, HTTP+JSON, JSON-RPC and gRPC. An endpoint decodes, calls an operation
and encodes; it holds no rules.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .request import HttpRequest as HttpRequest
    from .request import HttpResponse as HttpResponse
    from .request import Pairs as Pairs
    from .request import ResponseWriter as ResponseWriter
    from .request import StreamingResponse as StreamingResponse
    from .request import error_headers as error_headers
    from .request import opaque as opaque
    from .request import query_of as query_of

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
