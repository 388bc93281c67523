"""Accord: Agent2Agent (A2A) for Python.

The names load on first use, so that a server does not pay for the client, nor the client for the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .auth import Caller as Caller
    from .client import connect as connect
    from .client import connect_sync as connect_sync
    from .engine.runs.upkeep import Retention as Retention
    from .engine.skills.context import Context as Context
    from .engine.skills.values import Ask as Ask
    from .engine.skills.values import File as File
    from .engine.skills.values import Reply as Reply
    from .model import Artifact as Artifact
    from .model import Limits as Limits
    from .model import Message as Message
    from .model import Part as Part
    from .model import Task as Task
    from .wire.tls import Tls as Tls

_WHERE = {
    "Agent": "agent",
    "Artifact": "model",
    "Ask": "engine.skills.values",
    "Caller": "auth",
    "Context": "engine.skills.context",
    "File": "engine.skills.values",
    "Limits": "model",
    "Message": "model",
    "Part": "model",
    "Reply": "engine.skills.values",
    "Retention": "engine.runs.upkeep",
    "Task": "model",
    "Tls": "wire.tls",
    "connect": "client",
    "connect_sync": "client",
}

__all__ = [
    "Agent",
    "Artifact",
    "Ask",
    "Caller",
    "Context",
    "File",
    "Limits",
    "Message",
    "Part",
    "Reply",
    "Retention",
    "Task",
    "Tls",
    "connect",
    "connect_sync",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'accord' has no attribute {name!r}")
    value = getattr(import_module(f".{where}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
