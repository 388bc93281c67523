"""Fixtures: an agent written in a test, served for real, and a door to it over every binding."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, settings

from accord import Agent
from tests import processes
from tests.drive import BINDINGS, Door, serving
from tests.drive_grpc import Grpc

Connect = Callable[..., AbstractAsyncContextManager[Any]]

processes.reset_signals()

# The same examples in each `make test`, others in each `make soak`. How long one takes says nothing
# on a busy machine.
settings.register_profile(
    "accord",
    derandomize=not os.environ.get("ACCORD_SOAK"),
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("accord")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long texts and bytes are no part of a test's id: some are made anew in each process, and
    tests that run in several processes must have the same ids in all of them.
    """
    return argname if isinstance(val, str | bytes) and len(val) > 32 else None


def pytest_runtest_setup() -> None:
    processes.forget_ended()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the processes of a test have written is part of the report if it fails."""
    report = yield
    if report.failed:
        report.sections.extend(processes.sections())
    return report


@pytest.fixture(autouse=True)
def _log_levels() -> Generator[None, None, None]:
    """A level that a test sets is not that of the tests after it."""
    loggers = [logging.getLogger(), logging.getLogger("accord")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def pytest_sessionfinish() -> None:
    processes.kill_all()
    if "tests.postgres" in sys.modules:
        sys.modules["tests.postgres"].stop()


@pytest.fixture(params=[*BINDINGS, "grpc"])
def connect(request: pytest.FixtureRequest) -> Connect:
    """`async with connect(agent) as client`: an agent, or a function to be its only skill, behind
    one binding after the other.

    Keywords go to `Agent.app`.
    """
    return over_grpc if request.param == "grpc" else over_http(BINDINGS[request.param])


@pytest.fixture(params=BINDINGS)
def connect_http(request: pytest.FixtureRequest) -> Connect:
    """As `connect`, over the two HTTP bindings: for what is a matter of HTTP or of JSON text."""
    return over_http(BINDINGS[request.param])


@pytest.fixture
def connect_grpc() -> Connect:
    """As `connect`, over gRPC alone."""
    return over_grpc


@pytest.fixture
def connect_rpc() -> Connect:
    """As `connect`, over JSON-RPC alone: for what only that binding has."""
    return over_http(BINDINGS["jsonrpc"])


@pytest.fixture
def connect_rest() -> Connect:
    """As `connect`, over HTTP+JSON alone."""
    return over_http(BINDINGS["rest"])


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store of every kind that needs no server of its own."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture
def lasting(tmp_path: Path) -> str:
    """The URL of a store that outlives its server."""
    return f"sqlite:///{tmp_path / 'tasks.db'}"


def over_http(door: type, serve: Callable[..., Any] = serving) -> Connect:
    """What connects to an agent over an HTTP binding, served by our own server or by `serve`."""

    @asynccontextmanager
    async def connect(agent: Any, **options: Any) -> AsyncIterator[Door]:
        if not isinstance(agent, Agent):
            skill, agent = agent, Agent("Test agent")
            agent.skill(skill)
        app = agent.app(**options)
        async with serve(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
            client = door(http, url)
            try:
                yield client
            finally:
                client.hang_up()

    return connect


@asynccontextmanager
async def over_grpc(agent: Any, door: type = Grpc, **options: Any) -> AsyncIterator[Door]:
    if not isinstance(agent, Agent):
        skill, agent = agent, Agent("Test agent")
        agent.skill(skill)
    app = agent.app(grpc_port=0, **options)
    async with serving(app, app.close) as url, aiohttp.ClientSession(trust_env=False) as http:
        await app.open()
        client: Any = door(http, url, f"127.0.0.1:{app.grpc_port}")
        try:
            yield client
        finally:
            client.hang_up()
            await client.channel.close()
