"""Who may do what through the hub: every operation, by every way in, for every kind of caller.

The table is that of the agents themselves: a relayed task is as much its caller's own. All callers
share the hub's one credential at the agent.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from accord import Agent, Ask
from accord.auth import ApiKeys
from accord.hub import Hub, HubSettings
from accord.hub.access.principals import SYSTEM, HubRole
from accord.hub.api import ApiRoute
from accord.model import now_ms
from accord.operations import OPERATIONS
from accord.operations.table import VERSIONS
from tests.auth.matrix import Asked, GrpcDoor, Http, RestDoor, RpcDoor
from tests.auth.test_matrix import OK, ROWS, STRANGERS, UNLIMITED, cell, expectation
from tests.hub.ways import WayIn, ways_in
from tests.relay.relays import served

SECRET = "s3cret-of-the-hub-0000"
# What a person is to an entry for the team hr: owner of a task, another member, or nobody.
UNAUTHENTICATED = ("anonymous", "unknown key", "revoked key")
OUTSIDE = ("other team", "publisher")  # for whom the entry is not there


def waiting_agent() -> Agent:
    agent = Agent("Desk", auth=ApiKeys(keys={SECRET: "hub"}))

    @agent.skill
    async def ask(text: str) -> Ask:
        return Ask("More?")

    return agent


class HubWorld:
    """A hub with an agent for the team hr, and keys of different people."""

    path = "/agents/desk"

    def __init__(self, hub: Hub, channel: grpc.aio.Channel) -> None:
        self.hub, self.app, self._channel = hub, hub.app, channel

    def ways(self, name: str = "desk") -> list[WayIn]:
        return ways_in(self.app, self._channel, name)

    def root_ways(self) -> list[Any]:
        """Every way into the hub's own agent."""
        found: list[Any] = []
        for version in VERSIONS:
            found.append(RpcDoor(self.app, version))
            if version.rest:
                found.append(RestDoor(self.app, version))
            if version.grpc:
                found.append(GrpcDoor(self._channel, version))
        return found

    async def callers(self) -> dict[str, dict[str, str]]:
        principals, found = self.hub.principals, dict[str, dict[str, str]]()
        for name, role, teams in (
            ("owner", "user", ("hr",)),
            ("other user", "user", ("hr",)),
            ("other team", "user", ("it",)),
            ("publisher", "publisher", ()),
            ("revoked key", "user", ("hr",)),
        ):
            id_, text = await principals.new_key(SYSTEM, name, HubRole(role), teams)
            found[name] = {"X-API-Key": text}
            if name == "revoked key":
                await principals.keys.revoke(id_, now_ms())
        found["admin"] = {"X-API-Key": self.hub.admin_key}
        found["anonymous"] = {}
        found["unknown key"] = {"X-API-Key": f"accord_{secrets.token_hex(6)}_{'0' * 32}"}
        return found


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[HubWorld]:
    settings = HubSettings(
        store=f"sqlite:///{tmp_path}/hub.db",
        folder=str(tmp_path),
        allow=("127.0.0.1",),
        guests="see",
        grpc_port=0,
        tick_s=0.0,
    )
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(waiting_agent()))
        hub = Hub(settings, UNLIMITED)
        await hub.app.open()
        stack.push_async_callback(hub.app.close)
        key = {"X-API-Key": hub.admin_key}
        new = {"url": url, "name": "desk", "visibility": "team", "team": "hr"}
        secret = {"kind": "api_key", "secret": SECRET}
        for verb, path, body in (
            ("POST", "/agents", new),
            ("PUT", "/agents/desk/credentials/apiKey", secret),
        ):
            answer = await Http(hub.app).ask(verb, f"/api/v1{path}", key, body)
            assert answer.status < 300, answer
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{hub.app.grpc_port}")
        stack.push_async_callback(channel.close)
        yield HubWorld(hub, channel)


# As each binding and version says it.
UNSUPPORTED = ("UNSUPPORTED_OPERATION", "-32004", "400", "FAILED_PRECONDITION")


@pytest.mark.parametrize("place", ["an entry", "the hub as one agent"])
async def test_the_matrix_through_the_hub(world, place, capsys):
    """Every cell is what the table of agents says; a task of another is as if it were not there,
    byte for byte, also for an admin.
    """
    people = await world.callers()
    callers = {"owner": people["owner"], STRANGERS[0]: people["other user"]}
    callers[STRANGERS[1]] = people["admin"]
    ways, kinds = world.ways(), ["owner", STRANGERS[0]]
    if place != "an entry":
        world.path, ways, kinds = "/", world.root_ways(), [STRANGERS[1]]
        world.hub.route(lambda message, caller: "desk/ask")
    wrong, tried = [], 0
    for way in ways:
        for title, row in ROWS.items():
            if row.operation not in way.methods:
                continue
            for kind in kinds:
                tried += 1
                found = await cell(world, ways[0], way, title, row, kind, callers)
                expected = expectation(way, title, row, kind)
                if row.asked == "fork" and kind == "owner":
                    # Its steps are with the agent, so a relay can't fork.
                    expected = found if found in UNSUPPORTED else "refused"
                if found != expected:
                    wrong.append(f"{way.name}, {title}, {kind}: {found}, not {expected}")
            for kind in UNAUTHENTICATED if place == "an entry" else ():
                tried += 1
                answer = await way.ask(row.operation, Asked("1", "1"), people[kind])
                # By tenant, an entry that guests may not see is one that is not there.
                is_tenant = way.name.startswith("grpc") and kind == "anonymous"
                is_hidden = answer.status == 5 and b"no agent 'desk' here" in answer.body
                if not (is_hidden if is_tenant else answer.kind == "401"):
                    wrong.append(f"{way.name}, {title}, {kind}: {answer}")
    assert wrong == [], "\n".join(wrong)
    with capsys.disabled():
        print(f"\nmatrix through the hub, {place}: {tried} cells, {len(ways)} ways in, 0 wrong")
    assert tried >= 100


async def test_a_hidden_entry_is_as_if_it_were_missing_by_every_way_in(world, capsys):
    """Byte for byte, for every operation: with and without a login."""
    callers = await world.callers()
    compared = 0
    for hidden, missing in zip(world.ways("desk"), world.ways("none"), strict=True):
        for operation in OPERATIONS:
            if operation not in hidden.methods:
                continue
            for kind in (*OUTSIDE, *UNAUTHENTICATED):
                asked = Asked("t1", "c1", text="hello")
                one = await hidden.ask(operation, asked, callers[kind])
                other = await missing.ask(operation, asked, callers[kind])
                assert one.kind != OK, (hidden.name, operation, kind, one)
                assert one.without("desk") == other.without("none"), (hidden.name, operation, kind)
                compared += 1
    with capsys.disabled():
        print(f"\nhidden = missing: {compared} pairs of answers are equal, by 7 ways in")
    assert compared >= 250


def test_a_route_says_who_may_use_it():
    """There is no default: a route without a permission can't be written."""

    async def run(call: Any) -> None: ...

    with pytest.raises(TypeError, match="may"):
        ApiRoute(verb="GET", path="/x", run=run, summary="x")  # type: ignore[call-arg]
