"""The busy agent behind a relay, in one process: what holds of an agent holds of its relay."""

import importlib

from accord import Agent
from accord.client import Client, connect
from accord.engine.skills import definition_of
from accord.relay import RequestContext

_busy: Agent = importlib.import_module("busy").agent  # beside this file
_app = _busy.app()
_clients: list[Client] = []


async def _connect(context: RequestContext) -> Client:
    if not _clients:
        _clients.append(connect(_app))
    return _clients[0]


async def _close() -> None:
    for client in _clients:
        await client.close()


agent = Agent.proxy(_app.card("http://localhost"), connect=_connect)
definition_of(agent).on_close.append(_close)
