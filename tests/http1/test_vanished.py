"""A client whose machine is gone says no goodbye: its connection must not be kept for ever."""

from accord.server.http1 import listener
from tests.http1.raw import Served, Wire, post, rpc, send, served
from tests.processes import until
from tests.swallow import on_linux, swallow

pytestmark = on_linux


async def waits(agent: Served) -> Wire:
    """A client that has asked for something that takes long."""
    wire = await agent.dial()
    await wire.say(post(send("x", "sleep")))
    return wire


async def streams(agent: Served) -> Wire:
    """A client that reads a stream on which nothing happens."""
    wire = await agent.dial()
    await wire.say(post(send("x", "wait")))
    task = (await wire.answer()).json["result"]["task"]
    await wire.say(post(rpc("SubscribeToTask", {"id": task["id"]})))
    assert (await wire.head())[0] == 200
    return wire


async def test_a_client_that_vanished_is_let_go(monkeypatch):
    """Who waits for an answer is sent nothing, so nothing is missed; who reads a stream leaves
    signs of life unanswered, and these are too few to fill a buffer. Another that waits as long,
    and lives, stays: its system answers for it.
    """
    monkeypatch.setattr(listener, "LOST_S", 1.0)
    async with served(keep_alive_comment_s=1.0, stalled_s=1.0) as agent:
        living = [await way(agent) for way in (waits, streams)]
        kept = set(agent.server.connections)
        lost = [await way(agent) for way in (waits, streams)]
        assert len(agent.server.connections) == 4
        for wire in lost:
            swallow(wire.writer.get_extra_info("socket"))
        try:
            await until(lambda: len(agent.server.connections) <= 2)
            assert agent.server.connections == kept
        finally:
            for wire in lost:
                wire.writer.transport.abort()
            for wire in living:
                await wire.hang_up()
