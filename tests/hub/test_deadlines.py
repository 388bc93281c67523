"""Questions with a deadline, asked by an agent behind a hub: the agent decides, and the caller is
told what a caller without a hub is told.
"""

from pathlib import Path

import pytest

from accord import Agent, Context, connect
from accord.model import TaskState, UnsupportedOperation
from tests.hub.hubs import hub_at
from tests.hub.test_gate import WAYS_IN, entrance
from tests.relay.relays import Gate, served
from tests.relay.test_moved_on import until_said

LATE = "could be answered until .* and that has passed"


class Till:
    """An agent that asks before it pays."""

    def __init__(self) -> None:
        self.agent = Agent("Till", description="Pays.")
        self.gate = Gate()
        self.paid: list[str] = []
        self.agent.skill(self.pay, durable=True)

    async def pay(self, text: str, ctx: Context) -> str:
        """Pay, if somebody agrees in time."""
        within = float(text)
        if await ctx.ask("Pay 4,000?", bool, within=within, default=False):
            self.paid.append(text)
            return "paid"
        await self.gate.event.wait()
        return "not paid"


@pytest.mark.parametrize("way_in", WAYS_IN)
async def test_a_deadline_behind_a_hub_is_the_agents(
    tmp_path: Path, way_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.client.questions.PASSED_S", 0.05)
    till = Till()
    async with (
        hub_at(tmp_path, grpc_port=0) as desk,
        served(till.agent) as address,
        connect(address) as direct,
    ):
        await desk.add(address, name="till")
        async with entrance(desk, "till", door=way_in) as client:
            asked = await client.send("60")
            [ours] = asked.questions
            [there] = [task async for task in direct.list()]
            [theirs] = (await direct.wait(there.id)).questions
            assert ours.id
            assert ours.expires_at is not None
            assert (ours.id, ours.expires_at) == (theirs.id, theirs.expires_at)
            assert (await asked.answer(True)).text == "paid"

            late = await client.send("0.3")
            await until_said(client, late.task_id, TaskState.WORKING)
            with pytest.raises(UnsupportedOperation, match=LATE):
                await late.answer(True)
            with pytest.raises(UnsupportedOperation, match=LATE):
                await client.send("true", task_id=late.task_id)
            till.gate.event.set()
            assert (await client.wait(late.task_id)).text == "not paid"
    assert till.paid == ["60"]
