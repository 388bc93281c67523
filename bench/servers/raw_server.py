"""uvicorn and nothing else: prepared bytes for every request, which is not even read.
`raw_server.py PORT [GRPC_PORT]`.

What it costs is the floor under any server built on uvicorn; the path says which bytes are wanted.
"""

import asyncio
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

_TASK = (
    b'{"id":"0199c3a0-0000-7000-8000-000000000000","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-01T00:00:00.000Z"},'
    b'"contextId":"0199c3a0-0000-7000-8000-000000000001","artifacts":[{"artifactId":"artifact-1","parts":[{"text":"hello"}]}],'
    b'"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}],"contextId":"0199c3a0-0000-7000-8000-000000000001",'
    b'"taskId":"0199c3a0-0000-7000-8000-000000000000"}]}'
)
_FRAME = (
    b'data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"0199c3a0-0000-7000-8000-000000000000",'  # noqa: E501
    b'"contextId":"0199c3a0-0000-7000-8000-000000000001","artifact":{"artifactId":"artifact-1","parts":[{"text":"chunk 1 "}]},'  # noqa: E501
    b'"append":true}}}\n\n'
)
_LAST = b'data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"status":{"state":"TASK_STATE_COMPLETED"}}}}\n\n'  # noqa: E501
_FIRST = b'data: {"jsonrpc":"2.0","id":1,"result":{"task":%b}}\n\n' % _TASK.replace(
    b"COMPLETED", b"SUBMITTED"
)

ANSWERS = {
    "/send": b'{"jsonrpc":"2.0","id":1,"result":{"task":%b}}' % _TASK,
    "/get": b'{"jsonrpc":"2.0","id":1,"result":%b}' % _TASK,
    "/list": b'{"jsonrpc":"2.0","id":1,"result":{"tasks":[%b],"totalSize":10000}}'
    % b",".join([_TASK] * 50),
    "/file": b'{"jsonrpc":"2.0","id":1,"result":{"task":{"history":["%b"],"text":"1048576 '
    b'bytes",%b}}' % (b"A" * 1_398_104, _TASK[1:]),
}
STREAMS = {"/echo": 2}

gates: defaultdict[bytes, asyncio.Event] = defaultdict(asyncio.Event)


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    path = scope["path"]
    while (await receive()).get("more_body"):
        pass
    if path in ANSWERS:
        await _respond(send, ANSWERS[path])
    elif path in STREAMS:
        await _stream(send, STREAMS[path], None)
    elif path == "/count":
        await _stream(send, int(scope["query_string"]), None)
    elif path == "/subscribe":
        await _stream(send, 50, gates[scope["query_string"]])
    elif path == "/go":
        gates.pop(scope["query_string"]).set()
        await _respond(send, ANSWERS["/send"])
    else:
        await _respond(send, b"{}")


async def _respond(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _stream(send: Any, n: int, gate: asyncio.Event | None) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream")],
        }
    )
    await send({"type": "http.response.body", "body": _FIRST, "more_body": True})
    if gate is not None:
        await gate.wait()
    for _ in range(n):
        await send({"type": "http.response.body", "body": _FRAME, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": _LAST, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def both(port: int, grpc_port: int) -> None:
    """The same without A2A's HTTP: grpc.aio alone on its port, and here only what says that the
    server is up.
    """
    from bench.servers import raw_grpc

    server = await raw_grpc.serve(grpc_port)
    await uvicorn.Server(
        uvicorn.Config(app, port=port, log_level="warning", access_log=False, lifespan="off")
    ).serve()
    await server.stop(None)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.path.insert(0, str(Path(__file__).parent.parent.parent))
        uvloop.run(both(int(sys.argv[1]), int(sys.argv[2])))
    else:
        uvicorn.run(
            app,
            host="127.0.0.1",
            port=int(sys.argv[1]),
            log_level="warning",
            access_log=False,
            lifespan="off",
        )
