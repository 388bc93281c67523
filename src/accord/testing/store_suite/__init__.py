"""A conformance kit for stores: what `accord.store.Store` promises, as checks that any store can be
put through.

Say how processes that use your store are started and killed, and run each check on a new, empty
place:

    import pytest

    from accord.testing import store_suite

    class MyProcesses:
        is_shared = True                                    # several processes at once

        def __init__(self) -> None:
            self.database = new_empty_database()

        def make(self):
            return MyStore(self.database)

        async def kill(self, store) -> None:
            await store.declare_dead()

        def outage(self, store):
            return self.database.unreachable()              # a block; None if it never is

        async def close(self) -> None:
            self.database.drop()

    @pytest.mark.parametrize("check", store_suite.CHECKS, ids=lambda check: check.name)
    async def test_my_store(check):
        async with store_suite.opened(MyProcesses()) as box:
            await check.run(box)
"""

from . import (
    api_keys,
    browser_logins,
    commits,
    conversations,
    due,
    lists,
    outages,
    samples,
    stored_files,
    tasks,
    webhooks,
)
from .box import CHECKS, Box, Processes, StoreCheck, opened

__all__ = [
    "CHECKS",
    "Box",
    "Processes",
    "StoreCheck",
    "api_keys",
    "browser_logins",
    "commits",
    "conversations",
    "due",
    "lists",
    "opened",
    "outages",
    "samples",
    "stored_files",
    "tasks",
    "webhooks",
]
