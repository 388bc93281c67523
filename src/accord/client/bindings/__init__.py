"""The client side of JSON-RPC, HTTP+JSON and gRPC."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .asgi import BASE_URL as BASE_URL
    from .asgi import InProcess as InProcess
    from .contract import Binding as Binding
    from .contract import Extra as Extra
    from .contract import Item as Item
    from .contract import Items as Items
    from .contract import seconds as seconds
    from .grpc import Grpc as Grpc
    from .jsonrpc import JsonRpc as JsonRpc
    from .jsonrpc import JsonRpc02 as JsonRpc02
    from .rest import Rest as Rest

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
