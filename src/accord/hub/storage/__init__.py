"""What the hub stores: its database, the caches of it, the audit log and the inbox."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .audit import FLUSH_S as FLUSH_S
    from .audit import Audit as Audit
    from .audit import RefusedGuests as RefusedGuests
    from .changes import Changes as Changes
    from .db import Database as Database
    from .db import Row as Row
    from .db import Transaction as Transaction
    from .db import open_database as open_database
    from .inbox import Inbox as Inbox

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Audit": "audit",
            "FLUSH_S": "audit",
            "RefusedGuests": "audit",
            "Changes": "changes",
            "Database": "db",
            "Inbox": "inbox",
            "Row": "db",
            "Transaction": "db",
            "open_database": "db",
        },
    )
