"""Credentials: what a user gives, what an agent's card asks for, and where they may go."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .choosing import Auth as Auth
    from .choosing import Chosen as Chosen
    from .choosing import certificate_of as certificate_of
    from .choosing import choose as choose
    from .credentials import NOWHERE as NOWHERE
    from .credentials import AgentPlace as AgentPlace
    from .credentials import ApiKey as ApiKey
    from .credentials import Basic as Basic
    from .credentials import Bearer as Bearer
    from .credentials import ClientCert as ClientCert
    from .credentials import Credential as Credential
    from .oauth import AuthorizationCode as AuthorizationCode
    from .oauth import ClientCredentials as ClientCredentials
    from .oauth import DeviceCode as DeviceCode
    from .oauth import DevicePrompt as DevicePrompt
    from .saved import Login as Login
    from .saved import Logins as Logins
    from .saved import SavedLogin as SavedLogin
    from .saved import log_in as log_in
    from .saved import revoke as revoke
    from .server import OAuthClient as OAuthClient
    from .server import OAuthError as OAuthError
    from .server import find_server as find_server
    from .signed import Signed as Signed
    from .signed import renewed as renewed

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
