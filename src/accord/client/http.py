"""HTTP as the bindings need it: one call, or a body that is read as it comes.

`Http` is the contract. `Network` keeps it with aiohttp, `asgi.InProcess` by calling an app. Neither follows redirects, keeps
cookies, takes compressed answers or reads the environment: what goes where is decided above.
"""

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from .errors import BadAnswer, ConnectionLost, TooSlow, Unreachable

__all__ = ["Answer", "Body", "Http", "Network", "origin_of", "safe_url"]

# Below the five seconds after which common servers close an idle connection, so that no request runs into the closing door.
_KEEP_ALIVE_S = 4.0
_HEADER_BYTES = 32 << 10
_OWN = {"User-Agent": "accord", "Accept-Encoding": "identity"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Body(Protocol):
    """An answer whose body is still coming."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class Http(Protocol):
    """Sends requests.

    Raises, on every method:
        Unreachable: No connection; nothing was sent.
        ConnectionLost: It broke off.
        TooSlow: Not in time.
        BadAnswer: Not HTTP, compressed without being asked, or longer than `limit`.
    """

    async def fetch(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, limit: int, timeout_s: float
    ) -> Answer: ...

    async def open(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, timeout_s: float, idle_s: float
    ) -> Body: ...

    async def close(self) -> None: ...


def origin_of(url: str) -> str:
    """Scheme, host and port: what credentials are bound to."""
    return str(URL(url).origin())


def safe_url(url: str) -> str:
    """A URL fit for messages and logs: no user, no password, no query."""
    try:
        return str(URL(url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:
        return url.partition("?")[0]


class Network:
    """HTTP over sockets."""

    def __init__(self, *, connect_s: float, tls: ssl.SSLContext | None = None) -> None:
        self._connect_s = connect_s
        self._tls = tls
        self._open_session: aiohttp.ClientSession | None = None
        self._given: Mapping[str, str] = {}
        self._headers = CIMultiDict(_OWN)

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S, ssl=self._tls or True)
            self._open_session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_field_size=_HEADER_BYTES,
                skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept"),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s),
            )
        return self._open_session

    async def fetch(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, limit: int, timeout_s: float
    ) -> Answer:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._session.request(
                    verb, _as_is(url), headers=self._all(headers), data=body, allow_redirects=False
                )
                try:
                    _check_plain(answer, url)
                    length = answer.content_length
                    if length is None:
                        whole = await _read(answer, url, limit)
                    elif length <= limit:
                        whole = await answer.read()
                    else:
                        raise _too_large(url, limit)
                except BaseException:
                    answer.close()
                    raise
                return Answer(answer.status, answer.headers, whole)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _fault(error, url, timeout_s) from None

    async def open(
        self, verb: str, url: str, headers: Mapping[str, str], body: bytes | None, *, timeout_s: float, idle_s: float
    ) -> Body:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_s, sock_read=idle_s)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._session.request(
                    verb, _as_is(url), headers=self._all(headers), data=body, timeout=timeout, allow_redirects=False
                )
            _check_plain(answer, url)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _fault(error, url, timeout_s) from None
        return _Coming(answer, url, idle_s)

    async def close(self) -> None:
        if self._open_session is not None:
            await self._open_session.close()
            self._open_session = None

    def _all(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        """The headers with our own, as aiohttp has them; made once for calls that follow each other with the same."""
        if headers is not self._given:
            self._given, self._headers = headers, CIMultiDict({**_OWN, **headers})
        return self._headers


async def _read(answer: aiohttp.ClientResponse, url: str, limit: int) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            raise _too_large(url, limit)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(url: str, limit: int) -> BadAnswer:
    return BadAnswer(safe_url(url), f"the answer is larger than {limit} bytes")


class _Coming:
    def __init__(self, answer: aiohttp.ClientResponse, url: str, idle_s: float) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer
        self._url = url
        self._idle_s = idle_s

    async def chunks(self) -> AsyncIterator[bytes]:
        read = self._answer.content.readany
        try:
            while chunk := await read():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise _fault(error, self._url, self._idle_s) from None

    async def close(self) -> None:
        self._answer.close()


@functools.lru_cache(1024)
def _as_is(url: str) -> URL:
    return URL(url, encoded=True)


def _check_plain(answer: aiohttp.ClientResponse, url: str) -> None:
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.lower() != "identity":
        answer.close()
        raise BadAnswer(safe_url(url), f"the answer is compressed ({coding[:20]}), which was not asked for")


def _fault(error: Exception, url: str, timeout_s: float) -> Exception:
    where = safe_url(url)
    match error:
        case BadAnswer():
            return error
        case aiohttp.ConnectionTimeoutError():
            return Unreachable(where, "no connection in time")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return Unreachable(where, f"no secure connection: {_why(error)}")
        case aiohttp.ClientConnectorError():
            return Unreachable(where, f"no connection: {_why(error)}")
        case TimeoutError():
            return TooSlow(where, f"no answer within {timeout_s:.3g} s")
        case aiohttp.InvalidURL():
            return Unreachable(where, "that is no URL to connect to")
        case aiohttp.ClientResponseError():
            return BadAnswer(where, f"the answer is not HTTP: {_why(error)}")
        case aiohttp.ClientPayloadError() | aiohttp.ClientConnectionError() | OSError():
            return ConnectionLost(where, f"the connection broke off: {_why(error)}")
    return BadAnswer(where, f"the answer can't be read: {_why(error)}")


def _why(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(text).split())[:200]
