"""Our own server asks the app directly, any other through ASGI: a client can't tell which."""

import asyncio
import json
import re

import pytest

from accord import Limits
from tests.drive import serving_asgi
from tests.http1.raw import Wire, agent, chunked, post, rpc, send, served

MISSING = {"id": "01a1e261-4df8-7e95-8e31-dba06e21fe5e"}
LIMIT = 3_000

ASKED = {
    "card": b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
    "old card": b"GET /.well-known/agent.json HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
    "head of the card": b"HEAD /.well-known/agent-card.json HTTP/1.1\r\nHost: "
    b"localhost:1\r\nConnection: "
    b"close\r\n\r\n",
    "card not changed": b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: "
    b"localhost:1\r\nIf-None-Match: "
    b"*\r\n\r\n",
    "card elsewhere": b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "health": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "readiness": b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n",
    "nothing": b"GET /nothing/at/all HTTP/1.1\r\nHost: a\r\n\r\n",
    "wrong verb": b"PUT /tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "rpc by GET": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "options": b"OPTIONS /message:send HTTP/1.1\r\nHost: a\r\n\r\n",
    "send": post(send("hi")),
    "send in chunks": chunked(send("hi"), 10, 10),
    "reply": post(send("hi", "reply")),
    "stream": post(send("3 5", "fill", "SendStreamingMessage")),
    "stream of a reply": post(send("hi", "reply", "SendStreamingMessage")),
    "rest send": post(json.dumps(json.loads(send("hi"))["params"]).encode(), "/message:send"),
    "rest stream": post(
        json.dumps(json.loads(send("2 9", "fill"))["params"]).encode(), "/message:stream"
    ),
    "rest list": b"GET /tasks?pageSize=2 HTTP/1.1\r\nHost: a\r\nA2A-Version: 1.0\r\n\r\n",
    "rest list by tenant": b"GET /some%2Fone/tasks?pageSize=2 HTTP/1.1\r\nHost: a\r\nA2A-Version: "
    b"1.0\r\n\r\n",
    "missing": post(rpc("GetTask", MISSING)),
    "rest missing": b"GET /tasks/a%2Fb HTTP/1.1\r\nHost: a\r\nA2A-Version: 1.0\r\n\r\n",
    "stream of nothing": post(rpc("SubscribeToTask", MISSING)),
    "old stream of nothing": post(rpc("tasks/resubscribe", MISSING)).replace(
        b"A2A-Version: 1.0\r\n", b""
    ),
    "no method": post(rpc("Nothing", {})),
    "no JSON": post(b"{nothing"),
    "another type": post(b"{}").replace(b"application/json", b"text/plain"),
    "another version": post(rpc("ListTasks", {})).replace(b"A2A-Version: 1.0", b"A2A-Version: 9.9"),
    "extensions": post(
        rpc("ListTasks", {}),
        headers=b"A2A-Extensions: urn:accord:resume:1\r\nA2A-Extensions: urn:x\r\n",
    ),
    "too large": post(send("x" * LIMIT)),
    "rest too large": post(send("x" * LIMIT), "/message:send"),
    "a body for nobody": b"DELETE /tasks HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxxx",
}

_CHANGING = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|127\.0\.0\.1:\d+")
_THEIRS = {"date", "server", "transfer-encoding", "content-length", "last-modified", "etag"}


async def asked(port: int, data: bytes):
    """Status, headers that are the app's, and body, without what is never the same twice."""
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    await wire.say(data)
    got = await wire.answer(is_bare=data.startswith(b"HEAD"))
    await wire.hang_up()
    headers = {name: value for name, value in got.headers.items() if name not in _THEIRS}
    if got.status in (204, 304):
        headers.pop("content-type", None)
    return got.status, headers, _CHANGING.sub(b"*", got.body)


@pytest.mark.parametrize("what", ASKED)
async def test_the_answer_is_the_same_by_either_way(what):
    app = agent().app(limits=Limits(body=LIMIT))
    async with served(body=LIMIT) as ours, serving_asgi(app, app.close) as url:
        direct = await asked(ours.server.port, ASKED[what])
        assert direct == await asked(int(url.rpartition(":")[2]), ASKED[what])
