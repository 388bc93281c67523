"""HTTP/1.1 over sockets: what a request looks like, and which connection it goes out on."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from .connection import Connection
from .dial import dial, own_tls
from .errors import ConnectionLost, TooSlow, Unreachable, why
from .http import Answer, Body, Headers, may_be_set
from .url import Url, parse, safe_url

__all__ = ["Network"]

_OWN = {"User-Agent": "accord", "Accept-Encoding": "identity"}
_BREAK = re.compile("[\r\n\0]")
_AT_ONCE_BYTES = 64 << 10
_TARGETS = 1024
# Below the five seconds after which common servers close an idle connection, so that no request runs into the closing door.
_KEEP_S = 4.0
_GOODBYE_S = 0.25


class _Target(NamedTuple):
    """Where a URL leads: whose connections it can use, and its part of a request."""

    url: Url
    origin: str
    line: bytes
    host: bytes


class Network:
    """Keeps the `Http` contract over sockets.

    - A connection is used again while it is fresh and its last answer was read to the end.
    - Nothing is sent twice: if a connection closes under a request, its caller is told.
    """

    def __init__(self, *, connect_s: float, lost_s: float, tls: ssl.SSLContext | None = None, keep_s: float = _KEEP_S) -> None:
        self._connect_s = connect_s
        self._lost_s = lost_s
        self._keep_s = keep_s
        self._tls = tls
        self._is_closed = False
        self._targets: dict[str, _Target] = {}
        self._given: dict[str, str] = {}
        self._block, self._names_host = _lines({})
        self._loop: asyncio.AbstractEventLoop | None = None
        self._all: set[Connection] = set()
        self._free: dict[str, list[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def fetch(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, limit: int, timeout_s: float
    ) -> Answer:
        connection = await self._begun(verb, url, headers, body, limit, timeout_s)
        try:
            if body is not None and len(body) > _AT_ONCE_BYTES:
                await connection.write_slowly(body)
            whole = await connection.answer()
        except BaseException:
            connection.abort()
            raise
        answer = Answer(connection.status, Headers(connection.raw), whole)
        self.keep(connection)
        return answer

    async def open(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, timeout_s: float, idle_s: float
    ) -> Body:
        connection = await self._begun(verb, url, headers, body, None, min(timeout_s, idle_s))
        try:
            if body is not None and len(body) > _AT_ONCE_BYTES:
                await connection.write_slowly(body)
            await connection.head()
        except BaseException:
            connection.abort()
            raise
        return _Coming(self, connection, idle_s)

    async def close(self) -> None:
        """Close everything; who still waits or reads is told. Gives connections a moment to say goodbye."""
        self._is_closed = True
        self._free.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if not self._all or asyncio.get_running_loop() is not self._loop:
            return
        self._emptied = self._loop.create_future()
        for connection in list(self._all):
            connection.close()
        await asyncio.wait([self._emptied], timeout=_GOODBYE_S)
        for connection in list(self._all):
            connection.abort()

    # Requests

    async def _begun(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, limit: int | None, patience_s: float
    ) -> Connection:
        """Return a connection with the request on its way; of a large body, only what is before it."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        target = self._targets.get(url) or self._target(url)
        request = self._request(verb, target, headers, body)
        until = loop.time() + patience_s
        connection = self._taken(target.origin) or await self._connected(target, patience_s)
        connection.begin(verb, url, limit, until, patience_s)
        connection.write(request)
        return connection

    def _target(self, url: str) -> _Target:
        try:
            parts = parse(url)
        except ValueError:
            raise Unreachable(safe_url(url), "that is no URL to connect to", is_lasting=True) from None
        if len(self._targets) >= _TARGETS:
            self._targets.clear()
        line = f" {parts.target} HTTP/1.1\r\n".encode("ascii")
        target = _Target(parts, parts.origin, line, f"Host: {parts.authority}\r\n".encode("ascii"))
        self._targets[url] = target
        return target

    def _request(self, verb: str, target: _Target, headers: Mapping[str, str], body: bytes | None) -> bytes:
        if headers != self._given:
            self._block, self._names_host = _lines(headers)
            self._given = dict(headers)
        if not verb.isalpha():
            raise ValueError(f"{verb[:20]!r} is no HTTP verb")
        host = b"" if self._names_host else target.host
        if body is None:
            none = b"" if verb in ("GET", "HEAD") else b"Content-Length: 0\r\n"
            return b"%b%b%b%b%b\r\n" % (verb.encode("ascii"), target.line, host, self._block, none)
        length = len(body)
        with_it = body if length <= _AT_ONCE_BYTES else b""
        return b"%b%b%b%bContent-Length: %d\r\n\r\n%b" % (verb.encode("ascii"), target.line, host, self._block, length, with_it)

    # Connections

    async def _connected(self, target: _Target, patience_s: float) -> Connection:
        if self._is_closed:
            raise RuntimeError("this client is closed; connect again")
        url, where = target.url, safe_url(str(target.url))
        tls = (self._tls or own_tls()) if url.scheme == "https" else None
        try:
            async with asyncio.timeout(min(self._connect_s, patience_s)):
                connection = await dial(
                    url.host, url.port, tls, self._lost_s, lambda: Connection(target.origin, self._keep_s, self._lost)
                )
        except TimeoutError:
            if patience_s < self._connect_s:
                raise TooSlow(where, f"no answer within {patience_s:.3g} s") from None
            raise Unreachable(where, f"no connection within {self._connect_s:.3g} s", after_s=self._connect_s) from None
        except ssl.SSLError as error:
            # With a reason it is the other side's certificate or manners; without one, it just went away.
            is_lasting = bool(error.reason) and not isinstance(error, ssl.SSLEOFError)
            raise Unreachable(where, f"no secure connection: {why(error)}", is_lasting=is_lasting) from None
        except OSError as error:
            raise Unreachable(where, f"no connection: {why(error)}", is_lasting=isinstance(error, socket.gaierror)) from None
        if self._is_closed:
            connection.close()
            raise ConnectionLost(where, "the connection broke off: this client was closed")
        self._all.add(connection)
        return connection

    def _taken(self, origin: str) -> Connection | None:
        stack = self._free.get(origin)
        while stack:
            connection = stack.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """Take back a connection whose answer has been dealt with: for the next request, if it is still good."""
        if self._is_closed or not connection.rest():
            connection.close()
            return
        stack = self._free.get(connection.origin)
        if stack is None:
            stack = self._free[connection.origin] = []
        stack.append(connection)
        if self._sweeper is None and self._loop is not None:
            self._sweeper = self._loop.call_later(self._keep_s, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody has used for a while."""
        self._sweeper = None
        for origin, stack in list(self._free.items()):
            fresh = [connection for connection in stack if connection.is_fresh()]
            for connection in set(stack) - set(fresh):
                connection.close()
            if fresh:
                self._free[origin] = fresh
            else:
                del self._free[origin]
        if self._free and self._loop is not None:
            self._sweeper = self._loop.call_later(self._keep_s, self._sweep)

    def _lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        stack = self._free.get(connection.origin)
        if stack and connection in stack:
            stack.remove(connection)
        if not self._all and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connections belong to the loop they were made on: under another, begin anew."""
        self._loop, self._sweeper = loop, None
        self._all, self._free = set(), {}


class _Coming:
    """An answer whose body is read as it comes."""

    def __init__(self, network: Network, connection: Connection, idle_s: float) -> None:
        self.status = connection.status
        self.headers: Mapping[str, str] = Headers(connection.raw)
        self._network = network
        self._connection: Connection | None = connection
        self._idle_s = idle_s

    async def chunks(self) -> AsyncIterator[bytes]:
        while (connection := self._connection) is not None:
            chunk = await connection.more(self._idle_s)
            if not chunk:
                await self.close()
                return
            yield chunk

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._network.keep(connection)


def _lines(given: Mapping[str, str]) -> tuple[bytes, bool]:
    """Return headers as they are sent, ours among them, and whether they say which host is meant.

    Raises:
        ValueError: One would end up as something else than a header. Values are not quoted: they may be secret.
    """
    lines = {name.lower(): f"{name}: {value}\r\n" for name, value in _OWN.items()}
    for name, value in given.items():
        if not may_be_set(name):
            raise ValueError(f"{name[:40]!r} is no header that can be set")
        if _BREAK.search(value):
            raise ValueError(f"the header {name} holds a line break or a zero")
        lines[name.lower()] = f"{name}: {value}\r\n"
    return "".join(lines.values()).encode("utf-8", "replace"), "host" in lines
