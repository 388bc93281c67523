"""The agent card at its well-known place, cacheable."""

import hashlib
from collections.abc import Callable
from email.utils import formatdate

from ..codec import v1
from ..model import AgentCard
from .asgi import Headers, Scope, Send, respond

__all__ = ["CARD_PATH", "CardDoor"]

CARD_PATH = "/.well-known/agent-card.json"
MAX_AGE_S = 60


class CardDoor:
    """Serves the card, with the address the caller used where that can be trusted.

    Without a configured URL the Host header counts only if it names this machine's loopback or the address the server is
    bound to: a card must not send clients wherever a stranger's header says.
    """

    def __init__(self, card: Callable[[str], AgentCard], url: str | None, started_s: float) -> None:
        self._card = card
        self._url = url.rstrip("/") if url else None
        self._modified = formatdate(started_s, usegmt=True).encode()
        self._made: dict[str, tuple[bytes, bytes]] = {}

    async def __call__(self, scope: Scope, send: Send, headers: Headers) -> None:
        body, tag = self._encoded(self._base(scope, headers))
        cache = (
            (b"etag", tag),
            (b"cache-control", b"public, max-age=%d" % MAX_AGE_S),
            (b"last-modified", self._modified),
        )
        known = headers.get(b"if-none-match", b"")
        if known == b"*" or tag in [item.strip().removeprefix(b"W/") for item in known.split(b",")]:
            await send({"type": "http.response.start", "status": 304, "headers": list(cache)})
            await send({"type": "http.response.body", "body": b""})
        else:
            await respond(send, 200, b"" if scope["method"] == "HEAD" else body, headers=cache)

    def _encoded(self, base: str) -> tuple[bytes, bytes]:
        made = self._made.get(base)
        if made is None:
            body = v1.encode(self._card(base))
            tag = b'"%b"' % hashlib.sha256(body).hexdigest()[:16].encode()
            if len(self._made) > 64:
                self._made.clear()
            made = self._made[base] = (body, tag)
        return made

    def _base(self, scope: Scope, headers: Headers) -> str:
        if self._url is not None:
            return self._url
        scheme, root = scope.get("scheme", "http"), scope.get("root_path", "")
        server = scope.get("server") or ("localhost", None)
        host = headers.get(b"host", b"").decode("latin-1")
        if _name(host) not in ("localhost", "127.0.0.1", "[::1]", server[0]):
            address = f"[{server[0]}]" if ":" in str(server[0]) else server[0]
            host = f"{address}:{server[1]}" if server[1] is not None else str(address)
        return f"{scheme}://{host}{root}"


def _name(host: str) -> str:
    """A Host header without its port."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
