"""What an issuer of tokens publishes: its metadata (OpenID Connect Discovery, RFC 8414), its keys.

The user gives the address of the issuer. What the issuer names at other origins is a stranger's
word, and goes through the guard.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Any, Protocol

import msgspec

from ..model import whole_number
from ..net import (
    AgentFault,
    Guard,
    Http,
    Proxies,
    Request,
    Response,
    guard_beside,
    host_of,
    origin_of,
    safe_url,
)
from .jose import PublicKey, public_keys

__all__ = ["FileKeys", "Issuer", "IssuerUnavailable", "KeySource", "RemoteKeys", "ask_issuer"]

_log = logging.getLogger("accord.auth")

_ANSWER_BYTES = 1 << 20
_TIMEOUT_S = 10.0
_FRESH_S = (60.0, 3600.0)  # what an issuer may say about how long its keys are good for
_DEFAULT_FRESH_S = 300.0
_STALE_S = 24 * 3600.0  # keys are used so much longer while their issuer can't be reached
_AGAIN_S = 10.0  # no more often than this is an issuer asked, whatever tokens come
_UNKNOWN_S = 60.0
_UNKNOWN = 1000

_json = msgspec.json.Decoder()


class IssuerUnavailable(Exception):
    """An issuer can't be asked now, so nothing can be said about a token."""


async def ask_issuer(
    url: str,
    *,
    guard: Guard | None = None,
    verb: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    http: Http | None = None,
    tls: SSLContext | None = None,
) -> Response:
    """Send one request to an issuer. Redirects are not followed. Raises AgentFault.

    With `http` that connects, as its owner wants it; without, the environment's proxies count
    unless there is a guard.
    """
    lines = {"Accept": "application/json", **(headers or {})}
    request = Request(verb, url, _TIMEOUT_S, lines, body)
    if http is not None:
        return await http.fetch(request, limit=_ANSWER_BYTES)
    from ..net import Network  # brings aiohttp

    proxies = Proxies.from_environment() if guard is None else None
    network = Network(connect_s=_TIMEOUT_S, lost_s=30.0, guard=guard, proxies=proxies, tls=tls)
    try:
        return await network.fetch(request, limit=_ANSWER_BYTES)
    finally:
        await network.close()


async def _document(
    url: str,
    guard: Guard | None,
    http: Http | None = None,
    tls: SSLContext | None = None,
) -> tuple[dict[str, Any], float]:
    """Return a JSON object that is published at `url`, and for how long it is good."""
    try:
        answer = await ask_issuer(url, guard=guard, http=http, tls=tls)
    except AgentFault as error:
        raise IssuerUnavailable(str(error)) from None
    if answer.status != 200:
        raise IssuerUnavailable(f"{safe_url(url)} answers with HTTP {answer.status}")
    try:
        value = _json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise IssuerUnavailable(f"{safe_url(url)} is not a JSON object")
    return value, _fresh_s(answer.headers.get("Cache-Control") or "")


def _fresh_s(header: str) -> float:
    for item in header[:1000].split(","):
        name, _, value = item.strip().partition("=")
        age_s = whole_number(value) if name.lower() == "max-age" else None
        if age_s is not None:
            return min(max(float(age_s), _FRESH_S[0]), _FRESH_S[1])
    return _DEFAULT_FRESH_S


class KeySource(Protocol):
    """Fetch the public keys of an issuer."""

    generation: int  # grows when the keys change

    async def keys(self, kid: str | None) -> list[PublicKey]:
        """Return the keys; `kid` is the one that is looked for. Raises IssuerUnavailable."""
        ...


