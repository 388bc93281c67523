"""Agents that register themselves, by a publisher's key."""

from accord.hub import RestClient
from accord.hub.registration import SelfRegistration
from tests.hub.hubs import hub_at, serving_card
from tests.processes import until


async def test_an_agent_goes_on_to_beat_when_it_was_approved(tmp_path):
    """It was registered under a provisional name, and has its own from then on."""
    async with hub_at(tmp_path) as desk, serving_card() as server:
        key = await desk.key("pub", "publisher")
        registration = SelfRegistration(RestClient(desk.url, key), 0.05)
        registration.start(server.url)
        try:
            registry = desk.hub.registry
            [entry] = await until(registry.all)
            assert (entry.state, entry.name) == ("pending", f"baker-{entry.id[:6]}")
            await desk.approve({"name": entry.name})
            approved = registry.get("baker")
            await until(lambda: registry.get("baker").beat_ms > approved.beat_ms)
            assert [one.name for one in registry.all()] == ["baker"]
        finally:
            await registration.close()
        assert registry.get("baker").health.category == "LEFT"
