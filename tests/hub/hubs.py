"""Hubs for tests: a real hub, real agents, and who calls them."""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from accord import Agent
from accord.hub import Hub, HubRole, HubSettings
from accord.hub.access import SYSTEM

__all__ = ["Answer", "Desk", "agent_named", "hub_at", "serving_card"]


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]
    raw: bytes

    @property
    def reason(self) -> str:
        return str(self.body["error"]["reason"])


class Desk:
    """A hub that is served, and its REST interface as different people see it."""

    def __init__(self, hub: Hub, url: str, http: aiohttp.ClientSession) -> None:
        self.hub, self.url, self._http = hub, url, http
        self.keys: dict[str, str] = {"admin": hub.admin_key, "guest": ""}

    async def key(self, name: str, role: str = "user", *teams: str) -> str:
        _, text = await self.hub.principals.new_key(SYSTEM, name, HubRole(role), teams)
        self.keys[name] = text
        return text

    async def call(
        self, verb: str, path: str, body: Any = None, *, by: str = "admin", **headers: str
    ) -> Answer:
        """Call the REST interface as one of the people a key was made for."""
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.keys[by]:
            lines["X-API-Key"] = self.keys[by]
        where = self.url + ("" if path.startswith("/.") else "/api/v1") + path
        async with self._http.request(verb, where, json=body, headers=lines) as answer:
            raw = await answer.read()
            try:
                value = json.loads(raw) if raw else None
            except ValueError:
                value = None
            return Answer(answer.status, value, answer.headers, raw)

    async def add(self, url: str = "", *, by: str = "admin", **more: Any) -> Any:
        answer = await self.call("POST", "/agents", {"url": url, **more}, by=by)
        assert answer.status == 201, answer.body
        return answer.body

    async def approve(self, entry: Any) -> Any:
        """Approve the first card of an entry, as an admin; it has its own name from then on."""
        answer = await self.call("POST", f"/agents/{entry['name']}/cards/1:approve")
        assert answer.status == 200, answer.body
        return answer.body


@contextlib.asynccontextmanager
async def hub_at(folder: Path, **settings: Any) -> AsyncIterator[Desk]:
    """A hub that keeps its things in a folder, or in the `store` of the settings; with its console
    if `console` is among them, and with `limits`.
    """
    usual: dict[str, Any] = {
        "store": f"sqlite:///{folder}/hub.db",
        "folder": str(folder),
        "poll_s": 0.2,
        "tick_s": 0.0,  # no rounds of probes, unless a test asks for them
    }
    has_console = settings.pop("console", False)
    limits = settings.pop("limits", None)
    hub = Hub(HubSettings(**(usual | settings)), limits)
    if has_console:
        hub.console()
    async with hub.app.serving() as url, aiohttp.ClientSession() as http:
        yield Desk(hub, url, http)


def agent_named(name: str = "Echo") -> Agent:
    agent = Agent(name, description="Says it again.")

    @agent.skill
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    return agent


class CardServer:
    """Serves a card that a test may change."""

    def __init__(self) -> None:
        self.url = ""
        self.card: Any = {}
        self.status = 200
        self.asked: list[Mapping[str, str]] = []
        self.etag = ""

    def base(self, **more: Any) -> Any:
        """A plain card at this server."""
        return {
            "name": "Baker",
            "description": "Bakes.",
            "version": "1",
            "supportedInterfaces": [
                {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain", "application/json"],
            "skills": [
                {"id": "bake", "name": "Bake", "description": "Bakes bread.", "tags": ["food"]},
                {"id": "sell", "name": "Sell", "description": "Sells bread.", "tags": ["money"]},
            ],
        } | more


@contextlib.asynccontextmanager
async def serving_card() -> AsyncIterator[CardServer]:
    from aiohttp import web

    server = CardServer()

    async def answer(request: web.Request) -> web.Response:
        server.asked.append(dict(request.headers))
        if not request.path.endswith("/agent-card.json"):
            return web.Response(status=404)
        if server.etag and request.headers.get("If-None-Match") == server.etag:
            return web.Response(status=304)
        body = server.card if isinstance(server.card, bytes) else json.dumps(server.card).encode()
        headers = {"ETag": server.etag} if server.etag else {}
        return web.Response(
            status=server.status, body=body, content_type="application/json", headers=headers
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        server.card = server.base()
        yield server
    finally:
        await runner.cleanup()
