"""The hub: one address for every agent. A registry of agents, who may see and call them, and the
REST interface to it.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from .db import Database as Database
    from .db import open_database as open_database
    from .entries import CardVersion as CardVersion
    from .entries import Entry as Entry
    from .entries import EntrySettings as EntrySettings
    from .entries import EntryState as EntryState
    from .entries import Health as Health
    from .entries import Visibility as Visibility
    from .hub import Hub as Hub
    from .people import HubRole as HubRole
    from .people import Person as Person
    from .registration import SelfRegistration as SelfRegistration
    from .registry import Registry as Registry
    from .rest import HubRefused as HubRefused
    from .rest import RestClient as RestClient
    from .rest import find_key as find_key
    from .settings import HubSettings as HubSettings

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__ = lazy(
        __name__,
        {
            "CardVersion": "entries",
            "Database": "db",
            "Entry": "entries",
            "EntrySettings": "entries",
            "EntryState": "entries",
            "Health": "entries",
            "SelfRegistration": "registration",
            "Hub": "hub",
            "HubRefused": "rest",
            "HubSettings": "settings",
            "Person": "people",
            "Registry": "registry",
            "RestClient": "rest",
            "HubRole": "people",
            "Visibility": "entries",
            "find_key": "rest",
            "open_database": "db",
        },
    )
