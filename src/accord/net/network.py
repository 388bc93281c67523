"""The `Http` contract over the network, with aiohttp."""

import asyncio
import errno
import io
import math
import re
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from logging import DEBUG
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from ..model import whole_number
from .errors import AgentFault, BadAnswer, ConnectionLost, TooSlow, Unreachable, why
from .guard import Guard
from .http import Request, Response, ResponseBody, may_be_set
from .pool import Pool, forget, is_unread
from .proxies import Proxies, Proxy
from .tls import client_tls
from .url import parse_url, safe_url
from .wire import log_body, log_request, log_status, wire

__all__ = ["Network"]

_OWN = {"User-Agent": "accord", "Accept-Encoding": "identity"}
_BREAK = re.compile("[\r\n\0]")
_AT_ONCE_BYTES = 64 << 10
# What is kept for a slow reader before the sender is made to wait; aiohttp takes twice as much.
_AHEAD_BYTES = 128 << 10
_FIELD_BYTES = 32 << 10
_TARGETS = 1024
# Below the five seconds after which common servers close an idle connection, so that few requests
# are sent on a connection that is just being closed.
_KEEP_S = 4.0
_GOODBYE_S = 0.25


class _Target(NamedTuple):
    """Where a URL leads, and through which proxy."""

    url: URL
    where: str  # as errors name it
    options: dict[str, Any]
    proxy: Proxy | None


