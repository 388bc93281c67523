"""Checks of whole agents: ours get all points, other makers' what is known of them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from accord import Agent
from accord.auth import ApiKeys
from accord.check import CHECKS, CheckReport, run_checks
from accord.client import ApiKey
from tests.client.clerk import started
from tests.client.sdk import serving_sdk
from tests.drive import serving
from tests.preview.test_client import Stranger

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 30.0


def echo(**options: Any) -> Agent:
    agent = Agent("Echo", description="Echoes.", **options)

    @agent.skill
    async def echo(request: str) -> str:
        """Echo what is said."""
        return request

    return agent


def failures(report: CheckReport) -> set[tuple[str, str]]:
    """What failed: the check, and the binding and version it failed at."""
    return {(r.id, " ".join(r.interface.split()[:2])) for r in report.failed}


def test_the_points_are_those_of_the_groups():
    """25 checks, 100 points."""
    groups: dict[str, int] = {}
    for check in CHECKS.values():
        groups[check.group] = groups.get(check.group, 0) + check.points
    assert (len(CHECKS), groups) == (
        25,
        {"card": 20, "reach": 25, "send": 30, "stream": 15, "rest": 10},
    )


async def test_our_agents_get_all_points():
    """Over every version and binding an agent offers, with the evidence of each check."""
    app = echo().app(grpc_port=0)
    async with serving(app, app.close) as url:
        report = await run_checks(url, timeout_s=PATIENCE_S)
    assert (failures(report), report.score, report.agent) == (set(), 100, "Echo")
    bindings = {" ".join(r.interface.split()[:2]) for r in report.results if r.interface}
    assert bindings == {
        f"{binding} {version}"
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
        for version in ("1.0", "0.3")
    }
    assert all(r.request and r.answer for r in report.results if r.status == "pass")


async def test_a_preview_is_checked_if_asked_for():
    """And its own checks are made there alone."""
    app = echo().app(grpc_port=0, previews=["1.1"])
    async with serving(app, app.close) as url:
        report = await run_checks(url, timeout_s=PATIENCE_S, previews=["1.1"])
    assert (failures(report), report.score) == (set(), 100)
    for id_ in ("rest.generation", "rest.match"):
        passed = [r for r in report.results if r.id == id_ and r.status == "pass"]
        assert {r.interface.split()[1] for r in passed} == {"1.1"}
    assert len({r.interface for r in report.results if " 1.1 " in r.interface}) == 3


@pytest.mark.parametrize(
    ("state", "generation", "wrong"),
    [
        ("COMPLETED", None, {"rest.generation"}),  # which has no generations to compare
        ("COMPLETED", "3", {"rest.match"}),
        ("INPUT_REQUIRED", "3", {"rest.match"}),
    ],
)
async def test_an_agent_that_only_says_it_speaks_a_preview(state, generation, wrong):
    """It takes a message for any generation."""
    task = {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}
    if generation is not None:
        task["generation"] = generation
    stranger = Stranger([{"task": task}], task, streaming=False)
    async with stranger.client() as client:
        report = await run_checks(client.url, timeout_s=PATIENCE_S, previews=["1.1"])
    failed = {r.id for r in report.results if r.status == "fail"}
    assert failed & {"rest.generation", "rest.match"} == wrong


@pytest.mark.parametrize("version", ["0.2", "0.1"])
async def test_versions_no_card_of_ours_lists(version):
    """They are served, and checked if asked for."""
    app = echo().app()
    async with serving(app, app.close) as url:
        report = await run_checks(url, version=version, timeout_s=PATIENCE_S)
    assert (failures(report), report.score) == (set(), 100)


async def test_an_agent_in_this_process():
    """No server is needed: in tests of one's own agent."""
    report = await run_checks(echo(), timeout_s=PATIENCE_S)
    assert (failures(report), report.score) == (set(), 100)


async def test_a_locked_agent_is_checked_with_a_credential():
    """Without one, the checks that need it do not apply, and the report says why."""
    app = echo(auth=ApiKeys(keys={"secret-key-of-ada-32": "ada"})).app()
    async with serving(app, app.close) as url:
        closed = await run_checks(url, timeout_s=PATIENCE_S)
        opened = await run_checks(url, auth=ApiKey("secret-key-of-ada-32"), timeout_s=PATIENCE_S)
    assert (closed.category, failures(closed)) == ("LOCKED", set())
    assert (opened.category, failures(opened), opened.score) == ("", set(), 100)
    assert not any("secret-key-of-ada-32" in r.request + r.answer for r in opened.results)


# What is known of other makers' servers, each looked into by hand.
#
# - a2a-sdk 1.x serves a request for an unknown version over gRPC: only its HTTP routes look.
# - Its HTTP+JSON 0.3 breaks a subscription to an unknown task off, after HTTP 200; so does
#   a2a-sdk 0.3 itself.
# - a2a-sdk 0.3 answers the list of push configs with HTTP 500 over HTTP+JSON, and does not
#   implement it over gRPC.
# - @a2a-js/sdk 0.3 answers such a subscription with HTTP 500 and "Bug: …".
# - A send without a message is -32600 to JSON-RPC 0.3 of a2a-sdk 1.x, an internal error to a2a-sdk
#   0.3 over HTTP+JSON and gRPC, and to @a2a-js/sdk 0.3 over JSON-RPC and gRPC.
# - @a2a-js/sdk 0.3 answers a body of text/plain with a parse error or HTTP 500.


async def test_a2a_sdk_1():
    async with serving_sdk() as url:
        report = await run_checks(url, timeout_s=PATIENCE_S)
    assert failures(report) == {
        ("reach.version", "GRPC 1.0"),
        ("reach.params", "JSONRPC 0.3"),
        ("stream.subscribe", "HTTP+JSON 0.3"),
    }


async def test_a2a_sdk_0_3():
    python = ROOT / ".venv-03" / "bin" / "python"
    assert python.exists(), "a2a-sdk 0.3 lives in .venv-03; `make test` makes it"
    with started(python, ROOT / "tests" / "client" / "clerk_sdk03.py") as url:
        report = await run_checks(url, timeout_s=PATIENCE_S)
    assert failures(report) == {
        ("reach.params", "HTTP+JSON 0.3"),
        ("reach.params", "GRPC 0.3"),
        ("stream.subscribe", "HTTP+JSON 0.3"),
        ("rest.push", "HTTP+JSON 0.3"),
        ("rest.push", "GRPC 0.3"),
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "server_0_3.mjs",
            {
                ("reach.params", "JSONRPC 0.3"),
                ("reach.params", "GRPC 0.3"),
                ("reach.body", "JSONRPC 0.3"),
                ("reach.body", "HTTP+JSON 0.3"),
                ("stream.subscribe", "HTTP+JSON 0.3"),
            },
        ),
        ("server_1.mjs", set()),
    ],
)
async def test_js_sdk(script, expected):
    with started("node", ROOT / "tests" / "legacy" / "js" / script) as url:
        report = await run_checks(url, timeout_s=PATIENCE_S)
    assert failures(report) == expected
