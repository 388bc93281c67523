"""How far an agent behind a hub is: its callers get the numbers."""

from pathlib import Path

import pytest

from tests.engine.test_progress import SAID, counter, said_by
from tests.hub.hubs import hub_at
from tests.hub.test_gate import WAYS_IN, entrance
from tests.relay.relays import served


@pytest.mark.parametrize("way_in", WAYS_IN)
async def test_numbers_pass_through_a_hub(tmp_path: Path, way_in: str) -> None:
    async with hub_at(tmp_path, grpc_port=0) as desk, served(counter()) as address:
        await desk.add(address, name="counter")
        async with entrance(desk, "counter", door=way_in) as client:
            assert await said_by(client) == SAID
            assert (await client.send("go")).progress == (10, 10)
