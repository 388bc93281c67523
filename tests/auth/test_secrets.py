"""Secrets are in no log, error, card or command output, at any level, and in no row.

Each is put where it may come from, with a mark of its own in it; then the mark is looked for in
everything that came out. What a skill raises is in the log, which is the operator's, and is never
sent to a client.
"""

import base64
import logging
import secrets
import sys
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web

from accord import Agent, Caller, Context, Limits
from accord.auth import (
    ApiKeys,
    Basic,
    Bearer,
    Credentials,
    OAuth2,
    digest_of,
    new_api_key,
    scheme,
)
from accord.model import HTTPAuthSecurityScheme, SecurityScheme, now_ms
from accord.operations.table import VERSIONS
from accord.store import StoredApiKey, open_store
from tests.auth.matrix import Asked, GrpcDoor, Http, RestDoor, RpcDoor
from tests.auth.tokens import AUDIENCE, ISSUER, jwks, made, token
from tests.processes import start

UNLIMITED = Limits(calls_per_s=1e9, calls_burst=10**9, failed_logins=10**9)


class Marks(dict):
    """Marks by where they were put."""

    def __missing__(self, what: str) -> str:
        self[what] = f"mark{secrets.token_hex(12)}"  # a word that is nowhere else
        return self[what]

    def found_in(self, text: bytes | str, *but: str) -> list[str]:
        data = text.encode() if isinstance(text, str) else text
        return [what for what, word in self.items() if word.encode() in data and what not in but]


class Issuer:
    """Says of every token that it is not active; what it is asked is in `asked`."""

    async def start(self) -> web.AppRunner:
        self.asked: list[str] = []
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.metadata)
        app.router.add_post("/introspect", self.introspect)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = "http://127.0.0.1:%d" % runner.addresses[0][1]
        return runner

    async def metadata(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"issuer": self.url, "introspection_endpoint": f"{self.url}/introspect"}
        )

    async def introspect(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers["Authorization"].removeprefix("Basic "))
        return web.json_response({"active": False})


@pytest.fixture
async def issuer():
    issuer = Issuer()
    runner = await issuer.start()
    yield issuer
    await runner.cleanup()


def agent_with(marks, key, issuer):
    card = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Session"))

    @scheme(card, name="own")
    async def own(request: Credentials) -> Caller | None:
        if request.header("X-Own") == "raise":
            raise RuntimeError(marks["raised by a check"])
        return None

    auth = (
        ApiKeys(keys={marks["a fixed key"] + "0" * 16: "ci"})
        | ApiKeys(query="key", name="query")
        | ApiKeys(cookie="session", name="cookie")
        | Basic({"ada": marks["a password"]})
        | Bearer(jwks(key), issuer=ISSUER, audience=AUDIENCE)
        | OAuth2(
            issuer.url,
            audience="hr",
            token_url=f"{issuer.url}/token",
            client_id="us",
            client_secret=marks["a client secret"],
        )
        | own
    )
    agent = Agent("HR", auth=auth)

    @agent.skill
    async def work(text: str, ctx: Context) -> str:
        raise RuntimeError(marks["raised by a skill"])

    @agent.extended_card
    def extend(card, caller):
        raise RuntimeError(marks["raised by the card"])

    return agent


