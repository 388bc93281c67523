"""Talking to agents."""

from .auth import ApiKey, Basic, Bearer, ClientCert
from .budget import Budget
from .client import Client
from .connect import connect
from .conversation import Conversation
from .discovery import Cards
from .errors import (
    AgentFault,
    BadAnswer,
    BadCard,
    CallFailed,
    ConnectionLost,
    TooSlow,
    Unreachable,
    UntrustedCard,
    task_of,
)
from .reply import ClientReply
from .retry import NO_RETRY, Pause, Retry, is_interrupted
from .streams import Gap, Stream
from .sync import connect_sync

__all__ = [
    "NO_RETRY",
    "AgentFault",
    "ApiKey",
    "BadAnswer",
    "BadCard",
    "Basic",
    "Bearer",
    "Budget",
    "CallFailed",
    "Cards",
    "Client",
    "ClientCert",
    "ClientReply",
    "ConnectionLost",
    "Conversation",
    "Gap",
    "Pause",
    "Retry",
    "Stream",
    "TooSlow",
    "Unreachable",
    "UntrustedCard",
    "connect",
    "connect_sync",
    "is_interrupted",
    "task_of",
]
