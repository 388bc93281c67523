"""What only the JSON-RPC binding has: the envelope."""

import asyncio

import pytest

from tests.drive import say, text_of


async def echo(request: str):
    return request


def envelope(**members):
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": say("hi")} | members


@pytest.mark.parametrize(
    "id_",
    [
        b'"q-7"',
        b"7",
        b"0",
        b"-3",
        b"1.50",
        b"12345678901234567890123",
        b'""',
        b'"\\u00e9\\n"',
        b"null",
        b"1e3",
    ],
)
async def test_the_id_is_echoed_as_it_came(connect_rpc, id_):
    """Same text, same type: strings, numbers of any spelling, null (BND-4; section 3.3)."""
    body = b'{"jsonrpc": "2.0", "id": %b, "method": "ListTasks", "params": {}}' % id_
    async with connect_rpc(echo) as client:
        async with client.http.post(
            client.url, data=body, headers={"Content-Type": "application/json"}
        ) as response:
            text = await response.read()
        assert text.startswith(b'{"jsonrpc":"2.0","id":%b,"result":' % id_)


async def test_every_frame_of_a_stream_carries_the_id(connect_rpc):
    """Some clients throw on a frame without it (BND-4; section 3.3)."""
    async with connect_rpc(echo) as client:
        stream = await client.stream("hi")
        await stream.rest()
        assert len({(frame["jsonrpc"], frame["id"]) for frame in stream.raw}) == 1
        assert all(set(frame) == {"jsonrpc", "id", "result"} for frame in stream.raw)


async def test_an_error_carries_the_id_and_no_result(connect_rpc):
    """Never both, and HTTP 200 (section 3.3)."""
    async with connect_rpc(echo) as client:
        status, answer = await client.post(
            "/", envelope(id="q-7", method="GetTask", params={"id": "nowhere"})
        )
        assert (status, set(answer), answer["id"]) == (200, {"jsonrpc", "id", "error"}, "q-7")
        assert (answer["error"]["code"], client.answer_headers["Content-Type"]) == (
            -32001,
            "application/json",
        )


@pytest.mark.parametrize(
    ("body", "id_"),
    [
        ([envelope()], None),
        ([], None),
        ("text", None),
        (7, None),
        ({}, None),
        (envelope(jsonrpc="1.0"), 1),
        (envelope(jsonrpc=None), 1),
        (envelope(method=7), 1),
        ({"jsonrpc": "2.0", "id": "a", "params": {}}, "a"),
        (envelope(id={"a": 1}), None),
        (envelope(id=[1]), None),
        (envelope(id=True), None),
    ],
    ids=range(12),
)
async def test_a_malformed_envelope_is_an_invalid_request(connect_rpc, body, id_):
    """Batches, wrong versions, methods and ids: -32600, with the id where it can be read
    (BND-4).
    """
    async with connect_rpc(echo) as client:
        status, answer = await client.post("/", body)
        assert (status, answer["error"]["code"], answer["id"]) == (200, -32600, id_)
        assert (await client.list())["totalSize"] == 0


@pytest.mark.parametrize("method", ["Nothing", "sendmessage", "", "SendMessage ", "__init__"])
async def test_an_unknown_method_is_not_found(connect_rpc, method):
    """-32601 (section 4.2)."""
    async with connect_rpc(echo) as client:
        status, answer = await client.post("/", envelope(method=method))
        assert (status, answer["error"]["code"], answer["id"]) == (200, -32601, 1)


@pytest.mark.parametrize("params", [[], "x", 7, [say("hi")]])
async def test_params_are_an_object(connect_rpc, params):
    """Anything else is InvalidParams (section 3.3)."""
    async with connect_rpc(echo) as client:
        _, answer = await client.post("/", envelope(params=params))
        assert answer["error"]["code"] == -32602


async def test_params_may_be_left_out_where_nothing_is_required(connect_rpc):
    """Absent and null are {} (section 3.3)."""
    async with connect_rpc(echo) as client:
        for body in (
            {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"},
            envelope(method="ListTasks", params=None),
        ):
            _, answer = await client.post("/", body)
            assert answer["result"]["totalSize"] == 0


async def test_unknown_members_of_the_envelope_are_ignored(connect_rpc):
    """As everywhere (BND-2)."""
    async with connect_rpc(echo) as client:
        _, answer = await client.post("/", envelope(extra=1))
        assert text_of(answer["result"]["task"]) == "hi"


@pytest.mark.parametrize(
    "kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_a_request_that_is_not_json_is_refused_unread(connect_rpc, kind):
    """-32005 with HTTP 200: a browser can't send JSON's type across sites without asking (A12)."""
    async with connect_rpc(echo) as client:
        status, answer = await client.post("/", envelope(), Content_Type=kind)
        assert (status, answer["error"]["code"], answer["id"]) == (200, -32005, None)


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/a2a+json"]
)
async def test_json_may_be_named_in_several_ways(connect_rpc, kind):
    """Parameters, case, and A2A's own type."""
    async with connect_rpc(echo) as client:
        status, answer = await client.post("/", envelope(), Content_Type=kind)
        assert (status, text_of(answer["result"]["task"])) == (200, "hi")
        assert client.answer_headers["Content-Type"] == "application/json"


async def test_only_post_is_taken(connect_rpc):
    """405 says so, and where the card is (section 3.5)."""
    async with connect_rpc(echo) as client:
        for verb in ("GET", "PUT", "DELETE"):
            async with client.http.request(verb, client.url + "/") as response:
                assert (response.status, response.headers["Allow"]) == (405, "POST")


async def test_requests_on_one_connection_are_answered_in_order(connect_rpc):
    """Pipelined or not, an answer never meets another's request (BND-4)."""
    async with connect_rpc(echo) as client:
        host, port = client.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = b'{"jsonrpc":"2.0","id":%d,"method":"ListTasks","params":{}}'
        head = (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            b"application/json\r\nContent-Length: %d\r\n\r\n"
        )
        bodies = [body % n for n in range(5)]
        writer.write(b"".join(head % len(b) + b for b in bodies))
        got = b""
        while got.count(b'"totalSize"') < 5:
            got += await asyncio.wait_for(reader.read(4096), 5)
        assert [got.index(b'"id":%d,' % n) for n in range(5)] == sorted(
            got.index(b'"id":%d,' % n) for n in range(5)
        )
        writer.close()
        await writer.wait_closed()
