"""Agents of other libraries behind a relay: callers see of them what they see directly."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accord import Agent
from accord.client import Client, connect
from accord.engine.skills import definition_of
from accord.protocol import BindingName, VersionNumber
from accord.relay import fetch_card
from tests.client.clerk import Contract, Hooks, ListedHooks, started
from tests.relay.relays import served

ROOT = Path(__file__).parents[2]


class Relayed(Contract, Hooks, ListedHooks):
    """The life of a task, through a relay, which adds webhooks and their lists."""

    @pytest.fixture
    async def client(
        self, url: str, door: tuple[BindingName, VersionNumber]
    ) -> AsyncIterator[Client]:
        binding, version = door
        made = await connect(url, binding=binding, version=version)
        assert (made.binding, made.version) == door

        async def call(context: object) -> Client:
            return made

        relay = Agent.proxy(fetch_card(url), connect=call)
        definition_of(relay).on_close.append(made.close)
        front = served(relay, allow_hosts=["127.0.0.1"])
        async with front as address, connect(address) as client:
            yield client


@pytest.fixture(scope="module")
def sdk03() -> Iterator[str]:
    with started(ROOT / ".venv-03/bin/python", ROOT / "tests/client/clerk_sdk03.py") as url:
        yield url


@pytest.fixture(scope="module")
def js() -> Iterator[str]:
    if shutil.which("node") is None:
        pytest.skip("the JavaScript server needs Node.js, which is not installed")
    with started("node", ROOT / "tests/legacy/js/server_1.mjs") as url:
        yield url


class TestOldSdk(Relayed):
    """a2a-sdk 0.3."""

    @pytest.fixture
    def url(self, sdk03: str) -> str:
        return sdk03

    @pytest.fixture
    def door(self) -> tuple[str, str]:
        return "GRPC", "0.3"


class TestJs(Relayed):
    """@a2a-js/sdk 1.x."""

    @pytest.fixture
    def url(self, js: str) -> str:
        return js

    @pytest.fixture
    def door(self) -> tuple[str, str]:
        return "HTTP+JSON", "1.0"
