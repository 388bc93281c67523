"""gRPC's health service: what load balancers and orchestrators ask before they send work."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc

from ..codec.protobuf import kind
from ..model import ParseError

__all__ = ["Health"]

_REQUEST = kind("grpc.health.v1.HealthCheckRequest")
_RESPONSE = kind("grpc.health.v1.HealthCheckResponse")


class Health:
    """Serving, for every service here and the server as a whole, until it is told to stop."""

    SERVICES = ("grpc.health.v1.Health",)

    def __init__(self, services: Iterable[str]) -> None:
        self._known = {"", *services}
        self._stopping = asyncio.Event()
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
        }
        self.handler = grpc.method_handlers_generic_handler(self.SERVICES[0], methods)

    def stop(self) -> None:
        """From now on: not serving."""
        self._stopping.set()

    async def _check(self, data: bytes, context: Any) -> bytes:
        service = await _service(data, context)
        if service not in self._known:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {service!r:.80} here")
        return self._now()

    async def _watch(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        service = await _service(data, context)
        if service not in self._known:
            yield _RESPONSE.encode({"status": "SERVICE_UNKNOWN"})
            await asyncio.Event().wait()  # the protocol wants the call open: services may come, though not here
        yield self._now()
        await self._stopping.wait()
        yield self._now()

    def _now(self) -> bytes:
        return _RESPONSE.encode({"status": "NOT_SERVING" if self._stopping.is_set() else "SERVING"})


async def _service(data: bytes, context: Any) -> str:
    try:
        return str(_REQUEST.decode(data).get("service", ""))
    except ParseError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise AssertionError from None  # abort raises