class FileKeys:
    """Keys in a JWK set: a value, or a file, which is read again when it changes."""

    def __init__(self, jwks: Mapping[str, Any] | str | Path) -> None:
        self.generation = 0
        self._file = None if isinstance(jwks, Mapping) else Path(jwks)
        self._stamp: tuple[int, ...] = ()
        self._keys: list[PublicKey] = []
        if isinstance(jwks, Mapping):
            self._keys = _usable(dict(jwks), "the JWK set")
        else:
            self._read()

    async def keys(self, kid: str | None) -> list[PublicKey]:
        if self._file is not None:
            try:
                self._read()
            except ValueError as error:
                _log.error("new keys can't be read, so the old ones stay in use: %s", error)
        return self._keys

    def _read(self) -> None:
        assert self._file is not None
        try:
            found = self._file.stat()
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
            if stamp == self._stamp:
                return
            value = _json.decode(self._file.read_bytes())
        except OSError as error:
            raise ValueError(f"can't read the keys in {self._file}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ValueError(f"{self._file} is not JSON") from None
        self._keys, self._stamp = _usable(value, str(self._file)), stamp
        self.generation += 1


def _usable(jwks: Any, where: str) -> list[PublicKey]:
    try:
        keys = public_keys(jwks)
    except ValueError as error:
        raise ValueError(f"{where} is {error}") from None
    if not keys:
        raise ValueError(
            f"{where} has no public key that signatures can be verified with (RSA of 2048 bits "
            "or more, P-256, P-384, P-521, Ed25519)"
        )
    return keys


class RemoteKeys:
    """Keys at a URL: kept while they are fresh, asked for again when a token names an unknown one.

    An issuer that is away, and a key that is not there, are remembered for a while: tokens of
    strangers must not make us ask for every one of them.
    """

    def __init__(
        self,
        where: str | Callable[[], Any],
        *,
        guard: Guard | None = None,
        http: Http | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`where` is the URL, or an async function that returns it and the guard for it."""
        self.generation = 0
        self._where = where
        self._guard = guard
        self.http = http
        self._clock = clock
        self._keys: list[PublicKey] = []
        self._fetched = -_STALE_S  # when we have last had an answer
        self._asked = -_STALE_S  # when we have last asked
        self._until = -_STALE_S
        self._failure = ""
        self._unknown: dict[str, float] = {}
        self._lock = asyncio.Lock()

    async def keys(self, kid: str | None) -> list[PublicKey]:
        if self._clock() >= self._until:
            await self._refresh(self._fetched)
        if kid is not None and all(key.id != kid for key in self._keys):
            await self._look_for(kid)
        return self._keys

    async def _look_for(self, kid: str) -> None:
        now = self._clock()
        if self._unknown.get(kid, 0.0) > now or now - self._asked < _AGAIN_S:
            return
        before = self._fetched
        with contextlib.suppress(IssuerUnavailable):
            await self._refresh(before)
        if all(key.id != kid for key in self._keys):
            if len(self._unknown) >= _UNKNOWN:
                self._unknown.clear()
            self._unknown[kid] = self._clock() + _UNKNOWN_S

    async def _refresh(self, seen: float) -> None:
        """Ask the issuer, unless somebody else has since `seen`."""
        async with self._lock:
            now = self._clock()
            if self._fetched != seen:
                return
            if not (self._failure and now - self._asked < _AGAIN_S):
                self._asked = now
                try:
                    await self._fetch()
                    return
                except IssuerUnavailable as error:
                    # from its end: those who have waited meanwhile do not ask again
                    self._failure, self._asked = str(error), self._clock()
                    _log.warning("can't get the keys of an issuer: %s", error)
            if not self._keys or now - self._fetched > _STALE_S:
                raise IssuerUnavailable(self._failure)
            self._until = now + _AGAIN_S

    async def _fetch(self) -> None:
        url, guard = (
            (self._where, self._guard) if isinstance(self._where, str) else await self._where()
        )
        value, fresh_s = await _document(url, guard, self.http)
        try:
            keys = _usable(value, safe_url(url))
        except ValueError as error:
            raise IssuerUnavailable(str(error)) from None
        if [(key.id, key.key.as_dict()) for key in keys] != [
            (key.id, key.key.as_dict()) for key in self._keys
        ]:
            self.generation += 1
        self._keys, self._failure = keys, ""
        self._unknown.clear()
        self._fetched = self._asked = self._clock()
        self._until = self._fetched + fresh_s


class Issuer:
    """An issuer by its address: its metadata, asked for when first needed and kept for a while.

    That it can't be had is kept too: else each token of a stranger would make us ask again.
    """

    def __init__(
        self,
        url: str,
        *,
        metadata_url: str = "",
        guard: Guard | None = None,
        tls: SSLContext | None = None,
        is_exact: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            url: The issuer, as its tokens name it.
            metadata_url: Where its metadata is, if not at the well-known places below `url`.
            guard: For an issuer whose address a stranger gave.
            tls: Whom to trust on the way to it.
            is_exact: `url` is its very name; else a slash at the end does not count.
        """
        origin_of(url)  # a ValueError now, not with the first token
        self.url = url
        self._places = (
            [metadata_url]
            if metadata_url
            else [f"{url.rstrip('/')}/.well-known/openid-configuration", _rfc8414(url)]
        )
        self.elsewhere = Guard()  # on what it names at other origins than its own
        self._guard = guard
        self._tls = tls
        self._is_exact = is_exact
        self._clock = clock
        self._metadata: dict[str, Any] = {}
        self._failure = ""
        self._until = float("-inf")  # for which the metadata counts, or the failure
        self._lock = asyncio.Lock()

    async def metadata(self) -> dict[str, Any]:
        """Return the issuer's metadata. Raises IssuerUnavailable."""
        async with self._lock:
            if self._clock() >= self._until:
                try:
                    self._metadata, fresh_s = await self._find()
                    self._failure = ""
                except IssuerUnavailable as error:
                    self._failure, fresh_s = str(error), _AGAIN_S
                self._until = self._clock() + fresh_s
            if self._failure:
                raise IssuerUnavailable(self._failure)
            return self._metadata

    async def endpoint(self, name: str) -> tuple[str, Guard | None]:
        """Return an address the metadata names, and the guard it is to be called with.

        Raises:
            IssuerUnavailable: The metadata can't be had, or does not name it.
        """
        url = (await self.metadata()).get(name)
        try:
            if not isinstance(url, str):
                raise ValueError
            is_elsewhere = origin_of(url) != origin_of(self.url)
        except ValueError:
            raise IssuerUnavailable(f"{safe_url(self.url)} names no {name}") from None
        if self._guard is not None or not is_elsewhere:
            return url, self._guard
        return url, await guard_beside(host_of(self.url), self.elsewhere)

    async def keys_at(self) -> tuple[str, Guard | None]:
        return await self.endpoint("jwks_uri")

    async def _find(self) -> tuple[dict[str, Any], float]:
        failure: IssuerUnavailable | None = None
        for place in self._places:
            try:
                value, fresh_s = await _document(place, self._guard, tls=self._tls)
            except IssuerUnavailable as error:
                failure = failure or error
                continue
            if not self._is_named(value.get("issuer")):
                # RFC 8414, section 3.3: else one issuer could speak for another
                raise IssuerUnavailable(
                    f"{safe_url(place)} is the metadata of another issuer than {self.url}"
                )
            return value, fresh_s
        assert failure is not None
        raise failure

    def _is_named(self, name: Any) -> bool:
        if self._is_exact or not isinstance(name, str):
            return bool(name == self.url)
        return name.rstrip("/") == self.url.rstrip("/")


def _rfc8414(url: str) -> str:
    """The well-known place of RFC 8414: between the host and the path."""
    origin = origin_of(url)
    path = url.rstrip("/")[len(origin) :] if url.startswith(origin) else ""
    return f"{origin}/.well-known/oauth-authorization-server{path}"
