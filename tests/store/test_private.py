"""What holds tasks, keys or logins is for the user who runs the program, whatever their umask."""

import os
from pathlib import Path

import pytest

from accord import Agent
from accord.client import connect
from accord.client.auth import Login, Logins
from accord.private import private_opener
from tests.cli.shell import accord
from tests.hub.hubs import hub_at

pytestmark = pytest.mark.skipif(os.name != "posix", reason="has no such permissions")


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def echo() -> Agent:
    agent = Agent("Echo")

    @agent.skill
    async def say(text: str) -> str:
        return text

    return agent


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")
    }


def is_private(found: dict[str, int]) -> bool:
    return bool(found) and set(found.values()) <= {0o600, 0o700}


async def test_the_files_of_an_agent(tmp_path):
    """The database, what SQLite has beside it, the lock, the keys, a backup; and new folders."""
    store = f"sqlite:///{tmp_path}/new/folder/tasks.db"
    async with echo().app(store=store, sign_card=True).serving() as url, connect(url) as client:
        await client.send("hello")
        (tmp_path / "copies").mkdir(mode=0o700)
        backup = tmp_path / "copies" / "backup.db"
        assert accord("db", "backup", str(backup), "--store", store).code == 0
        found = modes(tmp_path)
    assert {name for name in found if "tasks.db" in name} >= {
        f"new/folder/tasks.db{end}" for end in ("", "-wal", "-shm", "-lock")
    }
    assert is_private(found), found


async def test_a_database_that_others_can_use_is_named_in_the_log(tmp_path, caplog):
    """It may be meant: a group that makes backups. So it stays as it is."""
    path = tmp_path / "tasks.db"
    path.touch(0o644)
    async with echo().app(store=f"sqlite:///{path}").serving():
        assert path.stat().st_mode & 0o777 == 0o644
    [line] = [one.getMessage() for one in caplog.records if "other users" in one.getMessage()]
    assert f"chmod 600 {path}" in line


async def test_the_files_of_a_hub(tmp_path):
    """Its registry, its tasks, its keys, the admin's key."""
    async with hub_at(tmp_path):
        found = modes(tmp_path)
    assert "hub.admin" in found
    assert is_private(found), found


def test_logins(tmp_path, monkeypatch):
    """Those of the command line, in a folder that was not there."""
    monkeypatch.setenv("ACCORD_LOGINS", str(tmp_path / "config" / "accord" / "logins.json"))
    Logins().put("https://hr.corp.example", Login("key", secret="s3cret"))
    assert is_private(modes(tmp_path))


def test_a_file_that_others_could_read_is_private_once_a_new_secret_is_in_it(tmp_path):
    path = tmp_path / "hub.admin"
    path.write_text("old")
    path.chmod(0o644)
    with open(path, "w", opener=private_opener) as out:
        out.write("new")
    assert path.stat().st_mode & 0o777 == 0o600
