"""gRPC's health service: what load balancers and orchestrators ask before they send work."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from ...protocol.protobuf import kind
from .call import GrpcCall, GrpcMethod, framed

__all__ = ["GrpcHealth"]

_REQUEST = kind("grpc.health.v1.HealthCheckRequest")
_RESPONSE = kind("grpc.health.v1.HealthCheckResponse")


CHECK_S = 1.0


class GrpcHealth:
    """Serving, for every service here and the server as a whole, while it is ready and until it is
    told to stop.
    """

    SERVICES = ("grpc.health.v1.Health",)

    def __init__(self, services: Iterable[str], is_ready: Callable[[], bool]) -> None:
        self._known = {"", *services}
        self._is_ready = is_ready
        self._stopping = asyncio.Event()
        self.methods = {
            f"/{self.SERVICES[0]}/Check": GrpcMethod(self._check),
            f"/{self.SERVICES[0]}/Watch": GrpcMethod(self._watch),
        }

    def stop(self) -> None:
        """From now on: not serving."""
        self._stopping.set()

    async def _check(self, exchange: GrpcCall) -> None:
        service = await _service(exchange)
        if service in self._known:
            exchange.answer(self._now())
        else:
            exchange.fail("NOT_FOUND", f"no service {service!r:.80} here")

    async def _watch(self, exchange: GrpcCall) -> None:
        if await _service(exchange) not in self._known:
            exchange.send(framed(_RESPONSE.encode({"status": "SERVICE_UNKNOWN"})))
            # The protocol wants the call open: services may come, though not here.
            await asyncio.Event().wait()
        said = b""
        while not self._stopping.is_set():
            if said != (now := self._now()):
                said = now
                exchange.send(framed(now))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), CHECK_S)
        exchange.send(framed(self._now()), is_last=True)

    def _now(self) -> bytes:
        is_serving = self._is_ready() and not self._stopping.is_set()
        return _RESPONSE.encode({"status": "SERVING" if is_serving else "NOT_SERVING"})


async def _service(exchange: GrpcCall) -> str:
    return str(_REQUEST.decode(await exchange.message()).get("service", ""))
