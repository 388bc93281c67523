"""What the hub writes down: the audit log, the inbox, and how caches follow the database."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .audit import KEEP_S as KEEP_S
    from .audit import Audit as Audit
    from .changes import Change as Change
    from .changes import Changes as Changes
    from .inbox import Inbox as Inbox
    from .records import HubRecords as HubRecords
    from .refusals import FLUSH_S as FLUSH_S
    from .refusals import Refusals as Refusals

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
