"""The hub: one address for every agent. A registry of agents, who may see and call them, and the
REST interface to it.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .access import HubRole as HubRole
    from .access import Principal as Principal
    from .hub import Hub as Hub
    from .registration import SelfRegistration as SelfRegistration
    from .registry import CardVersion as CardVersion
    from .registry import Entry as Entry
    from .registry import EntrySettings as EntrySettings
    from .registry import EntryState as EntryState
    from .registry import Health as Health
    from .registry import Registry as Registry
    from .registry import Visibility as Visibility
    from .rest import HubRefused as HubRefused
    from .rest import RestClient as RestClient
    from .rest import find_key as find_key
    from .rest import known_origins as known_origins
    from .settings import HubSettings as HubSettings

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
