"""A catalog of a public host is a stranger's word: what it names is no way into our network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from accord import connect
from accord.cli import main
from accord.client import Retry, Unreachable
from tests.client.network.forward import forward
from tests.client.peers import answer, card, scripted, task

CARD = "application/a2a-agent-card+json"
CATALOG = "application/ai-catalog+json"
PLACE = "/.well-known/ai-catalog.json"
ONCE = Retry(attempts=1)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """`agent.test` has a public address, and `inside.test` one of our network."""
    known = {"agent.test": "93.184.216.34", "inside.test": "127.0.0.1", "127.0.0.1": "127.0.0.1"}

    async def resolve(host: str, family: int = 0) -> list[tuple[int, str]]:
        return [(2, known[host])]

    monkeypatch.setattr("accord.net.pool.resolve", resolve)


def _inside(request: Any) -> bytes:
    """An agent in our network, and a catalog there."""
    if request.verb != "GET":
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": {"task": task()}})
    url = f"http://{request.headers['host']}/"
    if request.path == PLACE:
        return answer({"entries": [_entry(url=url)]})
    return answer(card(url))


def _entry(**more: Any) -> dict[str, Any]:
    return {"identifier": "urn:air:x:agents:a", "displayName": "a", "type": CARD} | more


def _entries(way: str, inside: str) -> list[dict[str, Any]]:
    host = inside.replace("127.0.0.1", "inside.test")
    return {
        "a card": [_entry(url=f"{inside}/card")],
        "a card, by a name": [_entry(url=f"{host}/card")],
        "a catalog": [{"type": CATALOG, "url": inside + PLACE}],
        "a catalog, by a name": [{"type": CATALOG, "url": host + PLACE}],
        "a catalog in a catalog": [
            {"type": CATALOG, "data": {"entries": [{"type": CATALOG, "url": inside + PLACE}]}}
        ],
        "an interface": [_entry(data=card(f"{host}/"))],
    }[way]


CATALOGS = ["a catalog", "a catalog, by a name", "a catalog in a catalog"]


@asynccontextmanager
async def _catalog_outside(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, Any]]:
    """A public host whose catalog names something in our network, and what is there."""
    async with scripted(_inside) as inside, forward() as proxy:

        def handle(request: Any) -> bytes:
            is_catalog = request.path == PLACE
            entries = _entries(way, inside.url)
            return answer({"entries": entries}) if is_catalog else answer("", 404)

        async with scripted(handle) as peer:
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.setenv("HTTP_PROXY", proxy.url)  # by which `agent.test` is outside
            yield peer.url.replace("127.0.0.1", "agent.test"), inside


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("way", ["a card", "a card, by a name", *CATALOGS, "an interface"])
async def test_a_client_is_not_led_into_our_network(way, monkeypatch):
    async with _catalog_outside(way, monkeypatch) as (url, inside):
        client = connect(url, retry=ONCE)
        with pytest.raises(Unreachable, match="no public address"):
            await client.send("hello")
        await client.close()
        assert inside.requests == []


@pytest.mark.usefixtures("outside", "alone")
@pytest.mark.parametrize("way", ["a card", "a card, by a name", *CATALOGS, "an interface"])
@pytest.mark.parametrize("words", [["send"], ["card", "get"], ["check"], ["task", "list"]], ids=str)
async def test_the_command_line_is_not_led_there_either(words, way, monkeypatch):
    """The user gives the name of an agent. Its address is the catalog's word."""
    async with _catalog_outside(way, monkeypatch) as (url, inside):
        words = [*words, "catalog:a", *["hello"] * (words == ["send"]), "--catalog", url]
        done = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert inside.requests == []
        if way != "an interface" or words[0] in ("send", "task"):  # the others have the card
            assert done.exit_code == 3
            assert "no public address" in done.output


@pytest.mark.usefixtures("outside", "alone")
async def test_a_catalog_in_our_network_may_name_agents_there():
    async with scripted(_inside) as inside:
        words = ["send", "catalog:a", "hello", "--catalog", inside.url]
        done = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert done.exit_code == 0, done.output
