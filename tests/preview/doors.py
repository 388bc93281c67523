"""Doors that speak A2A 1.1: those of `tests.drive`, which name the version with each call."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from accord.protocol.v11.schema import POOL
from tests import drive_grpc
from tests.drive import Json, JsonRpc, Rest

__all__ = ["DOORS", "NAMED"]

NAMED = {"A2A-Version": "1.1"}


class _Preview:
    """Names the version."""

    async def send(self, request: Any, *, headers: Any = None) -> Json:
        return await super().send(request, headers=NAMED | dict(headers or {}))  # type: ignore[misc]  # of the door it is mixed into

    async def stream(self, request: Any, *, headers: Any = None) -> Any:
        return await super().stream(request, headers=NAMED | dict(headers or {}))  # type: ignore[misc]  # as above

    async def get(self, id: str, *, headers: Any = None, **fields: Any) -> Json:
        return await super().get(id, headers=NAMED | dict(headers or {}), **fields)  # type: ignore[misc]  # as above

    async def list(self, *, headers: Any = None, **fields: Any) -> Json:
        return await super().list(headers=NAMED | dict(headers or {}), **fields)  # type: ignore[misc]  # as above

    async def cancel(self, id: str, *, headers: Any = None, **fields: Any) -> Json:
        return await super().cancel(id, headers=NAMED | dict(headers or {}), **fields)  # type: ignore[misc]  # as above

    async def subscribe(self, id: str, *, headers: Any = None, **fields: Any) -> Any:
        return await super().subscribe(id, headers=NAMED | dict(headers or {}), **fields)  # type: ignore[misc]  # as above


class JsonRpc11(_Preview, JsonRpc):
    pass


class Rest11(_Preview, Rest):
    pass


class _Messages:
    """The messages of 1.1, as a2a-sdk has those of 1.0."""

    def __getattr__(self, name: str) -> Any:
        return GetMessageClass(POOL.FindMessageTypeByName(f"lf.a2a.v1.{name}"))


class _Stub:
    """Calls the rpcs of 1.1, as the stub of a2a-sdk does those of 1.0."""

    def __init__(self, channel: Any) -> None:
        for method in POOL.FindServiceByName("lf.a2a.v1.A2AService").methods:
            make = channel.unary_stream if method.server_streaming else channel.unary_unary
            answer = GetMessageClass(method.output_type)
            setattr(
                self,
                method.name,
                make(
                    f"/lf.a2a.v1.A2AService/{method.name}",
                    request_serializer=lambda message: message.SerializeToString(),
                    response_deserializer=answer.FromString,
                ),
            )


class Grpc11(_Preview, drive_grpc.Grpc):
    messages = _Messages()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stub = _Stub(self.channel)


DOORS: Mapping[str, Any] = {"jsonrpc": JsonRpc11, "rest": Rest11, "grpc": Grpc11}
