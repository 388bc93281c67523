"""Who may do what: every operation, in every binding and version, by every kind of caller.

A table under review. A new operation, method or route without a row fails.
"""

import contextlib
import json
import secrets

import grpc
import msgspec
import pytest

from accord import Agent, Ask, Caller, Limits
from accord.auth import ApiKeys, Bearer, digest_of, new_api_key
from accord.model import now_ms
from accord.operations import OPERATIONS
from accord.operations.table import VERSIONS
from accord.store import StoredApiKey, open_store
from tests.auth.matrix import Asked, GrpcDoor, Http, RestDoor, RpcDoor
from tests.auth.tokens import (
    AUDIENCE,
    ISSUER,
    forged,
    hmac_signed,
    jwks,
    made,
    public_pem,
    token,
)

# What a cell may be: `ok`; `own` (works, on the caller's own things, of which there are none);
# `hidden` (as if it were not there); a status of HTTP.
OK, OWN, HIDDEN = "ok", "own", "hidden"


class Row(msgspec.Struct):
    """One way to use an operation, and what comes of it for its owner and for other callers."""

    operation: str
    asked: str  # which fields name something of the owner's
    owner: str
    stranger: str


ROWS = {
    "send new": Row("SendMessage", "", OK, OWN),
    "send to a task": Row("SendMessage", "task", OK, HIDDEN),
    "send into a context": Row("SendMessage", "context", OK, OWN),
    "send with a reference": Row("SendMessage", "reference", OK, OWN),
    "fork": Row("SendMessage", "fork", OK, HIDDEN),
    "stream new": Row("SendStreamingMessage", "", OK, OWN),
    "stream to a task": Row("SendStreamingMessage", "task", OK, HIDDEN),
    "stream a fork": Row("SendStreamingMessage", "fork", OK, HIDDEN),
    "get": Row("GetTask", "task", OK, HIDDEN),
    "list": Row("ListTasks", "", OK, OWN),
    "list a context": Row("ListTasks", "context", OK, OWN),
    "list with a page token": Row("ListTasks", "page_token", OK, HIDDEN),
    "cancel": Row("CancelTask", "task", OK, HIDDEN),
    "subscribe": Row("SubscribeToTask", "task", OK, HIDDEN),
    "create push config": Row("CreateTaskPushNotificationConfig", "task", OK, HIDDEN),
    "get push config": Row("GetTaskPushNotificationConfig", "task", OK, HIDDEN),
    "list push configs": Row("ListTaskPushNotificationConfigs", "task", OK, HIDDEN),
    "delete push config": Row("DeleteTaskPushNotificationConfig", "task", OK, HIDDEN),
    "extended card": Row("GetExtendedAgentCard", "", OK, OK),
    "card over gRPC": Row("GetAgentCard", "", OK, OK),
}

# In 0.1 clients choose the id of a task: one that another has is free for them.
EXCEPTIONS = {
    ("jsonrpc 0.1", "send to a task"): OWN,
    ("jsonrpc 0.1", "stream to a task"): OWN,
}
PUBLIC = {"GetAgentCard"}  # also without credentials: the public card

STRANGERS = ("other user", "same user, other tenant", "other tenant")
UNAUTHENTICATED = (
    "anonymous",
    "expired",
    "wrong audience",
    "wrong issuer",
    "algorithm none",
    "HMAC with the public key",
    "unknown key id",
    "revoked key",
)
UNLIMITED = Limits(calls_per_s=1e9, calls_burst=10**9, failed_logins=10**9, tasks_per_caller=10**9)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


class World:
    """An agent, its callers, and every way to it."""

    path = "/"  # of its JSON-RPC

    def __init__(self, folder):
        self.key = made(folder, "RS256", "k1")
        self.stranger = made(folder, "RS256", "k2")
        auth = Bearer(
            jwks(self.key), issuer=ISSUER, audience=AUDIENCE, scopes=["use"], tenant="org"
        )
        self.agent = agent = Agent("HR", auth=auth | ApiKeys())

        @agent.skill
        async def ask(text: str, caller: Caller):
            return Ask("More?")

        @agent.extended_card
        def extend(card, caller):
            card.description = f"for {caller.tenant}/{caller.name}"
            return card

        self.store = open_store("memory://")
        self.app = agent.app(
            store=self.store, grpc_port=0, limits=UNLIMITED, allow_hosts=["127.0.0.1"]
        )

    def token(self, **changes):
        return bearer(token(self.key, **{"scope": "use", "org": "acme"} | changes))

    async def callers(self):
        id_, revoked = new_api_key()
        await self.store.keys.add(StoredApiKey(id_, "mia", digest_of(revoked), now_ms()))
        await self.store.keys.revoke(id_, now_ms())
        return {
            "owner": self.token(),
            "other user": self.token(sub="bob"),
            "same user, other tenant": self.token(org="other"),
            "other tenant": self.token(sub="bob", org="other"),
            "anonymous": {},
            "expired": self.token(exp=1),
            "wrong audience": self.token(aud="other"),
            "wrong issuer": self.token(iss="https://evil.example"),
            "missing scope": self.token(scope="other"),
            "algorithm none": bearer(forged({"alg": "none"}, scope="use", org="acme")),
            "HMAC with the public key": bearer(
                hmac_signed(public_pem(self.key), "k1", scope="use", org="acme")
            ),
            "unknown key id": bearer(token(self.stranger, scope="use", org="acme")),
            "revoked key": {"X-API-Key": revoked},
        }

    def ways(self, channel):
        for version in VERSIONS:
            yield RpcDoor(self.app, version)
            if version.rest:
                yield RestDoor(self.app, version)
            if version.grpc:
                yield GrpcDoor(channel, version)


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    await world.app.open()
    yield world
    await world.app.close()


