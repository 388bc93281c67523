"""Requests with credentials.

A credential goes only where it belongs: to the origin the user named (or, for a card handed over,
the one the card names). Not along a redirect, not to another host the card points at, not into a
log or an error.
"""

from urllib.parse import quote

from ...net import Http, Request, Response, ResponseBody, origin_of
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

    async def fetch(self, request: Request, *, limit: int) -> Response:
        signed = await self._sign(request)
        response = await self._http.fetch(signed, limit=limit)
        if response.status == 401:
            again = await self._sign_again(request, signed)
            if again is not None:
                return await self._http.fetch(again, limit=limit)
        return response

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        signed = await self._sign(request)
        response = await self._http.open(signed, idle_s=idle_s)
        if response.status == 401:
            again = await self._sign_again(request, signed)
            if again is not None:
                await response.close()
                return await self._http.open(again, idle_s=idle_s)
        return response

    async def close(self) -> None:
        await self._http.close()

    async def _sign_again(self, request: Request, before: Request) -> Request | None:
        if origin_of(request.url) != self._origin or not await renewed(self._chosen):
            return None
        again = await self._sign(request)
        return again if again != before else None

    async def _sign(self, request: Request) -> Request:
        url = request.url
        if origin_of(url) != self._origin:
            return request
        headers = dict(request.headers)
        query: dict[str, str] = {}
        for credential, scheme in self._chosen:
            await credential.apply(scheme, headers, query)
        if query:
            pairs = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in query.items())
            url += ("&" if "?" in url else "?") + pairs
        return request._replace(url=url, headers=headers)
