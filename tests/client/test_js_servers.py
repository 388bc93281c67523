"""Our client and agents built with @a2a-js/sdk, 0.3 and 1.x, over every version and binding they
serve.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.client import connect
from accord.model import InvalidParams, InvalidRequest
from tests.client.clerk import Contract, Hooks, ListedHooks, started

JS = Path(__file__).parent.parent / "legacy" / "js"
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(
        shutil.which("node") is None,
        reason="the JavaScript servers need Node.js, which is not installed",
    ),
]


@pytest.fixture(scope="module")
def old_url() -> Iterator[str]:
    with running("server_0_3.mjs") as url:
        yield url


@pytest.fixture(scope="module")
def new_url() -> Iterator[str]:
    with running("server_1.mjs") as url:
        yield url


def running(script: str):
    assert (JS / "node_modules" / "express").is_dir(), (
        "the JavaScript packages are not installed; `make test` does it"
    )
    return started("node", JS / script)


class TestOldJs(Contract, Hooks, ListedHooks):
    """@a2a-js/sdk 0.3."""

    finished = (
        InvalidRequest,
        InvalidParams,
    )  # over gRPC it says the second, for want of the first

    @pytest.fixture
    def url(self, old_url):
        return old_url

    @pytest.fixture(params=BINDINGS)
    def door(self, request) -> tuple[str, str]:
        return request.param, "0.3"


class TestNewJs(Contract, Hooks, ListedHooks):
    """@a2a-js/sdk 1.x, which serves 0.3 beside 1.0."""

    @pytest.fixture
    def url(self, new_url):
        return new_url

    @pytest.fixture(
        params=[(binding, version) for version in ("1.0", "0.3") for binding in BINDINGS],
        ids="-".join,
    )
    def door(self, request) -> tuple[str, str]:
        return request.param


@pytest.mark.parametrize("binding", BINDINGS)
async def test_tasks_are_listed(new_url, binding):
    """1.0 lists tasks, page after page; others' tests left some there too."""
    async with connect(new_url, binding=binding, version="1.0") as client:
        sent = {(await client.send(str(i))).task_id for i in range(3)}
        listed = [task.id async for task in client.list(page_size=2)]
    assert sent <= set(listed)
    assert len(listed) == len(set(listed))


async def test_the_old_agents_order_decides(old_url):
    """Told nothing but the URL, the client speaks what the card prefers."""
    async with connect(old_url) as client:
        reply = await client.send("hello")
        assert (client.binding, client.version, client.notes) == ("JSONRPC", "0.3", [])
    assert reply.text == "heard hello"


async def test_the_new_agents_order_decides(new_url):
    """This agent has one card per version, and gives the new one to who asks for it (spec
    VER-2).
    """
    async with connect(new_url) as client:
        reply = await client.send("hello")
        assert (client.binding, client.version, client.notes) == ("JSONRPC", "1.0", [])
    assert reply.text == "heard hello"
