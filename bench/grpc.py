"""The gRPC rows: the same calls over gRPC, against a2a-sdk's gRPC server and against a bare
grpc.aio one.

Apart from the other rows because it needs the gRPC extra, and a client that is no plain socket.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from a2a.types import a2a_pb2 as pb

from .load import Failure
from .rows import Effort, Row
from .server import Server

__all__ = ["GRPC_ROWS", "Chunks", "EchoStream", "Get", "Send"]

SERVICE = "/lf.a2a.v1.A2AService/"
VERSION = (("a2a-version", "1.0"),)
CHANNELS = 8

_SETTLE_S = 0.05


class GrpcRow(Row):
    """Calls kept up for some time by workers on a few channels, by server CPU time."""

    columns = ("sdk", "memory", "sqlite", "raw")
    needs_grpc = True
    workers = 32

    def __init__(self, id: str, title: str) -> None:
        super().__init__(id, title, stage="grpc")

    async def measure(self, server: Server, effort: Effort) -> float:
        async with _channels(server) as channels:
            await self._work(server, channels, effort.warm_s)
            begin = server.cpu_s()
            units = await self._work(server, channels, effort.seconds)
            await asyncio.sleep(_SETTLE_S)
            return (server.cpu_s() - begin) / units * 1e6

    async def _work(self, server: Server, channels: list[Any], seconds: float) -> int:
        end = time.perf_counter() + seconds

        async def work(channel: Any) -> int:
            units = 0
            while time.perf_counter() < end:
                units += await self.call(server, channel)
            return units

        return sum(
            await asyncio.gather(*(work(channels[n % CHANNELS]) for n in range(self.workers)))
        )

    async def call(self, server: Server, channel: Any) -> int:
        """Make one call, look at the answer, return how many operations it was."""
        raise NotImplementedError


class Send(GrpcRow):
    async def call(self, server: Server, channel: Any) -> int:
        answer = await channel.unary_unary(SERVICE + "SendMessage")(_SEND, metadata=VERSION)
        if pb.SendMessageResponse.FromString(answer).task.status.state != pb.TASK_STATE_COMPLETED:
            raise Failure("the task is not completed")
        return 1


class Get(GrpcRow):
    """One finished task."""

    async def prepare(self, server: Server, effort: Effort) -> None:
        async with _channels(server) as (channel, *_):
            answer = await channel.unary_unary(SERVICE + "SendMessage")(_SEND, metadata=VERSION)
            server.notes["grpc"] = [pb.SendMessageResponse.FromString(answer).task.id]

    async def call(self, server: Server, channel: Any) -> int:
        (task_id,) = server.notes["grpc"]
        request = pb.GetTaskRequest(id=task_id).SerializeToString()
        if task_id.encode() not in await channel.unary_unary(SERVICE + "GetTask")(
            request, metadata=VERSION
        ):
            raise Failure("another task was asked for")
        return 1


class EchoStream(GrpcRow):
    """The echo agent by SendStreamingMessage; an operation is a whole stream."""

    async def call(self, server: Server, channel: Any) -> int:
        return min(await _frames(channel, _SEND, 4), 1)


class Chunks(GrpcRow):
    """Streams of 100 chunks; an operation is one event."""

    workers = 16

    async def call(self, server: Server, channel: Any) -> int:
        return await _frames(channel, _COUNT, 102)


async def _frames(channel: Any, request: bytes, least: int) -> int:
    n = 0
    async for _ in channel.unary_stream(SERVICE + "SendStreamingMessage")(
        request, metadata=VERSION
    ):
        n += 1
    if n < least:
        raise Failure(f"expected {least} events, got {n}")
    return n


@asynccontextmanager
async def _channels(server: Server) -> AsyncIterator[list[Any]]:
    # Channels to one address share a connection unless told otherwise.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [
        grpc.aio.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=options)
        for _ in range(CHANNELS)
    ]
    try:
        await asyncio.wait_for(
            asyncio.gather(*(channel.channel_ready() for channel in channels)), 20
        )
        yield channels
    finally:
        for channel in channels:
            await channel.close()


def _request(text: str, skill: str = "") -> bytes:
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    if skill:
        message.metadata.update({"skill": skill})
    return pb.SendMessageRequest(message=message).SerializeToString()


_SEND = _request("hello")
_COUNT = _request("100", "count")

GRPC_ROWS: tuple[Row, ...] = (
    Send("grpcsend", "gRPC: send, 32 in flight"),
    Get("grpcget", "gRPC: get, 32 in flight"),
    EchoStream("grpcstream", "gRPC: echo by stream, 32 in flight"),
    Chunks("grpcchunks", "gRPC: stream of 100 chunks, 16 streams (per event)"),
)
