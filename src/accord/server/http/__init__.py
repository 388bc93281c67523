"""The HTTP endpoints: the router, JSON-RPC, HTTP+JSON, server-sent events, the agent card, ASGI."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .asgi import Receive as Receive
    from .asgi import Scope as Scope
    from .asgi import Send as Send
    from .asgi import converse as converse
    from .card import CardDoor as CardDoor
    from .jsonrpc import JsonRpcDoor as JsonRpcDoor
    from .rest import RestDoor as RestDoor
    from .router import Door as Door
    from .router import Front as Front

__getattr__ = lazy(
    __name__,
    {
        "CardDoor": "card",
        "Door": "router",
        "Front": "router",
        "JsonRpcDoor": "jsonrpc",
        "Receive": "asgi",
        "RestDoor": "rest",
        "Scope": "asgi",
        "Send": "asgi",
        "converse": "asgi",
    },
)
