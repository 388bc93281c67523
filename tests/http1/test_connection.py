"""One connection and the rules of HTTP/1.1 on it: raw bytes to a served agent, on both event
loops.
"""

import asyncio
import json

import pytest

from accord import Limits
from accord.server import HttpResponse
from accord.server.http import converse
from accord.server.http1.listener import HttpServer
from tests.drive import say
from tests.http1.raw import Wire, chunked, post, rpc, send, served
from tests.processes import until

UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"  # noqa: E501
CARD = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: localhost\r\n\r\n"

SHAPES = {
    "by length": lambda body: post(body),
    "in chunks": lambda body: chunked(body, 1, 20, 3),
    "in one chunk": lambda body: chunked(body),
    "with an upgrade": lambda body: post(body, headers=UPGRADE),
    "chunks with an upgrade": lambda body: chunked(body, 10, headers=UPGRADE),
    "whole url": lambda body: post(body, "http://localhost/"),
    "after empty lines": lambda body: b"\r\n\r\n" + post(body),
    "to HTTP+JSON": lambda body: post(
        json.dumps(json.loads(body)["params"]).encode(), "/message:send"
    ),
}


def text_of(got) -> str:
    result = got.json.get("result", got.json)
    return result["task"]["artifacts"][0]["parts"][0]["text"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_request_in_every_shape_is_answered(shape):
    """RFC 9112, 6: length or chunks; Java's HttpClient offers HTTP/2 with every first request,
    which has a body (RFC 9113, 3.2).
    """
    async with served() as agent:
        wire = await agent.dial()
        for text in ("one", "two"):  # and what follows on the connection too
            await wire.say(SHAPES[shape](send(text)))
            got = await wire.answer()
            assert (got.status, text_of(got)) == (200, text)
            assert "connection" not in got.headers
        await wire.hang_up()


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_request_that_comes_byte_by_byte_is_answered(shape):
    """A packet may end anywhere."""
    async with served() as agent:
        wire = await agent.dial()
        await wire.drip(SHAPES[shape](send("slow")) + SHAPES[shape](send("slower")))
        assert [text_of(await wire.answer()) for _ in range(2)] == ["slow", "slower"]
        await wire.hang_up()


async def test_requests_sent_ahead_are_answered_in_order():
    """RFC 9112, 9.3.2: some wait for a commit, some for nothing; the answers come in the order of
    the requests.
    """
    async with served() as agent:
        wire = await agent.dial()
        texts = [str(n) for n in range(100)]
        asked = b"".join(post(send(text)) + CARD for text in texts)
        await wire.say(asked)
        for text in texts:
            assert text_of(await wire.answer()) == text
            assert (await wire.answer()).json["name"] == "Raw"
        await wire.hang_up()


async def test_a_flood_of_requests_is_held_back():
    """What comes ahead of the answers is not collected: the server stops reading, and the client is
    the one who waits.
    """
    async with served() as agent:
        wire = await agent.dial()
        wire.writer.transport.set_write_buffer_limits(high=0)
        await wire.say(post(send("first", "sleep")))
        flood = CARD * 1_000
        said = 0
        async with asyncio.timeout(20):
            while said < 64 << 20:
                wire.writer.write(flood)
                said += len(flood)
                try:
                    await asyncio.wait_for(wire.writer.drain(), 0.5)
                except TimeoutError:
                    break
        assert said < 64 << 20
        [line] = agent.server.connections
        assert line.ahead is not None
        assert len(line.ahead) < 1 << 20
        wire.writer.transport.abort()


async def test_a_client_that_only_asks_is_not_answered_for_ever():
    """Answers nobody takes hold up the next request: a client can't fill our memory by asking."""
    async with served() as agent:
        wire = await agent.dial()
        big = (await agent.ask(post(send("100 10000", "fill")))).json["result"]["task"]["id"]
        wire.pause_reading()
        one = post(rpc("GetTask", {"id": big}))
        for _ in range(200):
            wire.writer.write(one)
        [line] = [
            link
            for link in agent.server.connections
            if link.transport.get_extra_info("peername")[1] == _port(wire)
        ]
        await until(lambda: line.is_write_paused)
        assert line.transport.get_write_buffer_size() < 4 << 20
        wire.resume_reading()
        for _ in range(200):
            assert len((await wire.answer()).body) > 1_000_000
        await wire.hang_up()


def _port(wire) -> int:
    return wire.writer.get_extra_info("sockname")[1]


@pytest.mark.parametrize(("first", "is_keep_alive", "said"), [
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", True, None),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False, "close"),
    (b"GET /healthz HTTP/1.0\r\n\r\n", False, "close"),
    (b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, "keep-alive"),
    (b"GET /nowhere/at/all HTTP/1.1\r\nHost: a\r\n\r\n", True, None),
])  # fmt: skip
async def test_a_connection_is_kept_if_the_client_wants_it(first, is_keep_alive, said):
    """RFC 9112, 9.3: by default in 1.1, if asked for in 1.0. A refusal that was read to its end
    closes nothing.
    """
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(first)
        got = await wire.answer()
        assert got.headers.get("connection") == said
        if is_keep_alive:
            await wire.say(first)
            assert (await wire.answer()).status == got.status
        else:
            assert await wire.rest() == b""
        await wire.hang_up()


async def test_a_stream_to_an_old_client_ends_with_the_connection():
    """HTTP/1.0 knows no chunks (RFC 9112, 6.1)."""
    async with served() as agent:
        body = send("a", method="SendStreamingMessage")
        head = (
            b"POST / HTTP/1.0\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n"  # noqa: E501
            % len(body)
        )
        got = await agent.ask(head.replace(b"\r\n\r\n", b"\r\nA2A-Version: 1.0\r\n\r\n") + body)
        assert got.headers["connection"] == "close"
        assert "transfer-encoding" not in got.headers
        assert got.body.count(b"data: ") == 4


async def test_a_head_alone_is_the_head_alone():
    """HEAD: the length of what is not sent, and the next answer right after it (RFC 9110,
    9.3.2).
    """
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(
            CARD.replace(b"GET", b"HEAD")
            + CARD
            + b"HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
            + CARD
        )
        bare, whole = await wire.answer(is_bare=True), await wire.answer()
        assert (
            bare.headers["content-length"]
            == whole.headers["content-length"]
            == str(len(whole.body))
        )
        assert (await wire.answer(is_bare=True)).status == 404
        assert (await wire.answer()).json["name"] == "Raw"
        await wire.hang_up()


async def test_options_name_what_can_be_done():
    """RFC 9110, 9.3.7: for the server, and for a path."""
    async with served() as agent:
        everywhere = await agent.ask(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (everywhere.status, "POST" in everywhere.headers["allow"]) == (204, True)
        assert (await agent.ask(b"OPTIONS /tasks HTTP/1.1\r\nHost: a\r\n\r\n")).headers[
            "allow"
        ] == "GET"


async def test_an_answer_without_a_body_has_no_length():
    """304 and 204 (RFC 9110, 8.6), with the next answer right behind."""
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(CARD)
        tag = (await wire.answer()).headers["etag"].encode()
        await wire.say(CARD.replace(b"\r\n\r\n", b"\r\nIf-None-Match: %b\r\n\r\n" % tag) + CARD)
        bare = await wire.answer()
        assert (bare.status, bare.headers.get("content-length"), bare.headers["etag"].encode()) == (
            304,
            None,
            tag,
        )
        assert (await wire.answer()).status == 200
        await wire.hang_up()


async def test_a_client_that_waits_for_a_word_gets_it():
    """100 Continue before the body (RFC 9110, 10.1.1); none if the body is there already."""
    body = send("polite")
    asked = post(body, headers=b"Expect: 100-continue\r\n")
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(asked[: -len(body)])
        assert (await wire.answer()).status == 100
        await wire.say(body)
        assert text_of(await wire.answer()) == "polite"
        await wire.say(asked)
        assert text_of(await wire.answer()) == "polite"
        await wire.hang_up()


async def test_a_client_that_waits_with_too_much_is_spared_the_sending():
    """413 in place of the word, and nothing of the body is asked for."""
    async with served(body=1_000) as agent:
        wire = await agent.dial()
        await wire.say(
            post(send("x" * 2_000), headers=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")[0]
            + b"\r\n\r\n"
        )
        got = await wire.answer()
        assert (got.status, got.headers["connection"]) == (413, "close")
        await wire.hang_up()


async def test_every_answer_has_a_date():
    """RFC 9110, 6.6.1, for whoever caches; refusals too."""
    async with served() as agent:
        for asked in (
            CARD,
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            post(send(method="SendStreamingMessage")),
        ):
            assert (await agent.ask(asked)).headers["date"].endswith(" GMT")


SMUGGLED = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 60\r\n\r\n",
    "a space before the colon": b"Content-Length : 60\r\n\r\n",
    "a folded header": b"X-A: b\r\n Content-Length: 60\r\n\r\n",
    "an encoding in disguise": b"Transfer-Encoding: xchunked\r\n\r\n",
    "a bare line feed": b"X-A: b\nContent-Length: 60\r\n\r\n",
    "NUL": b"X-A: \0\r\n\r\n",
    "a chunk of no size": b"Transfer-Encoding: chunked\r\n\r\nxx\r\n",
    "a chunk with a sign": b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "a chunk that does not end": b"Transfer-Encoding: chunked\r\n\r\n1\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("what", SMUGGLED)
async def test_nothing_can_be_hidden_in_a_request(what):
    """RFC 9112, 11.2: the fault is named, the connection closed, and what follows is not taken for
    a request.
    """
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(head + SMUGGLED[what] + post(send("hidden")))
        got = await wire.answer()
        assert (got.status, got.headers["connection"]) == (400, "close")
        assert got.body.startswith(b"not a valid HTTP request: ")
        assert await wire.rest() == b""
        await wire.hang_up()
        assert await agent.tasks() == 0


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"hello\r\n",
        b"\0",
        b"GET",
        b"{}",
        b"GET / HTTP/1.1\nHost: a\n\n",
    ],
)
async def test_what_is_no_http_is_told_so_at_once(said):
    """TLS on a plain port, a line of text: nobody has to wait for the end of its patience. A
    beginning is waited for.
    """
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(said)
        if said == b"GET":
            await wire.say(CARD[3:])
            assert (await wire.answer()).status == 200
        else:
            assert (await wire.answer()).status == 400
            assert await wire.rest() == b""
        await wire.hang_up()


async def test_who_speaks_http2_here_is_told_where_to_go():
    """A gRPC client on the HTTP port."""
    async with served() as agent:
        got = await agent.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9)
        assert (got.status, b"gRPC has its own port" in got.body) == (505, True)