class Network:
    """Keeps the `Http` contract over the network.

    - A connection is used again while it is fresh and its last answer was read to the end.
    - Nothing is sent twice, except what the server provably has not read (`pool.is_unread`); and,
      by aiohttp, verbs that may be.
    - With a `session` of the user's own, its connector, proxies and TLS count; it is not closed.
    """

    def __init__(
        self,
        *,
        connect_s: float,
        lost_s: float,
        tls: ssl.SSLContext | None = None,
        proxies: Proxies | None = None,
        guard: Guard | None = None,
        keep_s: float = _KEEP_S,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self._session: aiohttp.ClientSession | None = None
        if guard is not None and (proxies is not None or session is not None):
            raise ValueError(
                "a proxy or a session of your own resolves names by itself: a guard can't look "
                "at what they connect to"
            )
        self._connect_s = connect_s
        self._lost_s = lost_s
        self._keep_s = keep_s
        self._tls = tls
        self._guard = guard
        # Through a proxy, what is connected to is the proxy, which the user gave.
        is_direct = guard is None or guard.proxies is None
        self._connect_guard = guard if is_direct else None
        self._proxies = proxies or (guard.proxies if guard is not None else None) or Proxies()
        self._given_session = session
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._targets: dict[str, _Target] = {}
        self._headers: tuple[Mapping[str, str], dict[str, str]] = ({}, dict(_OWN))

    async def fetch(self, request: Request, *, limit: int) -> Response:
        target = self._target(request.url)
        timeout = aiohttp.ClientTimeout(
            total=_finite(request.timeout_s), connect=_finite(self._connect_s)
        )
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._send(request, target, timeout)
            _check(response, target, limit if request.verb != "HEAD" else None)
            body = await _read(response, target.where, limit)
            if wire.isEnabledFor(DEBUG):
                log_body(body)
            return Response(response.status, _Headers(response), body)
        except BaseException as error:
            if response is not None:
                response.close()
            fault = self._fault(error, target, request.timeout_s)
        # here, so that it holds no error of aiohttp as its context: these name URLs with their
        # queries
        raise fault

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        target = self._target(request.url)
        timeout_s = min(request.timeout_s, idle_s)
        timeout = aiohttp.ClientTimeout(
            total=None, connect=_finite(self._connect_s), sock_read=_finite(idle_s)
        )
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(_finite(timeout_s)):
                response = await self._send(request, target, timeout)
            _check(response, target, None)
            return _Coming(response, lambda error: self._fault(error, target, idle_s))
        except BaseException as error:
            if response is not None:
                response.close()
            fault = self._fault(error, target, timeout_s)
        raise fault

    async def close(self) -> None:
        """Close everything; who still waits or reads gets an error."""
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None and session is not self._given_session:
            await _end(session, self._loop)

    def __del__(self) -> None:
        session = self._session
        if session is not None and session is not self._given_session and not session.closed:
            # else aiohttp complains in the log, about things its user has never heard of
            session.detach()
            warnings.warn(
                "a client was not closed: use `async with connect(...)`",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    # Requests

    async def _send(
        self, request: Request, target: _Target, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        verb, body = request.verb, request.body
        session = self._session
        if session is None or asyncio.get_running_loop() is not self._loop:
            session = await self._opened()
        if not verb.isalpha():
            raise ValueError(f"{verb[:20]!r} is not an HTTP method")
        lines = self._lines(request.headers)
        if target.proxy is not None and target.url.scheme == "http":
            # Read and taken out by the proxy; with TLS they go with CONNECT.
            lines = lines | target.proxy.headers
        while True:
            # Large bodies are written as fast as they are taken, and not copied.
            data = io.BytesIO(body) if body is not None and len(body) > _AT_ONCE_BYTES else body
            forget()
            if wire.isEnabledFor(DEBUG):
                log_request(verb, str(target.url), lines, body)
            try:
                response = await session.request(
                    verb,
                    target.url,
                    headers=lines,
                    data=data,
                    timeout=timeout,
                    allow_redirects=False,
                    **target.options,
                )
            except aiohttp.ClientConnectionError:
                if self._is_closed or not is_unread():
                    raise
            else:
                if wire.isEnabledFor(DEBUG):
                    log_status(response.status)
                return response

    async def _opened(self) -> aiohttp.ClientSession:
        """Return the session of the running loop: connections belong to the loop they were
        made on.
        """
        if self._is_closed:
            raise RuntimeError("this client is closed; connect again")
        before, loop = self._session, self._loop
        self._loop = asyncio.get_running_loop()
        self._session = self._given_session or aiohttp.ClientSession(
            connector=Pool(lost_s=self._lost_s, keep_s=self._keep_s, guard=self._connect_guard),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Content-Type"),
            read_bufsize=_AHEAD_BYTES,
            max_field_size=_FIELD_BYTES,
        )
        if before is not None and before is not self._given_session:
            await _end(before, loop)
        return self._session

    def _target(self, url: str) -> _Target:
        known = self._targets.get(url)
        if known is not None:
            return known
        where = safe_url(url)
        try:
            parts = parse_url(url)
            # As `parse_url` read it: yarl would read it again, in its own way.
            address = URL(parts.origin + parts.target, encoded=True)
        except ValueError:
            raise Unreachable(where, "this is not a URL to connect to", is_lasting=True) from None
        if self._guard is not None:
            try:
                self._guard.check_url(url)
            except ValueError as error:
                raise Unreachable(
                    where, f"no connection: {error}", is_lasting=True, cause="guard"
                ) from None
        if len(self._targets) >= _TARGETS:
            self._targets.clear()
        options: dict[str, Any] = {}
        proxy = None
        if self._given_session is not None:
            options = {
                "auto_decompress": False,
                "skip_auto_headers": ("Accept", "Content-Type"),
                "read_bufsize": _AHEAD_BYTES,
            }
        else:
            options = {"ssl": self._tls or client_tls()} if parts.scheme == "https" else {}
            try:
                proxy = self._proxies.of(parts)
            except ValueError as error:
                raise Unreachable(where, str(error), is_lasting=True) from None
            if proxy is not None:
                options |= {
                    "proxy": proxy.url,
                    "proxy_headers": proxy.headers if parts.scheme == "https" else None,
                }
        target = self._targets[url] = _Target(address, where, options, proxy)
        return target

    def _lines(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request, ours among them.

        Raises:
            ValueError: One would end up as something else than a header. Values are not quoted:
              they may be secret.
        """
        last, lines = self._headers
        if given == last:
            return lines
        lines = dict(_OWN)
        for name, value in given.items():
            if not may_be_set(name):
                raise ValueError(f"{name[:40]!r} is not a header that can be set")
            if _BREAK.search(value):
                raise ValueError(f"the header {name} holds a line break or a zero")
            if name.title() in lines:
                del lines[name.title()]
            lines[name] = value
        self._headers = (dict(given), lines)
        return lines

    def _fault(self, error: BaseException, target: _Target, timeout_s: float) -> BaseException:
        """Return what the contract has for an error of aiohttp; any other error as it is."""
        where = target.where
        match error:
            case AgentFault():
                return error
            case aiohttp.ConnectionTimeoutError() if timeout_s >= self._connect_s:
                return Unreachable(
                    where,
                    f"no connection within {self._connect_s:.3g} s",
                    after_s=self._connect_s,
                    cause="timeout",
                )
            case TimeoutError():
                return TooSlow(where, f"no answer within {timeout_s:.3g} s")
            case aiohttp.ClientHttpProxyError():
                return _refused(
                    target, f"{error.status} {error.message}", is_lasting=error.status < 500
                )
            case aiohttp.ClientConnectorError() | aiohttp.ClientConnectorCertificateError():
                return _unreachable(target, error)
            case aiohttp.ClientResponseError():
                return BadAnswer(where, f"the answer is not HTTP: {_words(error.message)}")
            case aiohttp.ClientError() | OSError():
                return ConnectionLost(where, f"the connection broke off: {why(error)}")
        return error


def _check(response: aiohttp.ClientResponse, target: _Target, limit: int | None) -> None:
    """Refuse an answer by its head."""
    status, version, headers = response.status, response.version, response.headers
    if version not in (aiohttp.HttpVersion11, aiohttp.HttpVersion10):
        named = f"{version.major}.{version.minor}" if version is not None else "?"
        raise BadAnswer(target.where, f"the answer is not HTTP: version {named}")
    if status < 200:
        raise BadAnswer(target.where, f"the answer is not HTTP: status {status}")
    if status == 407 and target.proxy is not None:
        raise _refused(target, "407 Proxy Authentication Required")
    if (
        "Content-Encoding" in headers
        and (coding := headers["Content-Encoding"]).lower() != "identity"
    ):
        raise BadAnswer(
            target.where, f"the answer is compressed ({coding[:20]}), which was not asked for"
        )
    if (
        "Transfer-Encoding" in headers
        and ",".join(headers.getall("Transfer-Encoding")).lower() != "chunked"
    ):
        raise BadAnswer(
            target.where, "the answer is not HTTP: a transfer encoding that was not asked for"
        )
    length = headers.get("Content-Length")
    if (
        limit is not None
        and length is not None
        and status not in (204, 304)
        and whole_number(length, limit) is None
    ):
        raise BadAnswer(target.where, f"the answer is larger than {limit} bytes")


def _unreachable(target: _Target, error: Any) -> Unreachable:
    """No connection was made."""
    reason: Any = (
        getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    )
    if isinstance(reason, ssl.SSLError | ssl.CertificateError):
        # With a reason it is the other side's certificate or manners; without one, it just went
        # away.
        is_lasting = bool(getattr(reason, "reason", None)) and not isinstance(
            reason, ssl.SSLEOFError
        )
        return Unreachable(
            target.where,
            f"no secure connection: {why(reason)}",
            is_lasting=is_lasting,
            cause="tls",
        )
    is_lasting = (
        isinstance(reason, socket.gaierror) and reason.errno != socket.EAI_AGAIN
    ) or reason.errno == errno.EACCES
    to = (
        f" to the proxy {target.proxy.url}"
        if isinstance(error, aiohttp.ClientProxyConnectionError) and target.proxy
        else ""
    )
    return Unreachable(
        target.where,
        f"no connection{to}: {why(reason)}",
        is_lasting=is_lasting,
        cause="dns"
        if isinstance(reason, socket.gaierror)
        else "guard"
        if isinstance(reason, PermissionError)
        else "refused",
    )


def _refused(target: _Target, answer: str, *, is_lasting: bool = True) -> Unreachable:
    proxy = target.proxy.url if target.proxy is not None else "in between"
    return Unreachable(
        target.where, f"the proxy {proxy} refused: {_words(answer)}", is_lasting=is_lasting
    )


def _words(text: str) -> str:
    return " ".join(text.split())[:200]


async def _read(response: aiohttp.ClientResponse, where: str, limit: int) -> bytes:
    content = response.content
    whole = await content.readany()
    size = len(whole)
    pieces = [whole]
    while size <= limit:
        piece = await content.readany()
        if not piece:
            return whole if len(pieces) == 1 else b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    raise BadAnswer(where, f"the answer is larger than {limit} bytes")


async def _end(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop | None) -> None:
    """Close a session, also one whose loop is over; a moment is given to say goodbye."""
    if loop is not None and not loop.is_closed() and loop is not asyncio.get_running_loop():
        session.detach()  # another thread may still use it: what it holds ends with it
        return
    try:
        async with asyncio.timeout(_GOODBYE_S):
            await session.close()
    except TimeoutError:
        pass


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


class _Headers(Mapping[str, str]):
    """The headers of an answer, read when they are asked for."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._all = response.headers

    def __getitem__(self, name: str) -> str:
        value = ", ".join(self._all.getall(name))
        return (
            value
            if value.isascii()
            else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        )

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._all else default

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower() for name in self._all})

    def __len__(self) -> int:
        return len({name.lower() for name in self._all})


class _Coming(AsyncIterator[bytes]):
    """An answer whose body is read as it comes."""

    def __init__(
        self, response: aiohttp.ClientResponse, fault: Callable[[BaseException], BaseException]
    ) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = _Headers(response)
        self._response = response
        self._fault = fault

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        fault = None
        try:
            chunk = await self._response.content.readany()
        except Exception as error:
            self._response.close()
            fault = self._fault(error)
        # Here, so that it holds no error of aiohttp as its context.
        if fault is not None:
            raise fault
        if not chunk:
            raise StopAsyncIteration
        if wire.isEnabledFor(DEBUG):
            log_body(chunk)
        return chunk

    async def close(self) -> None:
        # a connection whose answer was read to its end has been kept already
        self._response.close()
