"""Small clients of the old versions, written from their descriptions: they send bytes and know
nothing of our code.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from accord import Agent
from tests.drive import PATIENCE_S, serving

Json = dict[str, Any]

_ids = itertools.count(1)


class Stream:
    """An open event stream: events as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.ids: list[str] = []

    async def next(self) -> Any:
        """Return the next event, None at the end."""
        data: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            async for line in self.response.content:
                name, _, value = line.decode().rstrip("\r\n").partition(": ")
                if name == "data":
                    data.append(value)
                elif name == "id":
                    self.ids.append(value)
                elif not name and data:
                    return json.loads("\n".join(data))
        return None

    async def rest(self) -> list[Any]:
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


class Old:
    """Speaks JSON-RPC and HTTP+JSON with one server, in whatever shapes it is told."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def rpc(
        self, method: str, params: Any = None, /, *, headers: Json | None = None, **envelope: Any
    ) -> Json:
        """Return the whole answer; with `jsonrpc=None` or `id=None` the request has no such
        member.
        """
        request = {
            "jsonrpc": "2.0",
            "id": next(_ids),
            "method": method,
            "params": params,
        } | envelope
        request = {name: value for name, value in request.items() if value is not None}
        async with (
            asyncio.timeout(PATIENCE_S),
            self.http.post(self.url, json=request, headers=headers) as response,
        ):
            assert response.status == 200
            if response.content_type == "text/event-stream":
                [answer] = await Stream(response).rest()
            else:
                answer = await response.json()
        if "id" in request:
            assert answer["id"] == request["id"]
        return answer

    async def text(self, method: str, params: Any = None, /, **envelope: Any) -> str:
        """Return all that is answered, a stream or not."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} | envelope
        request = {name: value for name, value in request.items() if value is not None}
        async with (
            asyncio.timeout(PATIENCE_S),
            self.http.post(self.url, json=request) as response,
        ):
            return await response.text()

    async def result(
        self, method: str, params: Any = None, /, *, headers: Json | None = None
    ) -> Any:
        answer = await self.rpc(method, params, headers=headers)
        assert "error" not in answer, answer
        return answer["result"]

    async def error(
        self, method: str, params: Any = None, /, *, headers: Json | None = None
    ) -> Json:
        answer = await self.rpc(method, params, headers=headers)
        assert "result" not in answer, answer
        error: Json = answer["error"]
        return error

    @asynccontextmanager
    async def open(
        self, method: str, params: Any, /, *, headers: Json | None = None
    ) -> AsyncIterator[Stream]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.http.post(self.url, json=request, headers=headers) as response:
            assert response.content_type == "text/event-stream", await response.text()
            yield Stream(response)

    async def events(self, method: str, params: Any, /) -> list[Json]:
        """Return the results of a stream, up to its end."""
        async with self.open(method, params) as stream:
            return [event["result"] for event in await stream.rest()]

    async def rest(
        self, verb: str, path: str, body: Any = None, /, *, headers: Json | None = None
    ) -> tuple[int, Any]:
        """Return the status and the answer: None if it is empty, a list of events if it is a
        stream.
        """
        async with (
            asyncio.timeout(PATIENCE_S),
            self.http.request(verb, self.url + path, json=body, headers=headers) as response,
        ):
            if response.content_type == "text/event-stream":
                return response.status, await Stream(response).rest()
            return response.status, await response.json(
                content_type=None
            ) if await response.read() else None

    async def ok(
        self, verb: str, path: str, body: Any = None, /, *, headers: Json | None = None
    ) -> Any:
        status, answer = await self.rest(verb, path, body, headers=headers)
        assert status == 200, answer
        return answer


@asynccontextmanager
async def talking_to(agent: Agent | Callable[..., Any], **options: Any) -> AsyncIterator[Old]:
    """Serve an agent, or a function as its only skill, and give a client of it. Keywords go to
    `Agent.app`.
    """
    if not isinstance(agent, Agent):
        skill, agent = agent, Agent("Test agent")
        agent.skill(skill)
    app = agent.app(**options)
    async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
        yield Old(http, url)


def say_0_3(text: str = "hello", /, **fields: Any) -> Json:
    """The params of a send as 0.2 and 0.3 write them; `configuration` and `metadata` stand beside
    the message.
    """
    beside = {name: fields.pop(name) for name in ("configuration", "metadata") if name in fields}
    message = {
        "kind": "message",
        "messageId": f"m-{next(_ids)}",
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    }
    return {"message": message | fields} | beside


def say_0_1(task_id: str, text: str = "hello", /, **fields: Any) -> Json:
    return {
        "id": task_id,
        "message": {"role": "user", "parts": [{"type": "text", "text": text}]},
    } | fields


def say_rest(text: str = "hello", /, **fields: Any) -> Json:
    """The body of a send as 0.3's proto writes it."""
    beside = {name: fields.pop(name) for name in ("configuration", "metadata") if name in fields}
    return {
        "message": {
            "messageId": f"m-{next(_ids)}",
            "role": "ROLE_USER",
            "content": [{"text": text}],
        }
        | fields
    } | beside


def say_1_0(text: str = "hello", /, **fields: Any) -> Json:
    beside = {name: fields.pop(name) for name in ("configuration", "metadata") if name in fields}
    return {
        "message": {"messageId": f"m-{next(_ids)}", "role": "ROLE_USER", "parts": [{"text": text}]}
        | fields
    } | beside


async def echo(request: str) -> str:
    """The simplest skill."""
    return request.upper()
