"""The checks of `accord check` find the same through a hub as directly, for every way in, whatever
the agent behind the hub speaks.
"""

import pytest

from accord.check import CheckReport, run_checks
from tests.hub.hubs import hub_at
from tests.hub.test_gate import only
from tests.relay.relays import DOORS, clerk, served

# The hub signs its cards; this agent does not.
SIGNED = ("card.signature", "")


def table(report: CheckReport) -> dict[tuple[str, str], str]:
    """Verdicts by check and interface; the interface without its address."""
    return {
        (one.id, " ".join(one.interface.split()[:2])): one.status
        for one in report.results
        if (one.id, one.interface) != SIGNED
    }


@pytest.mark.parametrize("way_out", ["all", *DOORS])
async def test_checks_find_the_same_through_a_hub(tmp_path, way_out):
    behind = clerk() if way_out == "all" else only(clerk(), way_out)
    async with (
        hub_at(tmp_path, grpc_port=0) as desk,
        served(clerk()) as direct_url,
        served(behind) as url,
    ):
        await desk.add(url, name="clerk")
        direct = table(await run_checks(direct_url))
        through = table(await run_checks(f"{desk.url}/agents/clerk/"))
    assert through == direct
    assert {interface for _, interface in direct} >= {
        *("JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3", "GRPC 0.3")
    }
    assert "fail" not in direct.values()
    print(f"\n{len(through)} rows through a hub are as directly; the agent speaks {way_out}")