async def test_no_secret_comes_out(tmp_path, issuer, caplog):
    """Every credential, right and wrong, over every binding and version, with the log at its
    lowest level.
    """
    caplog.set_level(1)
    logging.getLogger("accord").setLevel(1)
    marks, answers = Marks(), []
    key = made(tmp_path, "ES256", "k1")
    path = tmp_path / "tasks.db"
    store = open_store(f"sqlite:///{path}")
    await store.keys.prepare()
    id_, stored = new_api_key()
    marks["a stored key"] = stored.split("_")[2]
    await store.keys.add(StoredApiKey(id_, "mia", digest_of(stored), now_ms()))
    valid, wrong = token(key, jti=marks["a claim"]), marks["a wrong token"]
    marks["a token"] = valid.split(".")[2]

    def basic(word):
        text = base64.b64encode(f"ada:{word}".encode()).decode()
        marks["basic " + word] = text
        return {"Authorization": f"Basic {text}"}

    shown = [
        {"X-API-Key": stored},
        {"X-API-Key": marks["a fixed key"] + "0" * 16},
        {"X-API-Key": marks["a wrong key"]},
        {"X-API-Key": f"accord_{id_}_{marks['a forged key']}"},
        {"Cookie": f"session={marks['a cookie']}"},
        {"Cookie": f"session={stored}"},
        basic(marks["a password"]),
        basic(marks["a wrong password"]),
        {"Authorization": f"Bearer {valid}"},
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": f"Bearer {valid[:-4]}{marks['a signature']}"},
        {"Authorization": f"{marks['an unknown scheme']} x"},
        {"Authorization": "Session x", "X-Own": "raise"},
        {"X-Other": marks["another header"]},
    ]
    agent = agent_with(marks, key, issuer)
    app = agent.app(store=store, grpc_port=0, limits=UNLIMITED)
    await app.open()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
        ways: list[Any] = [RpcDoor(app, version) for version in VERSIONS]
        ways += [RestDoor(app, version) for version in VERSIONS if version.rest]
        ways += [GrpcDoor(channel, version) for version in VERSIONS if version.grpc]
        for way in ways:
            for credentials in shown:
                for operation in ("SendMessage", "GetExtendedAgentCard", "GetTask"):
                    if operation in way.methods:
                        asked = Asked(task="nobody" if operation == "GetTask" else "")
                        answers.append(await way.ask(operation, asked, credentials))
        http = Http(app)
        for query in (f"key={stored}", f"key={marks['a key in a query']}"):
            answers.append(await http.ask("GET", f"/tasks?{query}", {"A2A-Version": "1.0"}, None))
        answers.append(await http.ask("GET", "/.well-known/agent-card.json", {}, None))
    await app.close()
    assert {answer.kind for answer in answers} >= {"ok", "401", "TASK_NOT_FOUND"}
    assert marks["a client secret"].encode() in base64.b64decode(issuer.asked[0])
    for answer in answers:
        text = answer.body + repr(answer.headers).encode()
        assert marks.found_in(text) == [], text
    raised = ("raised by a check", "raised by a skill", "raised by the card")
    assert set(marks.found_in(caplog.text)) == set(raised)
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("tasks.db*"))
    # Claims are the caller's, no credentials. What a skill raises is kept for operators.
    assert set(marks.found_in(kept)) <= {"a claim", "raised by a skill"}


AGENT = """
import os
from accord import Agent
from accord.auth import ApiKeys

agent = Agent("HR", auth=ApiKeys(keys={os.environ["HR_KEY"]: "ci"}))

@agent.skill
async def echo(text: str) -> str:
    return text
"""


async def test_no_secret_is_printed_by_the_server(tmp_path, monkeypatch):
    """`accord serve --log-level debug`: nothing of what was sent or configured."""
    marks = Marks()
    (tmp_path / "hr.py").write_text(AGENT)
    monkeypatch.setenv("HR_KEY", marks["a key"])
    command = ("accord", "serve", "hr.py", "--port", "0", "--log-level", "debug")
    async with aiohttp.ClientSession(trust_env=False) as session:
        with start(sys.executable, "-m", *command, cwd=tmp_path) as server:
            url = next(word for word in server.line_sync().split() if word.startswith("http"))
            for headers, expected in (
                ({"X-API-Key": marks["a key"], "A2A-Version": "1.0"}, 200),
                ({"X-API-Key": marks["a wrong key"]}, 401),
            ):
                place = f"{url}/tasks?x={marks['a query']}"
                async with session.get(place, headers=headers) as response:
                    assert response.status == expected
            server.stop_sync()
            assert marks.found_in(server.shown) == []
