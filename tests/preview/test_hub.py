"""A2A 1.1 through a hub: its tasks have generations of their own, whatever the agent speaks."""

import asyncio

import aiohttp
import pytest

from accord import Agent, Context, TaskGenerationMismatch, connect
from accord.client import ApiKey
from tests.drive import PATIENCE_S, JsonRpc, Rest, refusal_of, serving
from tests.hub.hubs import hub_at
from tests.preview.doors import NAMED


def _agent() -> Agent:
    agent = Agent("Clerk", description="Asks.")

    @agent.skill
    async def question(request: str, ctx: Context) -> str:
        """Ask."""
        return await ctx.ask(f"{request}?")

    return agent


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("previews", [["1.1"], []], ids=["1.1", "1.0"])
async def test_generations_hold_over_the_hop(tmp_path, previews, binding):
    """With an agent of 1.1 behind the hub, and with one that only speaks 1.0."""
    app = _agent().app(previews=previews)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(app, app.close) as agent_url,
        hub_at(tmp_path, preview=("1.1",), grpc_port=0) as desk,
    ):
        await desk.add(agent_url, name="clerk")
        async with connect(
            f"{desk.url}/agents/clerk",
            auth=ApiKey(desk.keys["admin"]),
            binding=binding,
            previews=["1.1"],
        ) as client:
            assert (client.version, client.binding) == ("1.1", binding)
            events = [event async for event in client.stream("go")]
            numbers = [event.generation for event in events]
            assert numbers == list(range(1, len(numbers) + 1))
            task = await client.get(events[0].id)
            held = asyncio.ensure_future(client.get(task.id, current_generation=task.generation))
            with pytest.raises(TaskGenerationMismatch):
                await client.send("x", task_id=task.id, if_generation_match=1)
            replies = [
                await client.send(
                    "x", task_id=task.id, if_generation_match=task.generation, key="k"
                )
                for _ in range(2)
            ]
            assert [reply.text for reply in replies] == ["x", "x"]
            assert (await held).generation > task.generation
        [upstream] = desk.hub.gate.upstreams.clients_of("clerk")
        assert upstream.version == ("1.1" if previews else "1.0")


async def test_a_hub_without_the_preview_refuses_it(tmp_path):
    """Its entries offer 1.0. Who names 1.1 all the same is refused."""
    app = _agent().app(previews=["1.1"])
    async with serving(app, app.close) as agent_url, hub_at(tmp_path) as desk:
        await desk.add(agent_url, name="clerk")
        auth = ApiKey(desk.keys["admin"])
        async with connect(f"{desk.url}/agents/clerk", auth=auth, previews=["1.1"]) as client:
            assert client.version == "1.0"
            assert (await client.send("go")).question == "go?"
        headers = NAMED | {"X-API-Key": desk.keys["admin"]}
        async with aiohttp.ClientSession(trust_env=False) as http:
            for door in (JsonRpc, Rest):
                entry = door(http, f"{desk.url}/agents/clerk")
                refused = await refusal_of(entry.send("go", headers=headers))
                assert refused.reason == "VERSION_NOT_SUPPORTED"
