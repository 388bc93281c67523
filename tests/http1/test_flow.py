"""Both ends of a connection at their own pace: who takes nothing is waited for, then cut; who goes
away is not worked for.
"""

import asyncio
import json

import pytest

from accord.server.http1 import connection as http1
from accord.server.http1.listener import HttpServer
from tests.http1.raw import chunked, post, rpc, send, served
from tests.processes import until


async def test_a_stream_nobody_takes_waits_in_the_log():
    """Back-pressure: what a client does not take stays where it is, and nothing of it in our memory
    (S3).
    """
    async with served() as agent:
        wire = await agent.dial()
        wire.pause_reading()
        await wire.say(post(send("400 20000", "fill", "SendStreamingMessage")))
        [line] = agent.server.connections
        await until(lambda: line.is_write_paused)
        done = rpc("ListTasks", {"status": "TASK_STATE_COMPLETED"})
        while not (await agent.ask(post(done))).json["result"]["totalSize"]:
            pass
        assert line.transport.get_write_buffer_size() < 1 << 20
        wire.resume_reading()
        got = await wire.answer()
        assert got.body.count(b"artifactUpdate") == 400
        assert b"TASK_STATE_COMPLETED" in got.body
        await wire.hang_up()


async def test_a_client_that_takes_nothing_is_cut_without_an_end():
    """A cut must not look like an end: the closing chunk never comes (design, rule 5)."""
    async with served(stalled_s=0.5) as agent:
        wire = await agent.dial()
        wire.pause_reading()
        await wire.say(post(send("400 20000", "fill", "SendStreamingMessage")))
        await until(lambda: any(line.is_write_paused for line in agent.server.connections))
        await until(lambda: not agent.server.connections)
        wire.resume_reading()
        assert not (await wire.rest()).endswith(b"0\r\n\r\n")
        await wire.hang_up()


async def test_who_hangs_up_ends_the_stream():
    """The reader is closed with the connection, and counted no more."""
    async with served() as agent:
        tasks = agent.app._engine.tasks
        wires = [await agent.dial() for _ in range(20)]
        for wire in wires:
            await wire.say(post(send("x", "wait", "SendStreamingMessage")))
            await wire.reader.readuntil(b"TASK_STATE_INPUT_REQUIRED")
        task = json.loads((await agent.ask(post(rpc("ListTasks", {})))).body)["result"]["tasks"][0][
            "id"
        ]
        subscribed = [await agent.dial() for _ in range(20)]
        for wire in subscribed:
            await wire.say(post(rpc("SubscribeToTask", {"id": task})))
            await wire.reader.readuntil(b"data: ")
        await until(lambda: tasks.views.open == 20)
        for wire in wires + subscribed:
            await wire.hang_up()
        await until(lambda: tasks.views.open == 0 and not agent.server.connections)


async def test_who_hangs_up_is_not_worked_for():
    """The call of a client that has gone is cancelled: here a reply that would never have come."""
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(post(send("x", "sleep")))
        await until(lambda: [line for line in agent.server.connections if line.task is not None])
        [line] = agent.server.connections
        task = line.task
        await wire.hang_up()
        await asyncio.wait([task], timeout=20)
        assert task.cancelled()


async def test_what_a_call_has_begun_is_finished_without_its_client():
    """A cancel whose client has gone is not half a cancel."""
    async with served() as agent:
        wire = await agent.dial()
        await wire.say(post(send("x", "wait")))
        task = (await wire.answer()).json["result"]["task"]["id"]
        wire.writer.write(post(rpc("CancelTask", {"id": task})))
        await wire.hang_up()
        got = await agent.ask(post(rpc("GetTask", {"id": task})))
        async with asyncio.timeout(20):
            while got.json["result"]["status"]["state"] != "TASK_STATE_CANCELED":
                got = await agent.ask(post(rpc("GetTask", {"id": task})))


@pytest.mark.parametrize(
    "asked", [post(send("x" * 500)), chunked(send("x" * 500), 100)], ids=["by length", "in chunks"]
)
async def test_a_client_that_goes_in_the_middle_has_asked_for_nothing(asked):
    async with served() as agent:
        for end in (20, 200, len(asked) - 1):
            wire = await agent.dial()
            await wire.say(asked[:end])
            await wire.hang_up()
        await until(lambda: not agent.server.connections)
        assert await agent.tasks() == 0
        assert agent.server._held == 0


async def test_a_refusal_is_heard_by_a_client_that_is_still_sending():
    """Closing at once would reset the connection, and may take the answer with it (RFC 9112, 9.6):
    it may go on for a while.
    """
    async with served(body=10_000) as agent:
        wire = await agent.dial()
        await wire.say(post(b"x" * 2_000_000)[:20_000])
        got = await wire.answer()
        assert (got.status, got.headers["connection"]) == (413, "close")
        for _ in range(50):
            await wire.say(b"x" * 20_000)
        assert await wire.reader.read(-1) == b""
        await wire.hang_up()


async def test_a_stream_of_nothing_but_signs_of_life_stays_open():
    """Comments, at the pace that is set (S5); the head is not held back until the first of them."""
    async with served(keep_alive_comment_s=0.05) as agent:
        wire = await agent.dial()
        await wire.say(post(send("x", "wait")))
        task = (await wire.answer()).json["result"]["task"]["id"]
        await wire.say(post(rpc("SubscribeToTask", {"id": task})))
        status, headers = await wire.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        await wire.reader.readuntil(b"data: ")
        for _ in range(3):
            await wire.reader.readuntil(b": keep-alive\n\n")
        await wire.hang_up()


async def test_requests_take_turns_with_other_clients():
    """However many requests one client sends ahead, another is answered in between."""
    async with served() as agent:
        order = []
        ours = agent.app.answer

        async def note(request):
            order.append(request.headers.get(b"x-who", b""))
            return await ours(request)

        agent.server.answer = note
        many, one = await agent.dial(), await agent.dial()
        card = b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Who: %b\r\n\r\n"
        many.writer.write(card % b"many" * 400)
        one.writer.write(card % b"one")
        for _ in range(400):
            assert (await many.answer()).status == 200
        assert (await one.answer()).status == 200
        assert order.index(b"one") <= 2 * http1.AT_ONCE
        await many.hang_up()
        await one.hang_up()


async def test_stopping_answers_what_is_under_way_and_closes():
    """Idle connections close at once; a request that came is answered, and told that this
    was all.
    """
    async with served() as agent:
        idle, busy = await agent.dial(), await agent.dial()
        await idle.say(post(rpc("ListTasks", {})))
        assert (await idle.answer()).status == 200
        gate = asyncio.Event()
        ours = agent.app.answer

        async def hold(request):
            await gate.wait()
            return await ours(request)

        agent.server.answer = hold
        await busy.say(post(rpc("ListTasks", {})))
        await until(lambda: any(line.task is not None for line in agent.server.connections))
        stopping = asyncio.ensure_future(agent.server.stop())
        assert await idle.rest() == b""
        gate.set()
        got = await busy.answer()
        assert (got.status, got.headers["connection"]) == (200, "close")
        assert await busy.rest() == b""
        await stopping
        await idle.hang_up()
        await busy.hang_up()


async def test_a_port_is_nobody_elses():
    """A second server on it fails, and says so by its error."""
    async with served() as agent:
        other = HttpServer(agent.app.answer, "127.0.0.1", agent.server.port, agent.app.limits)
        with pytest.raises(OSError, match="in use"):
            await other.start()