async def things(rpc, owner):
    """What the owner has: a task that waits for it, and enough others for a second page."""
    sent = await rpc.ask("SendMessage", Asked(), owner)
    task = json.loads(sent.body)["result"]["task"]
    return task["id"], task["contextId"]


async def page_token(world, owner):
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1}}
    answer = await Http(world.app).ask("POST", world.path, {"A2A-Version": "1.0"} | owner, body)
    return json.loads(answer.body)["result"]["nextPageToken"]


def named(row, task="", context="", reference="", page=""):
    values = {"task": task, "context": context, "reference": reference, "page_token": page}
    values["fork"] = task
    return Asked(**{row.asked: values[row.asked]}) if row.asked else Asked()


def test_every_operation_has_a_row():
    """Who adds one says here who may use it."""
    assert {row.operation for row in ROWS.values()} == set(OPERATIONS)


def test_every_method_and_route_leads_to_an_operation():
    """So that none can be reached by a name the table does not know."""
    reached = {
        operation
        for version in VERSIONS
        for operation in (
            *version.rpc.values(),
            *(route.operation for route in version.rest),
            *version.grpc.values(),
        )
    }
    assert reached == set(OPERATIONS)


async def test_the_matrix(world):
    """Every cell is what the table says; what is hidden can't be told from what is not there
    (AUT-4, GEN-4).
    """
    callers = await world.callers()
    assert set(callers) == {"owner", "missing scope", *STRANGERS, *UNAUTHENTICATED}
    wrong, tried = [], 0
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{world.app.grpc_port}")
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(channel.close)
        ways = list(world.ways(channel))
        rpc = ways[0]
        for way in ways:
            for title, row in ROWS.items():
                if row.operation not in way.methods:
                    continue
                for kind in callers:
                    tried += 1
                    found = await cell(world, rpc, way, title, row, kind, callers)
                    expected = expectation(way, title, row, kind)
                    if found != expected:
                        wrong.append(f"{way.name}, {title}, {kind}: {found}, not {expected}")
    assert wrong == []
    assert tried > 800


def expectation(way, title, row, kind):
    if kind == "owner":
        return row.owner
    if kind in STRANGERS:
        return EXCEPTIONS.get((way.name, title), row.stranger)
    if row.operation in PUBLIC and kind == "anonymous":
        return OK
    return "403" if kind == "missing scope" else "401"


async def cell(world, rpc, way, title, row, kind, callers):
    """Try one cell; return what came of it, in the words of the table."""
    owner, credentials = callers["owner"], callers[kind]
    task, context = await things(rpc, owner)
    if "PushNotificationConfig" in row.operation and not row.operation.startswith("Create"):
        await rpc.ask("CreateTaskPushNotificationConfig", Asked(task), owner)
    real = named(row, task, context, task, "")
    if row.asked == "page_token":
        real = Asked(page_token=await page_token(world, owner))
    answer = await way.ask(row.operation, real, credentials)
    if kind not in STRANGERS or answer.kind in ("401", "403"):
        return answer.kind
    if row.stranger == OK:
        return answer.kind
    # The same of something that never was: the two must not differ in a byte.
    never = "0" * 8 + task[8:] if row.asked != "page_token" else secrets.token_hex(20)
    missing = await way.ask(row.operation, named(row, never, never, never, never), credentials)
    if row.asked in ("task", "fork", "page_token"):
        same = answer.without(task, real.page_token or task) == missing.without(never)
        if EXCEPTIONS.get((way.name, title)) == OWN:
            return OWN if answer.kind == missing.kind == OK else f"{answer} {missing}"
        if answer.kind == OK or not same:
            return f"told apart: {answer} {missing}"
        return HIDDEN
    if answer.kind != OK or missing.kind != OK:
        return f"{answer.kind}: {answer.body!r}"
    if row.operation == "ListTasks" and task.encode() in answer.body:
        return f"shows another's task: {answer.body!r}"
    return OWN
