"""What was sent and what came back, kept as evidence.

The recorder stands above the credentials: it does not see them. Headers that the user set are named
without their values.
"""

from collections.abc import AsyncIterator

import msgspec

from ..net import Http, Request, Response, ResponseBody, safe_url

__all__ = ["Exchange", "ExchangeRecorder"]

_SHOWN = {"a2a-version", "accept", "a2a-extensions", "content-type", "x-a2a-extensions"}
_KEPT_BYTES = 1 << 20  # of a stream; more is not needed to judge it
_SHOWN_CHARS = 2000


class Exchange(msgspec.Struct):
    """One request and its answer. `status` is 0 while there is none."""

    verb: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    sent: bytes = b""
    status: int = 0
    content_type: str = ""
    body: bytes = b""

    @property
    def request(self) -> str:
        """The request as text."""
        if not self.verb:
            return ""
        lines = [f"{self.verb} {self.url}", *(f"{k}: {v}" for k, v in self.headers.items())]
        return "\n".join(lines) + (f"\n\n{_text(self.sent)}" if self.sent else "")

    @property
    def answer(self) -> str:
        """The answer as text, cut where it is long."""
        if not self.status:
            return ""
        kind = f"\nContent-Type: {self.content_type}" if self.content_type else ""
        return f"HTTP {self.status}{kind}" + (f"\n\n{_text(self.body)}" if self.body else "")


def _text(body: bytes) -> str:
    text = body[: 4 * _SHOWN_CHARS].decode("utf-8", "replace")
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + " …"


class ExchangeRecorder:
    """Keeps every exchange of the HTTP it wraps."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def wrap(self, http: Http) -> Http:
        return _Recorded(http, self.exchanges)


class _Recorded:
    def __init__(self, http: Http, exchanges: list[Exchange]) -> None:
        self._http = http
        self._exchanges = exchanges

    async def fetch(self, request: Request, *, limit: int) -> Response:
        exchange = self._begin(request)
        answer = await self._http.fetch(request, limit=limit)
        exchange.status, exchange.body = answer.status, answer.body
        exchange.content_type = answer.headers.get("Content-Type", "")
        return answer

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        exchange = self._begin(request)
        answer = await self._http.open(request, idle_s=idle_s)
        exchange.status = answer.status
        exchange.content_type = answer.headers.get("Content-Type", "")
        return _RecordedBody(answer, exchange)

    async def close(self) -> None:
        await self._http.close()

    def _begin(self, request: Request) -> Exchange:
        shown = {k: v if k.lower() in _SHOWN else "<hidden>" for k, v in request.headers.items()}
        exchange = Exchange(request.verb, safe_url(request.url), shown, request.body or b"")
        self._exchanges.append(exchange)
        return exchange


class _RecordedBody:
    def __init__(self, body: ResponseBody, exchange: Exchange) -> None:
        self.status = body.status
        self.headers = body.headers
        self._body = body
        self._exchange = exchange

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._body.chunks():
            if len(self._exchange.body) < _KEPT_BYTES:
                self._exchange.body += chunk
            yield chunk

    async def close(self) -> None:
        await self._body.close()
