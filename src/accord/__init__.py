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
    from .model import Artifact as Artifact
    from .model import Limits as Limits
    from .model import Message as Message
    from .model import Part as Part
    from .model import Task as Task
    from .run.context import Context as Context
    from .run.parts import Ask as Ask
    from .run.parts import File as File
    from .run.parts import Reply as Reply
    from .run.upkeep import Retention as Retention
    from .wire.tls import Tls as Tls

_WHERE = {
    "Agent": "agent",
    "Artifact": "model",
    "Ask": "run.parts",
    "Caller": "auth",
    "Context": "run.context",
    "File": "run.parts",
    "Limits": "model",
    "Message": "model",
    "Part": "model",
    "Reply": "run.parts",
    "Retention": "run.upkeep",
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
