"""The other large implementation of gRPC, @grpc/grpc-js, against our server."""

import asyncio
import base64
import json
import shutil
from pathlib import Path

import pytest
from a2a.types import a2a_pb2 as pb
from google.rpc import status_pb2

from accord import Agent
from tests.processes import run

JS = Path(__file__).parent.parent / "legacy" / "js"


def packed(request):
    return base64.b64encode(request.SerializeToString()).decode()


def a_send(text):
    return pb.SendMessageRequest(
        message=pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    )


@pytest.mark.skipif(
    shutil.which("node") is None, reason="grpc-js needs Node.js, which is not installed"
)
async def test_the_client_of_javascript_is_served():
    """A call, one that is compressed, a stream with its metadata, an error with its details, a
    deadline.
    """
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str):
        if request == "wait":
            await asyncio.Event().wait()
        return request

    app = agent.app(grpc_port=0)
    await app.open()
    try:
        seen = await talk(f"127.0.0.1:{app.grpc_port}")
    finally:
        await app.close()
    for name in ("send", "packed"):
        answer = pb.SendMessageResponse.FromString(base64.b64decode(seen[name]["answer"]))
        assert answer.task.artifacts[0].parts[0].text == "hello" * 1000
    events = [
        pb.StreamResponse.FromString(base64.b64decode(event)) for event in seen["stream"]["events"]
    ]
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds == ["task", "status_update", "artifact_update", "status_update"]
    assert (seen["stream"]["seq"], seen["stream"]["code"]) == ("1", 0)
    details = status_pb2.Status.FromString(base64.b64decode(seen["unknown"]["details"]))
    assert (seen["unknown"]["code"], details.code, details.message) == (
        5,
        5,
        seen["unknown"]["text"],
    )
    assert seen["late"]["code"] == 4


async def talk(address):
    assert (JS / "node_modules").is_dir(), (
        "the JavaScript clients are not installed; `make test` does it"
    )
    requests = [
        packed(a_send("hello" * 1000)),
        packed(pb.GetTaskRequest(id="nobody")),
        packed(a_send("wait")),
    ]
    done = await run("node", JS / "client_grpc.mjs", address, *requests)
    assert done.code == 0, done.err
    return json.loads(done.out)