@pytest.mark.parametrize("shape", ["by length", "in chunks", "to HTTP+JSON"])
async def test_too_much_in_part_of_all_clients_together_is_refused(shape):
    """Each may send a body up to the limit; a thousand of them at once would be the memory of the
    machine.
    """
    async with served(body=2_000) as agent:
        asked = SHAPES[shape](send("x" * 1_500))
        wires = [await agent.dial() for _ in range(110)]
        for wire in wires:
            await wire.say(asked[:-100])
        first = await asyncio.wait(
            [asyncio.ensure_future(wire.answer()) for wire in wires],
            return_when=asyncio.FIRST_COMPLETED,
        )
        refused = [done.result() for done in first[0]]
        assert {got.status for got in refused} == {429}
        assert refused[0].headers["retry-after"] == "1"
        for waiting in first[1]:
            waiting.cancel()
        for wire in wires:
            await wire.hang_up()
        assert (await agent.ask(post(send("again")))).status == 200
        assert agent.server._held == 0


async def test_a_request_belongs_to_no_trace_but_its_own():
    """Two requests on one connection: the trace of the first is not that of the second."""
    from accord import observe

    seen = []
    async with served() as agent:
        ours = agent.app.answer

        async def look(request):
            got = await ours(request)
            seen.append(observe.current())
            return got

        agent.server.answer = look
        wire = await agent.dial()
        trace = b"traceparent: 00-%b-%b-01\r\n" % (b"a" * 32, b"b" * 16)
        await wire.say(post(rpc("ListTasks", {}), headers=trace) + post(rpc("ListTasks", {})))
        await wire.say(post(send(), headers=trace) + post(send()) + post(rpc("ListTasks", {})))
        for _ in range(5):
            assert (await wire.answer()).status == 200
        await wire.hang_up()
    assert [bool(trace) for trace in seen] == [True, False, True, False, False]


