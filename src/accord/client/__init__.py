"""Talking to agents."""

from .auth import ApiKey, Basic, Bearer, ClientCert
from .budget import Budget
from .client import Client
from .connect import connect
from .conversation import Conversation
from .discover import Cards
from .errors import AgentFault, BadAnswer, BadCard, ConnectionLost, TooSlow, Unreachable
from .reply import Reply
from .resume import Stream
from .retry import Retry
from .seen import Gap
from .sync import connect_sync

__all__ = [
    "AgentFault",
    "ApiKey",
    "BadAnswer",
    "BadCard",
    "Basic",
    "Bearer",
    "Budget",
    "Cards",
    "Client",
    "ClientCert",
    "ConnectionLost",
    "Conversation",
    "Gap",
    "Reply",
    "Retry",
    "Stream",
    "TooSlow",
    "Unreachable",
    "connect",
    "connect_sync",
]
