"""Logins of browsers in a file that a server uses; what all stores promise is in the kit."""

from accord.store.sqlite.logins import SqliteLogins
from accord.store.sqlite.store import SqliteStore
from accord.testing.store_suite.browser_logins import ADA, LINK
from tests.store.conftest import Box


async def test_a_link_is_made_while_a_server_uses_the_file(file_box: Box) -> None:
    """By a command, which does not hold the file."""
    assert isinstance(file_box.store, SqliteStore)
    await file_box.store.logins.add(ADA)
    beside = SqliteLogins(file_box.store.path)
    await beside.prepare()
    await beside.add(LINK)
    assert await beside.remove("s1")
    beside.close()
    assert await file_box.store.logins.list() == [LINK]
