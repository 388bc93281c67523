"""Talking to agents."""

from typing import TYPE_CHECKING

from ..lazy import lazy
from ..protocol import BindingName, PreviewNumber, VersionNumber
from .auth import ApiKey, Basic, Bearer, ClientCert
from .budget import Budget
from .client import Client
from .connect import agent_url, connect
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
from .questions import MovedOn, still_asks
from .reply import ClientReply, answering
from .retry import NO_RETRY, Pause, Retry, is_interrupted
from .streams import Gap, Stream, catch_up

if TYPE_CHECKING:
    from .auth import AuthorizationCode as AuthorizationCode
    from .auth import ClientCredentials as ClientCredentials
    from .auth import DeviceCode as DeviceCode
    from .auth import DevicePrompt as DevicePrompt
    from .auth import OAuthError as OAuthError
    from .auth import SavedLogin as SavedLogin
    from .interfaces import card_at_origin as card_at_origin
    from .interfaces import origin_of_interface as origin_of_interface
    from .sync_types import connect_sync as connect_sync

# What only some need, and brings more with it.
if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "AuthorizationCode": "auth",
            "ClientCredentials": "auth",
            "DeviceCode": "auth",
            "DevicePrompt": "auth",
            "OAuthError": "auth",
            "SavedLogin": "auth",
            "card_at_origin": "interfaces",
            "connect_sync": "sync",
            "origin_of_interface": "interfaces",
        },
    )

__all__ = [
    "NO_RETRY",
    "AgentFault",
    "ApiKey",
    "AuthorizationCode",
    "BadAnswer",
    "BadCard",
    "Basic",
    "Bearer",
    "BindingName",
    "Budget",
    "CallFailed",
    "Cards",
    "Client",
    "ClientCert",
    "ClientCredentials",
    "ClientReply",
    "ConnectionLost",
    "Conversation",
    "DeviceCode",
    "DevicePrompt",
    "Gap",
    "MovedOn",
    "OAuthError",
    "Pause",
    "PreviewNumber",
    "Retry",
    "SavedLogin",
    "Stream",
    "TooSlow",
    "Unreachable",
    "UntrustedCard",
    "VersionNumber",
    "agent_url",
    "answering",
    "card_at_origin",
    "catch_up",
    "connect",
    "connect_sync",
    "is_interrupted",
    "origin_of_interface",
    "still_asks",
    "task_of",
]
