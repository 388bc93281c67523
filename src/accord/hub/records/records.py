"""What a change of the registry is written with."""

from typing import NamedTuple

from ...store import Database
from .audit import Audit
from .changes import Changes
from .inbox import Inbox

__all__ = ["HubRecords"]


class HubRecords(NamedTuple):
    """The database, and what is written there beside an entry."""

    db: Database
    changes: Changes
    audit: Audit
    inbox: Inbox
