"""Who carries a request: the agent's own origin is reached as the user set it up, other places its
card names with care.

A card is a stranger's word. What it names beside the origin the user gave gets none of the user's
session, and no proxy of the environment; and it may be a private address only if the agent itself
is at one (see `accord.net.Guard`).
"""

from collections.abc import Callable, Mapping

from ...net import Guard, Http, Request, Response, ResponseBody, guard_beside, host_of, origin_of

__all__ = ["ByOrigin", "WithHeaders"]


class ByOrigin:
    """Keeps the `Http` contract with one `Http` for the agent's origin and another for all others,
    made when first needed.
    """

    def __init__(
        self, card_http: Http, elsewhere: Callable[[Guard | None], Http], egress_proxy: str = ""
    ) -> None:
        self.origin = ""  # the agent's; empty while it is not known: then every place is its own
        # The guards of gRPC addresses elsewhere, by URL. They check at each connection.
        self.grpc_guards: dict[str, Guard] = {}
        self._card_http = card_http
        self._make = elsewhere
        self._egress_proxy = egress_proxy
        self._elsewhere: Http | None = None

    async def fetch(self, request: Request, *, limit: int) -> Response:
        return await (await self._http_for(request.url)).fetch(request, limit=limit)

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        return await (await self._http_for(request.url)).open(request, idle_s=idle_s)

    async def close(self) -> None:
        await self._card_http.close()
        if self._elsewhere is not None:
            await self._elsewhere.close()

    def _is_card_origin(self, url: str) -> bool:
        if not self.origin or url.startswith(f"{self.origin}/"):
            return True
        try:
            return origin_of(url) == self.origin
        except ValueError:
            return True  # no URL at all: refused there

    async def _http_for(self, url: str) -> Http:
        if self._is_card_origin(url):
            return self._card_http
        if self._elsewhere is None:
            self._elsewhere = self._make(await self.guard())
        return self._elsewhere

    async def guard(self) -> Guard | None:
        """What other places are looked at with: nothing, if the agent itself is in a private
        network and no proxy is there to decide.
        """
        # Agents are served on any port, and in tests and private networks without TLS.
        guard = Guard(ports=None, schemes=("http", "https"), proxy=self._egress_proxy)
        return await guard_beside(host_of(self.origin), guard)


class WithHeaders:
    """Keeps the `Http` contract, and sends the user's headers to one origin alone."""

    def __init__(self, http: Http, headers: Mapping[str, str], origin: str) -> None:
        self._http = http
        self._headers = dict(headers)
        self._origin = origin

    async def fetch(self, request: Request, *, limit: int) -> Response:
        return await self._http.fetch(self._with(request), limit=limit)

    async def open(self, request: Request, *, idle_s: float) -> ResponseBody:
        return await self._http.open(self._with(request), idle_s=idle_s)

    async def close(self) -> None:
        await self._http.close()

    def _with(self, request: Request) -> Request:
        if origin_of(request.url) != self._origin:
            return request
        return request._replace(headers={**self._headers, **request.headers})
