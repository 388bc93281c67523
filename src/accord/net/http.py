"""HTTP as we need it to connect out: one call, or a body that is read as it comes.

`Http` is the contract. `Network` keeps it with aiohttp, the client's `InProcess` by calling an app.
Neither follows redirects, keeps cookies or takes compressed answers: what goes where is decided by
the caller.
"""

import functools
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

__all__ = ["Http", "Request", "Response", "ResponseBody", "ResponseHeaders", "may_be_set"]

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# How a message is framed is for whoever sends it to say, and for nobody else.
_FRAMING = {
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


@functools.lru_cache(maxsize=256)  # most requests have the same few names
def may_be_set(name: str) -> bool:
    """Return whether a caller or a card may set a header of this name."""
    return _NAME.fullmatch(name) is not None and name.lower() not in _FRAMING


class ResponseHeaders(Mapping[str, str]):
    """The headers of an answer: names in any case, the values of a repeated one joined by
    commas.
    """

    def __init__(self, raw: dict[bytes, bytes]) -> None:
        self._raw = raw  # names in lower case

    @classmethod
    def of(cls, pairs: Iterable[tuple[bytes, bytes]]) -> "ResponseHeaders":
        raw: dict[bytes, bytes] = {}
        for name, value in pairs:
            name = name.lower()
            raw[name] = value if name not in raw else raw[name] + b", " + value
        return cls(raw)

    def __getitem__(self, name: str) -> str:
        return self._raw[name.lower().encode()].decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (name.decode() for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


class Request(NamedTuple):
    verb: str
    url: str
    timeout_s: float  # for the whole answer, or for its headers if the body is read as it comes
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class ResponseBody(Protocol):
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

    async def fetch(self, request: Request, *, limit: int) -> Response:
        """Return the whole answer."""
        ...

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        """Return the answer as soon as its headers are there. `idle_s` is the longest pause
        between two chunks of the body.
        """
        ...

    async def close(self) -> None: ...
