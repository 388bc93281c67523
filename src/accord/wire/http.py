"""The HTTP front: one raw ASGI app that finds the door for a request."""

from collections.abc import Callable
from urllib.parse import quote

from ..model import MethodNotAllowed, MethodNotFound
from .asgi import Receive, Scope, Send, path_of, respond
from .jsonrpc import JsonRpcDoor
from .rest import RestDoor, error_body
from .wellknown import CARD_PATH, CardDoor

__all__ = ["Front"]


class Front:
    """Routes HTTP requests: the card, JSON-RPC at its path, HTTP+JSON below its base."""

    def __init__(
        self,
        rpc: JsonRpcDoor,
        rest: RestDoor,
        card: CardDoor,
        *,
        rpc_path: str,
        rest_path: str,
        is_ready: Callable[[], bool],
    ) -> None:
        self._is_ready = is_ready
        self._rpc = rpc
        self._rest = rest
        self._card = card
        self._rpc_path = "/" + rpc_path.strip("/")
        self._rest_path = "/" + rest_path.strip("/") if rest_path.strip("/") else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        path = path_of(scope)
        verb = scope["method"]
        if path.rstrip("/") == self._rpc_path.rstrip("/"):
            if verb == "POST":
                await self._rpc(scope, receive, send, headers)
            else:
                error = MethodNotAllowed("JSON-RPC requests are sent with POST; the agent card is at " + CARD_PATH, allow="POST")
                await respond(send, 405, error_body(error), headers=((b"allow", b"POST"),))
        elif path in self._card.paths and verb in ("GET", "HEAD"):
            await self._card(scope, send, headers)
        elif path == "/healthz" and verb == "GET":
            await respond(send, 200, b'{"status":"ok"}')
        elif path == "/readyz" and verb == "GET":
            if self._is_ready():
                await respond(send, 200, b'{"status":"ready"}')
            else:
                await respond(send, 503, b'{"status":"stopping"}', headers=((b"retry-after", b"1"),))
        else:
            # Undecoded, so that an id with a slash in it stays one segment.
            raw = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else quote(scope["path"])
            path = raw.removeprefix(scope.get("root_path", ""))
            if path.startswith(self._rest_path + "/"):
                await self._rest(scope, receive, send, headers, self._rest.below_any(path) or path.removeprefix(self._rest_path))
            elif below := self._rest.below_any(path):
                await self._rest(scope, receive, send, headers, below)
            else:
                await respond(send, 404, error_body(MethodNotFound(f"no {verb} {path[:200]} here")))
