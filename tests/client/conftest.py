"""Fixtures: our client and an agent of ours, over every version and binding there is."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from accord import Agent, Limits
from accord.client import Client, connect
from accord.protocol import BindingName, VersionNumber
from tests.drive import serving

Reach = Callable[..., AbstractAsyncContextManager[Client]]

DOORS: dict[str, tuple[BindingName, VersionNumber]] = {
    "jsonrpc-1.0": ("JSONRPC", "1.0"),
    "rest-1.0": ("HTTP+JSON", "1.0"),
    "grpc-1.0": ("GRPC", "1.0"),
    "jsonrpc-0.3": ("JSONRPC", "0.3"),
    "rest-0.3": ("HTTP+JSON", "0.3"),
    "grpc-0.3": ("GRPC", "0.3"),
    "jsonrpc-0.2": ("JSONRPC", "0.2"),
    "jsonrpc-0.1": ("JSONRPC", "0.1"),
}


# Those of the next version, which have to be asked for.
PREVIEWS: dict[str, tuple[BindingName, VersionNumber]] = {
    "jsonrpc-1.1": ("JSONRPC", "1.1"),
    "rest-1.1": ("HTTP+JSON", "1.1"),
    "grpc-1.1": ("GRPC", "1.1"),
}


def _reach(binding: BindingName, version: VersionNumber) -> Reach:
    @asynccontextmanager
    async def reach(
        skill: Any, *, limits: Limits | None = None, push: bool = True, **options: Any
    ) -> AsyncIterator[Client]:
        agent = skill
        if not isinstance(skill, Agent):
            agent = Agent("Test agent")
            agent.skill(skill)
        served: dict[str, Any] = {"grpc_port": 0} if binding == "GRPC" else {}
        if version == "1.1":
            served["previews"] = options["previews"] = ["1.1"]
        app = agent.app(limits=limits, push=push, **served)
        async with serving(app, app.close) as url:
            await app.open()
            async with connect(url, binding=binding, version=version, **options) as client:
                yield client

    return reach


@pytest.fixture(params=DOORS)
def reach(request: pytest.FixtureRequest) -> Reach:
    """`async with reach(skill) as client`: our client and a served agent, over one door after the
    other.
    """
    return _reach(*DOORS[request.param])


@pytest.fixture(params=DOORS | PREVIEWS)
def reach_any(request: pytest.FixtureRequest) -> Reach:
    """As `reach`, over the doors of the next version too."""
    return _reach(*(DOORS | PREVIEWS)[request.param])


@pytest.fixture(params=[name for name in DOORS if name.endswith("1.0")])
def reach_new(request: pytest.FixtureRequest) -> Reach:
    """As `reach`, for what only 1.0 has."""
    return _reach(*DOORS[request.param])