async def test_agents_code_runs_in_a_task():
    """A request is answered without a task if it need not wait; code that is not ours may count on
    one (`asyncio.timeout` does).
    """
    async with served() as agent:
        got = await agent.ask(post(send("hi", "reply")))
        assert got.json["result"]["message"]["parts"] == [{"text": "hi"}]
        stream = await agent.ask(
            post(rpc("SendStreamingMessage", say("hi", metadata={"skill": "reply"})))
        )
        assert b'"text":"hi"' in stream.body


SPLITTING = b"text/html\r\nx-evil: 1\r\n\r\n<script>"


@pytest.mark.parametrize("headers", [(), ((b"x-more", b"1"),)], ids=["plain", "with headers"])
async def test_a_media_type_can_not_split_an_answer(headers):
    """RFC 9112, 11.1. Neither here nor on servers that would write what they are given."""

    async def answer(request):
        return HttpResponse(200, b"body", SPLITTING, headers)

    server = HttpServer(answer, "127.0.0.1", 0, Limits())
    await server.start()
    try:
        wire = Wire(*await asyncio.open_connection("127.0.0.1", server.port))
        await wire.say(CARD)
        assert await wire.rest() == b""
        await wire.hang_up()
    finally:
        await server.stop()

    sent = []

    async def told(event):
        sent.append(event)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(ValueError, match="split"):
        await converse(answer, scope, None, told, Limits())
    assert not sent
