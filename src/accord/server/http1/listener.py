"""A port for HTTP/1.1: what its connections share."""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ...model import Limits
from ...sockets import notice_loss
from ..request import HttpRequest, HttpResponse, StreamingResponse, http_date
from ..transport import Listener, Tls, UnreadAnswers
from .connection import Http1Connection

__all__ = ["HttpServer"]

# Beyond twice the patience with a client that takes nothing: then it is gone, if not even its
# system answers. Much later than we cut it ourselves: Linux counts one that lives and takes nothing
# as lost too, and drops it without a word to it.
LOST_S = 10.0


class HttpServer(Listener):
    """A port where requests are answered, by whatever `answer` is."""

    alpn = "http/1.1"

    def __init__(
        self,
        answer: Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse | StreamingResponse]],
        host: str,
        port: int,
        limits: Limits,
        tls: Tls | None = None,
        unread: UnreadAnswers | None = None,
        is_refused: Callable[[HttpRequest], bool] = lambda request: False,
    ) -> None:
        super().__init__(host, port, limits, tls, unread)
        self.answer = answer
        self.is_refused = is_refused
        self.scheme = "https" if tls is not None else "http"
        self.loop = asyncio.get_running_loop()
        self.date = self.ok = b""

    @property
    def url(self) -> str:
        """Where it listens."""
        name = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{name}:{self.port}"

    async def bind(self) -> list[socket.socket]:
        sockets = await super().bind()
        for one in sockets:  # and so on every connection; gRPC asks by itself, with pings
            notice_loss(one, self.limits.keep_alive_comment_s, 2 * self.limits.stalled_s + LOST_S)
        return sockets

    def connected(self) -> Http1Connection:
        return Http1Connection(self)

    def check_all(self, now: float) -> None:
        # Browsers take an answer for what it says it is, and nothing else.
        self.date = b"date: %b\r\nx-content-type-options: nosniff\r\n" % http_date(time.time())
        self.ok = b"HTTP/1.1 200 OK\r\n" + self.date
        super().check_all(now)
