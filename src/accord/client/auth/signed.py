"""Requests with credentials.

A credential goes only where it belongs: to the origin the user named (or, for a card handed over,
the one the card names). Not along a redirect, not to another host the card points at, not into a
log or an error.
"""

from collections.abc import Mapping
from urllib.parse import quote

from ...net import Http, Response, ResponseBody, origin_of
from .choosing import Chosen
from .credentials import Renewable

__all__ = ["Signed", "renewed"]


async def renewed(chosen: Chosen) -> bool:
    """The agent refused these credentials: get others. Return whether there may be some."""
    found = [await c.renew() for c, _ in chosen if isinstance(c, Renewable)]
    return any(found)


class Signed:
    """HTTP that adds credentials to requests for one origin, and to no other.

    What is answered with 401 has not been done: it is sent once more, if there is another
    credential.
    """

    def __init__(self, http: Http, origin: str, chosen: Chosen) -> None:
        self._http = http
        self._origin = origin
        self._chosen = chosen

    async def fetch(
        self,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        limit: int,
        timeout_s: float,
    ) -> Response:
        signed = await self._sign(url, headers)
        response = await self._http.fetch(verb, *signed, body, limit=limit, timeout_s=timeout_s)
        if response.status == 401:
            again = await self._sign_again(url, headers, signed)
            if again is not None:
                return await self._http.fetch(verb, *again, body, limit=limit, timeout_s=timeout_s)
        return response

    async def open(
        self,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        timeout_s: float,
        idle_s: float,
    ) -> ResponseBody:
        signed = await self._sign(url, headers)
        response = await self._http.open(verb, *signed, body, timeout_s=timeout_s, idle_s=idle_s)
        if response.status == 401:
            again = await self._sign_again(url, headers, signed)
            if again is not None:
                await response.close()
                return await self._http.open(verb, *again, body, timeout_s=timeout_s, idle_s=idle_s)
        return response

    async def close(self) -> None:
        await self._http.close()

    async def _sign_again(
        self, url: str, headers: Mapping[str, str], before: tuple[str, Mapping[str, str]]
    ) -> tuple[str, Mapping[str, str]] | None:
        if origin_of(url) != self._origin or not await renewed(self._chosen):
            return None
        again = await self._sign(url, headers)
        return again if again != before else None

    async def _sign(self, url: str, headers: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        if origin_of(url) != self._origin:
            return url, headers
        signed: dict[str, str] = dict(headers)
        query: dict[str, str] = {}
        for credential, scheme in self._chosen:
            await credential.apply(scheme, signed, query)
        if query:
            pairs = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in query.items())
            url += ("&" if "?" in url else "?") + pairs
        return url, signed
