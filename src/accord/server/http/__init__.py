"""The HTTP endpoints: the router, JSON-RPC, HTTP+JSON, server-sent events, the agent card, ASGI."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

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
    __getattr__, __dir__ = lazy_imports(__name__)
