"""The gRPC door of `tests.drive`: the same verbs and the same JSON shapes, over protobuf.

The messages are a2a-sdk's and the JSON is made by protobuf's own printer: nothing of ours is used
to check ours.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import grpc
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2
from multidict import CIMultiDict

from tests.drive import PATIENCE_S, FrameReader, Headers, Json, Refused, say

__all__ = ["Grpc", "GrpcFrames", "refused_by"]

_DETAILS = {
    "google.rpc.ErrorInfo": error_details_pb2.ErrorInfo,
    "google.rpc.BadRequest": error_details_pb2.BadRequest,
}


class GrpcFrames(FrameReader):
    """An open stream: as `tests.drive.Frames`."""

    def __init__(self, call: Any, metadata: Mapping[str, str]) -> None:
        self.headers = metadata
        self.ids: list[int] = []
        self.raw: list[Json] = []
        self._next = int(metadata.get("accord-seq", 0))
        self._call = call

    async def next(self) -> Json | None:
        """Return the next frame, None at the end of the stream."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise refused_by(error) from None
        if frame is grpc.aio.EOF:
            return None
        if self._next:
            self.ids.append(self._next)
            self._next += 1
        self.raw.append(_json(frame))
        return self.raw[-1]

    def close(self) -> None:
        """Hang up."""
        self._call.cancel()


class Grpc:
    """The gRPC binding."""

    binding = "GRPC"
    messages: Any = pb

    def __init__(self, http: aiohttp.ClientSession, url: str, address: str) -> None:
        self.http = http
        self.url = url
        self.address = address
        self.channel = grpc.aio.insecure_channel(
            address, options=[("grpc.max_send_message_length", -1)]
        )
        self.answer_headers: Mapping[str, str] = {}
        self._stub = A2AServiceStub(self.channel)
        self._streams: list[GrpcFrames] = []

    async def card(self) -> Json:
        async with self.http.get(self.url + "/.well-known/agent-card.json") as response:
            card: Json = await response.json()
            return card

    async def send(self, request: str | Json, *, headers: Headers = None) -> Json:
        return await self._unary(
            self._stub.SendMessage, self.messages.SendMessageRequest, _request(request), headers
        )

    async def stream(self, request: str | Json, *, headers: Headers = None) -> GrpcFrames:
        return await self._open(
            self._stub.SendStreamingMessage,
            self.messages.SendMessageRequest,
            _request(request),
            headers,
        )

    async def get(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self._unary(
            self._stub.GetTask, self.messages.GetTaskRequest, {"id": id} | fields, headers
        )

    async def list(self, *, headers: Headers = None, **fields: Any) -> Json:
        answer = await self._unary(
            self._stub.ListTasks, self.messages.ListTasksRequest, fields, headers
        )
        # Protobuf has no difference between none and zero, nor between an empty list and none.
        whole: Json = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0} | answer
        if fields.get("includeArtifacts"):
            whole["tasks"] = [{"artifacts": []} | task for task in whole["tasks"]]
        return whole

    async def cancel(self, id: str, *, headers: Headers = None, **fields: Any) -> Json:
        return await self._unary(
            self._stub.CancelTask, self.messages.CancelTaskRequest, {"id": id} | fields, headers
        )

    async def subscribe(self, id: str, *, headers: Headers = None, **fields: Any) -> GrpcFrames:
        return await self._open(
            self._stub.SubscribeToTask,
            self.messages.SubscribeToTaskRequest,
            {"id": id} | fields,
            headers,
        )

    async def create_push_config(self, task_id: str, config: Json) -> Json:
        create = self._stub.CreateTaskPushNotificationConfig
        return await self._unary(
            create, self.messages.TaskPushNotificationConfig, {"taskId": task_id} | config
        )

    async def get_push_config(self, task_id: str, id: str) -> Json:
        get = self._stub.GetTaskPushNotificationConfig
        return await self._unary(
            get, self.messages.GetTaskPushNotificationConfigRequest, {"taskId": task_id, "id": id}
        )

    async def list_push_configs(self, task_id: str) -> Json:
        list_ = self._stub.ListTaskPushNotificationConfigs
        return await self._unary(
            list_, self.messages.ListTaskPushNotificationConfigsRequest, {"taskId": task_id}
        )

    async def delete_push_config(self, task_id: str, id: str) -> Json:
        delete = self._stub.DeleteTaskPushNotificationConfig
        return await self._unary(
            delete,
            self.messages.DeleteTaskPushNotificationConfigRequest,
            {"taskId": task_id, "id": id},
        )

    async def extended_card(self) -> Json:
        return await self._unary(
            self._stub.GetExtendedAgentCard, self.messages.GetExtendedAgentCardRequest, {}
        )

    async def _unary(
        self,
        method: Callable[..., Any],
        type_: Callable[[], Any],
        fields: Json,
        headers: Headers = None,
    ) -> Json:
        call = method(_message(fields, type_()), metadata=_metadata(headers), timeout=PATIENCE_S)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            raise refused_by(error) from None
        self.answer_headers = CIMultiDict(list(await call.initial_metadata()))
        return {} if isinstance(answer, empty_pb2.Empty) else _json(answer)

    async def _open(
        self, method: Callable[..., Any], type_: Callable[[], Any], fields: Json, headers: Headers
    ) -> GrpcFrames:
        call = method(_message(fields, type_()), metadata=_metadata(headers))
        async with asyncio.timeout(PATIENCE_S):
            metadata = CIMultiDict(list(await call.initial_metadata()))
            if call.done() and await call.code() is not grpc.StatusCode.OK:
                raise await _refusal(call)
        frames = GrpcFrames(call, metadata)
        self._streams.append(frames)
        return frames

    def hang_up(self) -> None:
        for frames in self._streams:
            frames.close()


def refused_by(error: Any) -> Refused:
    """Return the error the tests know, made from status and trailers alone."""
    return _refused(
        error.code(), error.details(), error.initial_metadata(), error.trailing_metadata()
    )


async def _refusal(call: Any) -> Refused:
    return _refused(
        await call.code(),
        await call.details(),
        await call.initial_metadata(),
        await call.trailing_metadata(),
    )


def _refused(code: Any, message: str, initial: Any, trailing: Any) -> Refused:
    trailers = CIMultiDict([*(initial or ()), *(trailing or ())])
    packed = trailers.get("grpc-status-details-bin")
    details = []
    if packed is not None:
        whole = status_pb2.Status.FromString(packed)
        assert (whole.code, whole.message) == (code.value[0], message)
        for detail in whole.details:
            unpacked = _DETAILS[detail.type_url.rpartition("/")[2]]()
            assert detail.Unpack(unpacked)
            details.append({"@type": detail.type_url} | MessageToDict(unpacked))
    error = {"code": code.value[0], "status": code.name, "message": message, "details": details}
    return Refused(code.value[0], error, trailers)


def _request(request: str | Json) -> Json:
    return say(request) if isinstance(request, str) else request


def _message(fields: Json, message: Any) -> Any:
    """A message as a client with types would make it."""
    return ParseDict(fields, message)


def _json(message: Any) -> Json:
    value: Json = _whole(MessageToDict(message))
    return value


def _whole(value: Any) -> Any:
    """Numbers in a Struct are doubles, and printed so; JSON knows whole ones."""
    match value:
        case dict():
            return {name: _whole(item) for name, item in value.items()}
        case [*items]:
            return [_whole(item) for item in items]
        case float() if value.is_integer():
            return int(value)
    return value


def _metadata(headers: Headers) -> tuple[tuple[str, str], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return tuple((name.lower(), value) for name, value in pairs)
