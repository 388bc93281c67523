"""The hub: one address for every agent. A registry of agents, who may see and call them, and the
REST interface to it.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

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
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "CardVersion": "registry",
            "Entry": "registry",
            "EntrySettings": "registry",
            "EntryState": "registry",
            "Health": "registry",
            "SelfRegistration": "registration",
            "Hub": "hub",
            "HubRefused": "rest",
            "HubSettings": "settings",
            "Principal": "access",
            "Registry": "registry",
            "RestClient": "rest",
            "HubRole": "access",
            "Visibility": "registry",
            "find_key": "rest",
            "known_origins": "rest",
        },
    )
