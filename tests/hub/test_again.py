"""A hub that stops and starts again: open relays go on."""

from tests.hub.hubs import hub_at
from tests.hub.test_gate import entrance
from tests.relay.relays import Gate, clerk, served


async def test_open_relays_go_on_when_the_hub_is_back(tmp_path):
    gate = Gate()
    async with served(clerk(gate)) as url:
        async with hub_at(tmp_path) as desk:
            await desk.add(url)
            async with entrance(desk, "clerk") as client:
                stream = client.stream("wait")
                await anext(stream)
                task_id = stream.task_id
                await stream.close()
                asked = await client.send("ask")
        async with hub_at(tmp_path) as desk, entrance(desk, "clerk") as client:
            gate.event.set()
            assert (await client.wait(task_id)).text == "begun done"
            task = await client.get(asked.task_id)
            reply = await client.send("three", task_id=task.id, context_id=task.context_id)
            assert reply.text == "heard three"
