"""grpc.aio and nothing else: prepared bytes for every call, which is not even read. The floor under
any server built on it.
"""

from typing import Any

import grpc
from a2a.types import a2a_pb2 as pb

__all__ = ["serve"]

_TASK_ID, _CONTEXT_ID = (
    "0199c3a0-0000-7000-8000-000000000000",
    "0199c3a0-0000-7000-8000-000000000001",
)
_IDS = {"task_id": _TASK_ID, "context_id": _CONTEXT_ID}
_ARTIFACT = pb.Artifact(artifact_id="artifact-1", parts=[pb.Part(text="hello")])
_STATUS = pb.TaskStatus(state=pb.TASK_STATE_COMPLETED)
_STATUS.timestamp.GetCurrentTime()
_SAID = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="hello")], **_IDS)
_TASK = pb.Task(
    id=_TASK_ID, context_id=_CONTEXT_ID, status=_STATUS, artifacts=[_ARTIFACT], history=[_SAID]
)

_SENT = pb.SendMessageResponse(task=_TASK).SerializeToString()
_GOT = _TASK.SerializeToString()
_FIRST = pb.StreamResponse(task=_TASK).SerializeToString()
_CHUNK = pb.StreamResponse(
    artifact_update=pb.TaskArtifactUpdateEvent(artifact=_ARTIFACT, append=True, **_IDS)
).SerializeToString()
_STATE = pb.StreamResponse(
    status_update=pb.TaskStatusUpdateEvent(status=_STATUS, **_IDS)
).SerializeToString()


async def _send(data: bytes, context: Any) -> bytes:
    return _SENT


async def _get(data: bytes, context: Any) -> bytes:
    return _GOT


async def _stream(data: bytes, context: Any) -> None:
    await context.write(_FIRST)
    await context.write(_STATE)
    for _ in range(100 if b"count" in data else 1):
        await context.write(_CHUNK)
    await context.write(_STATE)


async def serve(port: int) -> Any:
    """Start the server; it lives as long as what is returned."""
    server = grpc.aio.server()
    methods = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(_send),
        "GetTask": grpc.unary_unary_rpc_method_handler(_get),
        "SendStreamingMessage": grpc.unary_stream_rpc_method_handler(_stream),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", methods),)
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server
