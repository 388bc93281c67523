"""The HTTP endpoints: the router, JSON-RPC, HTTP+JSON, server-sent events, the agent card, ASGI."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .asgi import Receive as Receive
    from .asgi import Scope as Scope
    from .asgi import Send as Send
    from .asgi import converse as converse
    from .card import CARD_PATH as CARD_PATH
    from .card import CardEndpoint as CardEndpoint
    from .card import CardSigner as CardSigner
    from .catalog import CatalogEntry as CatalogEntry
    from .catalog import catalog_answer as catalog_answer
    from .endpoint import Endpoint as Endpoint
    from .files import FilesEndpoint as FilesEndpoint
    from .jsonrpc import JsonRpcEndpoint as JsonRpcEndpoint
    from .rest import RestEndpoint as RestEndpoint
    from .router import PageSessions as PageSessions
    from .router import Router as Router
    from .screen import Screen as Screen
    from .screen import is_public_name as is_public_name

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CARD_PATH": "card",
            "CardEndpoint": "card",
            "CardSigner": "card",
            "CatalogEntry": "catalog",
            "catalog_answer": "catalog",
            "Endpoint": "endpoint",
            "FilesEndpoint": "files",
            "PageSessions": "router",
            "Router": "router",
            "JsonRpcEndpoint": "jsonrpc",
            "Receive": "asgi",
            "RestEndpoint": "rest",
            "Scope": "asgi",
            "Screen": "screen",
            "is_public_name": "screen",
            "Send": "asgi",
            "converse": "asgi",
        },
    )
