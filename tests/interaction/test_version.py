"""A2A-Version: which version a request means."""

import pytest

from tests.drive import refusal_of, say, state_of


async def echo(request: str):
    return request


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1.0.7", " 1.0 "])
async def test_a_version_is_its_first_two_numbers(connect, version):
    """Patch numbers do not matter (VER-2, VER-3, VER-7)."""
    async with connect(echo) as client:
        task = (await client.send("hi", headers={"A2A-Version": version}))["task"]
        assert state_of(task) == "completed"


@pytest.mark.parametrize("version", ["99.0", "2.0", "1", "1.1", "one", "1.0beta", "01.0"])
async def test_an_unknown_version_is_refused(connect, version):
    """VersionNotSupported, naming the ones that are (VER-3, VER-7)."""
    async with connect(echo) as client:
        for call in (client.send, client.stream):
            refused = await refusal_of(call("hi", headers={"A2A-Version": version}))
            assert refused.reason == "VERSION_NOT_SUPPORTED"
            assert "1.0" in refused.detail["supported"]
        assert (await client.list())["totalSize"] == 0


async def test_every_operation_checks_the_version(connect):
    """The gate is in front of all of them (VER-3; section 8.3)."""
    async with connect(echo) as client:
        task = (await client.send("hi"))["task"]
        odd = {"A2A-Version": "99.0"}
        for call in (
            client.get(task["id"], headers=odd),
            client.list(headers=odd),
            client.cancel(task["id"], headers=odd),
            client.subscribe(task["id"], headers=odd),
        ):
            assert (await refusal_of(call)).reason == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize("headers", [None, {"A2A-Version": ""}])
async def test_without_a_version_the_method_or_path_decides(connect, headers):
    """1.0 names mean 1.0 (design, rule 16; the specification would have it mean 0.3, whose names
    are others).
    """
    async with connect(echo) as client:
        task = (await client.send("hi", headers=headers))["task"]
        assert state_of(task) == "completed"


async def test_the_version_may_be_a_query_parameter(connect_http):
    """For clients that cannot set headers (VER-1)."""
    async with connect_http(echo) as client:
        message = say("hi")
        body = (
            {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
            if client.binding == "JSONRPC"
            else message
        )
        path = "/" if client.binding == "JSONRPC" else "/message:send"
        _, answer = await client.post(f"{path}?A2A-Version=1.0", body)
        assert "error" not in answer
        _, answer = await client.post(f"{path}?a2a-version=99.0", body)
        assert "VERSION_NOT_SUPPORTED" in str(answer["error"])


async def test_the_header_goes_before_the_query_parameter(connect_rest):
    """The header is the rule, the parameter the exception (VER-1)."""
    async with connect_rest(echo) as client:
        status, _ = await client.post(
            "/message:send?A2A-Version=99.0", say("hi"), A2A_Version="1.0"
        )
        assert status == 200


OLD = {
    "message": {
        "messageId": "m",
        "role": "user",
        "kind": "message",
        "parts": [{"kind": "text", "text": "hi"}],
    }
}


async def test_the_names_of_an_old_version_mean_that_version(connect_rpc):
    """Without a version, message/send is 0.3 and answered as such, beside SendMessage of 1.0
    (VER-4, VER-6).
    """
    async with connect_rpc(echo) as client:
        _, old = await client.post(
            "/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": OLD}
        )
        assert (old["result"]["kind"], old["result"]["status"]["state"]) == ("task", "completed")
        new = await client.get(old["result"]["id"])
        assert new["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_old_version_can_be_left_out(connect_rpc):
    """A server of 1.0 alone knows no other names and says so (VER-3; design, rule 16)."""
    async with connect_rpc(echo, versions=["1.0"]) as client:
        _, answer = await client.post(
            "/",
            {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": OLD},
            A2A_Version="0.3",
        )
        assert answer["error"]["code"] == -32009
        _, answer = await client.post(
            "/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": OLD}
        )
        assert answer["error"]["code"] in (-32009, -32601)


async def test_a_version_that_contradicts_the_method_gives_way_to_it(connect_rpc):
    """SendMessage is 1.0 whatever known version the header names (design, rule 16)."""
    async with connect_rpc(echo) as client:
        task = (await client.send("hi", headers={"A2A-Version": "0.3"}))["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
