"""Answers no agent should give: every one ends in a clear exception that names the agent and the
fault, and none hangs.
"""

import asyncio
import json

import pytest

from accord.client import AgentFault, Budget, Retry, connect
from accord.model import A2AError
from tests.client.peers import PATIENCE_S, answer, card, scripted, sse, task

QUICK = Budget(call_s=1.0, work_s=1.0, idle_s=1.0, answer_bytes=1 << 20, event_bytes=1 << 16)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def rpc(**members) -> dict:
    return {"jsonrpc": "2.0", "id": 1} | members


def deep(levels: int) -> str:
    return '{"x":' * levels + "1" + "}" * levels


# To a send; a word of the complaint.
ANSWERS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "broke off"),
    "half a head": (b"HTTP/1.1 200 O", ""),
    "not http": (b"HELLO\r\n\r\n", ""),
    "half a body": (HEAD + b"content-length: 100\r\n\r\n{", "broke off"),
    "empty body": (answer(b""), "understood"),
    "html": (answer("<html>oops</html>", kind="text/html"), "understood"),
    "half json": (answer('{"jsonrpc":"2.0","id":1,"res'), "understood"),
    "not utf-8": (
        answer(b'{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"\xff"}}}'),
        "understood",
    ),
    "a list": (answer([rpc(result={"task": task()})]), "understood"),
    "a number": (answer("7"), "understood"),
    "no result": (answer(rpc()), "understood"),
    "result null": (answer(rpc(result=None)), "understood"),
    "result a string": (answer(rpc(result="done")), "understood"),
    "result a list": (answer(rpc(result=[])), "understood"),
    "result empty": (answer(rpc(result={})), "neither a task nor a message"),
    "task and message": (
        answer(
            rpc(
                result={
                    "task": task(),
                    "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []},
                }
            )
        ),
        "both",
    ),
    "task null": (answer(rpc(result={"task": None})), "neither"),
    "task without id": (
        answer(rpc(result={"task": {"status": {"state": "TASK_STATE_COMPLETED"}}})),
        "id",
    ),
    "task without status": (answer(rpc(result={"task": {"id": "t"}})), "status"),
    "id a number": (answer(rpc(result={"task": task() | {"id": 7}})), "id"),
    "state unknown": (answer(rpc(result={"task": task("ELATED")})), "ELATED"),
    "role unknown": (
        answer(
            rpc(
                result={
                    "message": {"messageId": "m", "role": "ROLE_BOSS", "parts": [{"text": "x"}]}
                }
            )
        ),
        "ROLE_BOSS",
    ),
    "part of nothing": (
        answer(rpc(result={"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{}]}})),
        "part",
    ),
    "part of two": (
        answer(
            rpc(
                result={
                    "message": {
                        "messageId": "m",
                        "role": "ROLE_AGENT",
                        "parts": [{"text": "x", "url": "y"}],
                    }
                }
            )
        ),
        "part",
    ),
    "bad base64": (
        answer(
            rpc(
                result={
                    "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"raw": "%%%"}]}
                }
            )
        ),
        "base64",
    ),
    "someone else's answer": (answer(rpc(result={"task": task()}) | {"id": 99}), "99"),
    "error a string": (answer(rpc(error="it broke")), "understood"),
    "error empty": (answer(rpc(error={})), "error"),
    "error of no kind": (answer(rpc(error={"code": "x", "message": 7, "data": "y"})), "error"),
    "too deep": (
        answer('{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","metadata":%s}}}' % deep(100)),
        "nested",
    ),
    "much too deep": (answer('{"jsonrpc":"2.0","id":1,"result":' + "[" * 300_000), "nested"),
    "too large": (answer(rpc(result={"task": task(text="x" * (2 << 20))})), "larger"),
    "longer than it says": (
        HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"10000\r\n" + b" " * 65536 + b"\r\n" * 1,
        "",
    ),
    "chunks of no size": (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", ""),
    "compressed": (answer(b"\x1f\x8b", content_encoding="gzip"), "compressed"),
    "redirect": (
        answer("", 307, location="http://127.0.0.1:9/elsewhere"),
        "redirects to http://127.0.0.1:9/elsewhere",
    ),
    "not found": (answer("", 404), "404"),
    "teapot": (answer("", 418), "418"),
    "server error": (answer("<h1>500</h1>", 500, kind="text/html"), "500"),
    "a header too long": (
        HEAD + b"x-long: " + b"x" * 100_000 + b"\r\ncontent-length: 2\r\n\r\n{}",
        "",
    ),
}
# To a stream.
STREAMS: dict[str, tuple[bytes, str]] = {
    "no event": (sse(), "before anything came"),
    "only comments": (sse(raw=b": hi\n\n"), "before anything came"),
    "not json": (sse(raw=b"data: hello\n\n"), "understood"),
    "empty event": (sse(rpc(result={})), "understood"),
    "two in one": (sse(rpc(result={"task": task(), "statusUpdate": {}})), "understood"),
    "too large": (sse(raw=b"data: " + b"x" * 70_000 + b"\n\n"), "larger"),
    "never ending event": (sse(raw=b"data: " + b"x" * 70_000), "larger"),
    "too deep": (
        sse(raw=b'data: {"jsonrpc":"2.0","id":1,"result":%b}\n\n' % deep(100).encode()),
        "nested",
    ),
    "error of no kind": (sse(rpc(error={"code": 1})), "error"),
    "someone else's": (sse(rpc(result={"task": task()}) | {"id": 99}), "99"),
    "html": (answer("<html>", kind="text/html"), "understood"),
    "ends while working": (sse(rpc(result={"task": task("WORKING", "")})), ""),
}


async def fault_of(response: bytes, use) -> Exception:
    """Talk to an agent that answers every call with `response`; return what that ends in."""

    def handler(request):
        return (
            answer(card(f"http://{request.headers['host']}/"))
            if request.verb == "GET"
            else response
        )

    retry = Retry(attempts=2, first_s=0.001)
    async with (
        scripted(handler) as peer,
        asyncio.timeout(PATIENCE_S),
        connect(peer.url, budget=QUICK, retry=retry) as client,
    ):
        with pytest.raises((AgentFault, A2AError)) as caught:
            await use(client)
    said = str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
    assert "Dock clerk" in said or peer.url in said
    return caught.value


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers(name):
    """What came back can't be believed, and the caller is told why."""
    response, complaint = ANSWERS[name]
    fault = await fault_of(response, lambda client: client.send("hello"))
    assert complaint in str(fault)


@pytest.mark.parametrize("name", STREAMS)
async def test_streams(name):
    """The same, event by event."""

    async def use(client):
        async for _ in client.stream("hello"):
            pass

    response, complaint = STREAMS[name]
    assert complaint in str(await fault_of(response, use))


async def test_an_answer_that_never_comes():
    """The deadline ends it."""

    async def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        await asyncio.Event().wait()
        return b""

    async with (
        scripted(handler) as peer,
        connect(peer.url, budget=QUICK, retry=Retry(attempts=1)) as client,
    ):
        with pytest.raises(AgentFault, match="within 1 s"):
            await client.send("hello")


async def test_a_list_that_never_ends():
    """A page token that comes back is noticed."""

    def handler(request):
        if request.verb == "GET":
            return answer(card(f"http://{request.headers['host']}/"))
        page = {"tasks": [task()], "nextPageToken": "again"}
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": page})

    async with scripted(handler) as peer, connect(peer.url) as client:
        with pytest.raises(AgentFault, match="does not end"):
            _ = [t async for t in client.list()]


@pytest.mark.parametrize("name", ["status 500", "error a string", "html"])
async def test_the_same_over_rest(name):
    """HTTP+JSON has fewer envelopes to break, and breaks the same way."""
    broken = {
        "status 500": answer({"error": {"code": 500, "message": "it broke"}}, 500),
        "error a string": answer({"error": "no"}, 400),
        "html": answer("<html>"),
    }[name]

    def handler(request):
        url = f"http://{request.headers['host']}"
        interfaces = [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
        return (
            answer(card(url, supportedInterfaces=interfaces)) if request.verb == "GET" else broken
        )

    async with scripted(handler) as peer, connect(peer.url, retry=Retry(attempts=1)) as client:
        with pytest.raises((AgentFault, A2AError)) as caught:
            await client.send("hello")
    assert "Dock clerk" in str(caught.value) + " ".join(getattr(caught.value, "__notes__", ()))
    assert json.dumps(str(caught.value))


async def test_what_came_before_nonsense_is_read():
    """Events that came in one piece with one that can't be understood are not lost for it."""
    events = (rpc(result={"task": task("WORKING", "")}), rpc(result={}))
    seen = []

    async def use(client):
        async for event in client.stream("hello"):
            seen.append(event)

    assert "understood" in str(await fault_of(sse(*events), use))
    assert [event.id for event in seen] == ["t-1"]
