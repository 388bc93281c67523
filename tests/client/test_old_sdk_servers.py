"""Our client and an agent built with a2a-sdk 0.3, over every binding it serves, in a process and
environment of its own.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accord.client import Client, connect
from accord.model import InvalidParams, MethodNotFound
from tests.client.clerk import Contract, Hooks, ListedHooks, started

HERE = Path(__file__).parent
PYTHON = HERE.parent.parent / ".venv-03" / "bin" / "python"
DOORS = ["JSONRPC", "HTTP+JSON", "GRPC"]

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    assert PYTHON.exists(), (
        "a2a-sdk 0.3 lives in .venv-03; `make .venv-03/.done` makes it, `make test` too"
    )
    with started(PYTHON, HERE / "clerk_sdk03.py") as url:
        yield url


class TestOldSdk(Contract, Hooks):
    """All of it, over all of them."""

    finished = InvalidParams

    @pytest.fixture(params=DOORS)
    def door(self, request) -> tuple[str, str]:
        return request.param, "0.3"


class TestOldSdkHooks(ListedHooks):
    """Lists of webhooks are left out of its HTTP+JSON and gRPC."""

    @pytest.fixture
    async def client(self, url) -> AsyncIterator[Client]:
        async with connect(url, binding="JSONRPC") as client:
            yield client


async def test_a_path_it_does_not_have_is_no_missing_task(url):
    """A bare 404 means an unknown task only where there is one in the request."""
    async with connect(url, binding="HTTP+JSON") as client:
        with pytest.raises(MethodNotFound):
            await client.extended_card()


async def test_the_agents_order_decides(url):
    """Told nothing but the URL, the client speaks what the card prefers."""
    async with connect(url) as client:
        reply = await client.send("hello")
        assert (client.binding, client.version, client.notes) == ("JSONRPC", "0.3", [])
    assert reply.text == "heard hello"
