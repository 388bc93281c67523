"""API keys, in every store."""

import contextlib
import sqlite3

import pytest

from accord.model import Unavailable
from accord.store.contract import CommitFailed
from accord.store.postgres.store import PostgresStore
from accord.store.sqlite.keys import SqliteKeys
from accord.store.sqlite.store import SqliteStore
from accord.testing.store_suite.api_keys import MIA
from tests.store.conftest import Box


async def test_a_key_is_made_while_a_server_uses_the_file(file_box: Box) -> None:
    """By another process, which does not hold the file."""
    assert isinstance(file_box.store, SqliteStore)
    other = SqliteKeys(file_box.store.path)
    await other.prepare()
    await other.add(MIA)
    assert await file_box.store.keys.find("k1") == MIA
    await other.revoke("k1", 5_000)
    found = await file_box.store.keys.find("k1")
    assert found is not None
    assert found.revoked_ms == 5_000
    other.close()


async def test_keys_may_be_made_before_the_first_start(tmp_path) -> None:
    """The file is made then, and the server takes it up."""
    keys = SqliteKeys(tmp_path / "new" / "tasks.db")
    await keys.prepare()
    await keys.add(MIA)
    keys.close()
    store = SqliteStore(keys.path)
    await store.open(lambda tasks: None)
    assert await store.keys.find("k1") == MIA
    await store.close()


async def test_a_file_of_somebody_else_is_left_alone(tmp_path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    with pytest.raises(RuntimeError, match="is not a database"):
        await SqliteKeys(tmp_path / "notes.txt").prepare()


async def test_keys_are_there_without_an_open_store(postgres_url: str) -> None:
    """As `accord key` uses them; a replica that runs finds them, and sees a revocation."""
    keys = PostgresStore(postgres_url).keys
    await keys.prepare()
    await keys.add(MIA)
    store = PostgresStore(postgres_url)
    await store.open(lambda tasks: None)
    assert await store.keys.find("k1") == MIA
    assert await keys.revoke("k1", 5_000)
    found = await store.keys.find("k1")
    assert found is not None
    assert found.revoked_ms == 5_000
    await store.close()


async def test_keys_that_can_not_be_read_now_are_unavailable(file_box: Box) -> None:
    """Whoever shows one is told to come back, and not that the server has failed."""
    assert file_box.path is not None
    with contextlib.closing(sqlite3.connect(file_box.path)) as db:
        db.execute("ALTER TABLE api_keys RENAME TO gone")
        db.commit()
    with pytest.raises(Unavailable):
        await file_box.store.keys.find("k1")
    with pytest.raises(CommitFailed):
        await file_box.store.keys.add(MIA)
