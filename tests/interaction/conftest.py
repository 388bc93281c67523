"""Every HTTP binding here is tried twice: on our own server, and on uvicorn through `agent.app()`.
What a client sees must not depend on who serves.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Connect, over_grpc, over_http
from tests.drive import BINDINGS, serving, serving_asgi

SERVERS: dict[str, Callable[..., Any]] = {"own": serving, "uvicorn": serving_asgi}
PLACES = {
    f"{binding}-{server}": over_http(BINDINGS[binding], SERVERS[server])
    for binding in BINDINGS
    for server in SERVERS
}


@pytest.fixture(params=[*PLACES.values(), over_grpc], ids=[*PLACES, "grpc"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """As tests/conftest.py has it, on both servers."""
    return request.param


@pytest.fixture(params=[*PLACES.values()], ids=[*PLACES])
def connect_http(request: pytest.FixtureRequest) -> Connect:
    return request.param


@pytest.fixture(params=[*SERVERS.values()], ids=[*SERVERS])
def connect_rpc(request: pytest.FixtureRequest) -> Connect:
    return over_http(BINDINGS["jsonrpc"], request.param)


@pytest.fixture(params=[*SERVERS.values()], ids=[*SERVERS])
def connect_rest(request: pytest.FixtureRequest) -> Connect:
    return over_http(BINDINGS["rest"], request.param)
