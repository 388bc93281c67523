"""Talking to agents."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports
from ..protocol import BindingName as BindingName
from ..protocol import PreviewNumber as PreviewNumber
from ..protocol import VersionNumber as VersionNumber
from .auth import ApiKey as ApiKey
from .auth import Basic as Basic
from .auth import Bearer as Bearer
from .auth import ClientCert as ClientCert
from .budget import Budget as Budget
from .client import Client as Client
from .connect import agent_url as agent_url
from .connect import connect as connect
from .conversation import Conversation as Conversation
from .discovery import Cards as Cards
from .errors import AgentFault as AgentFault
from .errors import BadAnswer as BadAnswer
from .errors import BadCard as BadCard
from .errors import CallFailed as CallFailed
from .errors import ConnectionLost as ConnectionLost
from .errors import TooSlow as TooSlow
from .errors import Unreachable as Unreachable
from .errors import UntrustedCard as UntrustedCard
from .errors import task_of as task_of
from .questions import MovedOn as MovedOn
from .questions import still_asks as still_asks
from .reply import ClientReply as ClientReply
from .reply import answering as answering
from .retry import NO_RETRY as NO_RETRY
from .retry import Pause as Pause
from .retry import Retry as Retry
from .retry import is_interrupted as is_interrupted
from .streams import Gap as Gap
from .streams import Stream as Stream
from .streams import catch_up as catch_up

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
    __getattr__, __dir__ = lazy_imports(__name__)
    # For users: docs/stability.md promises these. The other names are for the rest of Accord, and
    # type checkers must find those too.
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
        "Client",
        "ClientCert",
        "ClientCredentials",
        "ClientReply",
        "ConnectionLost",
        "Conversation",
        "DeviceCode",
        "DevicePrompt",
        "Gap",
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
        "connect",
        "connect_sync",
    ]
