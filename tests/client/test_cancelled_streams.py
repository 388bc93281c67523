"""A stream ends soon after this client's own cancel, also if the agent forgets to end it."""

import asyncio
import json
from typing import Any

import pytest

from accord.client import NO_RETRY, connect
from accord.model import StatusUpdate, Task, TaskState
from tests.client.peers import PATIENCE_S, card, task
from tests.drive import serving_asgi


class Forgetful:
    """An agent on ASGI that cancels a task and tells its streams nothing of it."""

    def __init__(self) -> None:
        self.is_cancelled = False

    async def close(self) -> None:
        """Nothing is held."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        host = dict(scope["headers"])[b"host"].decode()
        if scope["method"] == "GET":
            return await self._send(send, card(f"http://{host}"))
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = json.loads(body)
        match request["method"]:
            case "CancelTask":
                self.is_cancelled = True
                result: Any = task("CANCELED")
            case "GetTask":
                result = task("CANCELED" if self.is_cancelled else "WORKING")
            case _:
                return await self._stream(request["id"], receive, send)
        await self._send(send, {"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def _send(self, send: Any, value: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    async def _stream(self, id_: int, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        value = {"jsonrpc": "2.0", "id": id_, "result": {"task": task("WORKING", text="")}}
        first = b"data: " + json.dumps(value).encode() + b"\n\n"
        await send({"type": "http.response.body", "body": first, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass


@pytest.mark.parametrize("begins", ["stream", "subscribe"])
@pytest.mark.parametrize("reads", ["meanwhile", "afterwards"])
async def test_a_stream_that_the_agent_forgets_to_end(begins, reads):
    """The end comes from the task, with what the stream did not tell."""
    agent = Forgetful()
    async with serving_asgi(agent, agent.close) as url, connect(url, retry=NO_RETRY) as client:
        stream = client.stream("count") if begins == "stream" else client.subscribe("t-1")
        async with asyncio.timeout(PATIENCE_S):
            assert isinstance(await anext(stream), Task)
            if reads == "meanwhile":
                rest = asyncio.ensure_future(_read(stream))
                await asyncio.sleep(0)  # it waits for the next event
                cancelled = await client.cancel("t-1")
                events = await rest
            else:
                cancelled = await client.cancel("t-1")
                events = await _read(stream)
        assert cancelled.status.state is TaskState.CANCELED
        assert isinstance(events[-1], StatusUpdate)
        assert events[-1].status.state is TaskState.CANCELED
        assert (stream.reply.state, stream.reply.text) == (TaskState.CANCELED, "17 crates")


async def _read(stream: Any) -> list[Any]:
    return [event async for event in stream]
