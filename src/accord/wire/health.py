"""gRPC's health service: what load balancers and orchestrators ask before they send work."""

import asyncio
from collections.abc import Iterable

from ..codec.protobuf import kind
from .exchange import Exchange, Method, framed

__all__ = ["Health"]

_REQUEST = kind("grpc.health.v1.HealthCheckRequest")
_RESPONSE = kind("grpc.health.v1.HealthCheckResponse")


class Health:
    """Serving, for every service here and the server as a whole, until it is told to stop."""

    SERVICES = ("grpc.health.v1.Health",)

    def __init__(self, services: Iterable[str]) -> None:
        self._known = {"", *services}
        self._stopping = asyncio.Event()
        self.methods = {f"/{self.SERVICES[0]}/Check": Method(self._check), f"/{self.SERVICES[0]}/Watch": Method(self._watch)}

    def stop(self) -> None:
        """From now on: not serving."""
        self._stopping.set()

    async def _check(self, exchange: Exchange) -> None:
        service = _service(exchange)
        if service in self._known:
            exchange.answer(self._now())
        else:
            exchange.fail("NOT_FOUND", f"no service {service!r:.80} here")

    async def _watch(self, exchange: Exchange) -> None:
        if _service(exchange) not in self._known:
            exchange.send(framed(_RESPONSE.encode({"status": "SERVICE_UNKNOWN"})))
            await asyncio.Event().wait()  # the protocol wants the call open: services may come, though not here
        exchange.send(framed(self._now()))
        await self._stopping.wait()
        exchange.send(framed(self._now()), is_last=True)

    def _now(self) -> bytes:
        return _RESPONSE.encode({"status": "NOT_SERVING" if self._stopping.is_set() else "SERVING"})


def _service(exchange: Exchange) -> str:
    return str(_REQUEST.decode(exchange.message()).get("service", ""))
