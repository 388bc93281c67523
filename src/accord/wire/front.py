"""The HTTP front: finds the door for a request. An ASGI app to any server; our own asks it without that in between."""

import abc
from collections.abc import Coroutine
from typing import Any

from ..codec import v1
from ..model import Limits, MethodNotAllowed, MethodNotFound
from ..ops.call import in_task
from .asgi import Receive, Scope, Send, converse
from .jsonrpc import JsonRpcDoor
from .request import Answer, Request, Stream
from .rest import RestDoor
from .wellknown import CARD_PATH, CardDoor

__all__ = ["Front"]

_READY = b'{"status":"ready"}'
_VERBS = b"GET, HEAD, POST, DELETE, OPTIONS"


class Front(abc.ABC):
    """Routes HTTP requests: the card, JSON-RPC at its path, HTTP+JSON below its base."""

    is_open = False
    is_ours = True  # all that answers: else it may count on being run in a task

    def __init__(self, rpc: JsonRpcDoor, rest: RestDoor, card: CardDoor, *, rpc_path: str, rest_path: str, limits: Limits) -> None:
        self._rpc = rpc
        self._rest = rest
        self._card = card
        self._rpc_path = rpc_path.rstrip("/")
        self._rest_path = rest_path
        self.limits = limits

    @abc.abstractmethod
    async def open(self) -> None:
        """Get ready to answer; once, however many ask."""

    @abc.abstractmethod
    async def close(self, grace_s: float = 0.0) -> None:
        """Take no new work, give what runs `grace_s` to end, then end it."""

    @property
    @abc.abstractmethod
    def trouble(self) -> str:
        """Why no new work should come; empty if it may."""

    @abc.abstractmethod
    async def live(self, receive: Receive, send: Send) -> None:
        """Follow the life of the server this app runs in."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await converse(self.answer, scope, receive, send, self.limits)
        elif scope["type"] == "lifespan":
            await self.live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    def answer(self, request: Request) -> Coroutine[Any, Any, Answer | Stream]:
        """Answer a request. What goes wrong is an answer too."""
        if not self.is_open or not self.is_ours:
            return self._prepared(request)
        if request.target.path.rstrip("/") != self._rpc_path or request.target.verb != "POST":
            return self._elsewhere(request)
        return self._rpc(request)

    async def _prepared(self, request: Request) -> Answer | Stream:
        await in_task()
        if not self.is_open:
            await self.open()
        if request.target.path.rstrip("/") != self._rpc_path or request.target.verb != "POST":
            return await self._elsewhere(request)
        return await self._rpc(request)

    async def _elsewhere(self, request: Request) -> Answer | Stream:
        verb, path = request.target.verb, request.target.path
        if path.rstrip("/") == self._rpc_path:
            return self._not_rpc()
        if path in self._card.paths and verb in ("GET", "HEAD"):
            return self._card(request)
        if path == "/healthz" and verb in ("GET", "HEAD"):
            return Answer(200, b'{"status":"ok"}')
        if path == "/readyz" and verb in ("GET", "HEAD"):
            return self._readiness()
        if path == "*" and verb == "OPTIONS":
            return Answer(204, headers=((b"allow", _VERBS),))
        raw = request.target.raw
        below = self._rest.below_any(raw)
        if below or raw.startswith(self._rest_path + "/"):
            return await self._rest(request, below or raw.removeprefix(self._rest_path))
        return Answer(404, v1.CODEC.failure(MethodNotFound(f"no {verb} {raw[:200]} here"))[1])

    def _readiness(self) -> Answer:
        trouble = self.trouble
        if not trouble:
            return Answer(200, _READY)
        return Answer(503, v1.encode({"status": trouble}), headers=((b"retry-after", b"1"),))

    def _not_rpc(self) -> Answer:
        error = MethodNotAllowed(f"JSON-RPC requests are sent with POST; the agent card is at {CARD_PATH}", allow="POST")
        return Answer(405, v1.CODEC.failure(error)[1], headers=((b"allow", b"POST"),))
