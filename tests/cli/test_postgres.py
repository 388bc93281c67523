"""accord db and accord replicas on PostgreSQL, while a server uses it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from accord import Agent
from accord.client import connect
from accord.store.migrations import newest
from tests.cli.shell import accord, found
from tests.postgres import base_url, execute, programs, schema_url
from tests.processes import run_sync


@pytest.fixture
def url() -> Iterator[str]:
    with schema_url() as url:
        yield url


def used(url: str, *commands: tuple[str, ...]) -> list[str]:
    """What commands say while a server with ten tasks uses the store; each must work."""
    agent = Agent("Echo")

    @agent.skill
    async def echo(text: str) -> str:
        return text

    async def use() -> list[str]:
        app = agent.app(store=url)
        async with app.lifespan(), connect(app) as client:
            await asyncio.gather(*(client.send(f"hello {n}") for n in range(10)))
            said = []
            for words in commands:
                done = await asyncio.to_thread(accord, *words, "--store", url)
                assert done.code == 0, done.err
                said.append(done.out)
            return said

    return asyncio.run(use())


def test_a_database_is_looked_after_while_it_is_used(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    file = tmp_path / "tasks.dump"
    stats, vacuum, migrate, backup, replicas = used(
        url,
        ("db", "stats"),
        ("db", "vacuum"),
        ("db", "migrate"),
        ("db", "backup", str(file)),
        ("replicas", "list"),
    )
    assert file.stat().st_mode & 0o777 == 0o600
    assert "10 tasks" in stats
    assert "completed" in stats
    assert "bytes before" in vacuum
    assert "the schema is the newest" in migrate
    assert file.read_bytes().startswith(b"PGDMP")
    assert f"{file.stat().st_size:,} bytes" in backup
    assert found(r"(\d+) +alive +0 ", replicas) == "1"
    after = accord("replicas", "list", "--store", url)
    assert "dead" in after.out


def test_an_older_release_goes_on_beside_a_newer_schema_unless_that_says_it_can_not(
    url: str,
) -> None:
    used(url)
    schema, later = found(r"schema=(\w+)", url), newest() + 1
    execute(f"INSERT INTO {schema}.migrations VALUES ('tasks', {later}, 20, 0)")
    (stats,) = used(url, ("db", "stats"))
    assert "20 tasks" in stats
    execute(f"UPDATE {schema}.migrations SET needs = {later} WHERE version = {later}")
    with pytest.raises(RuntimeError, match="changed by a newer release"):
        used(url)
    done = accord("db", "stats", "--store", url)
    assert (done.code, "changed by a newer release" in done.err) == (1, True)


@pytest.mark.parametrize("verb", ["stats", "migrate", "vacuum"])
def test_a_schema_from_before_the_first_release_is_refused(url: str, verb: str) -> None:
    used(url)
    schema = found(r"schema=(\w+)", url)
    execute(f"UPDATE {schema}.migrations SET version = version - 20")
    done = accord("db", verb, "--store", url)
    assert (done.code, "before the first release; move it away" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            "UPDATE {s}.migrations SET version = version - 9",
            "before the first release; move it away",
        ),
        ("ALTER TABLE {s}.migrations DROP COLUMN part", "before the first release; move it away"),
        ("UPDATE {s}.migrations SET needs = 99", "changed by a newer release"),
        ("DROP TABLE {s}.migrations", "is not a backup of a store"),
    ],
)
def test_a_backup_that_this_release_can_not_use_replaces_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, said: str
) -> None:
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    schema, file = found(r"schema=(\w+)", url), tmp_path / "other.dump"
    used(url)
    execute(made.replace("{s}", schema))
    dump = ["pg_dump", "--format=custom", f"--schema={schema}", f"--file={file}", base_url()]
    assert run_sync(*dump).code == 0
    execute(f"DROP SCHEMA {schema} CASCADE")
    used(url)
    done = accord("db", "restore", str(file), "--replace", "--store", url)
    assert (done.code, said in done.err) == (1, True), done.err
    assert "10 tasks" in accord("db", "stats", "--store", url).out


def test_what_is_wrong_is_said_plainly(url: str, tmp_path: Path) -> None:
    """Without a traceback, and without the password."""
    done = accord("db", "stats", "--store", url)
    assert (done.code, "accord serve makes one" in done.err) == (1, True)
    done = accord("db", "stats", "--store", "postgresql://me:secret@127.0.0.1:1/db")
    assert done.code == 1
    assert "can't be used" in done.err
    assert "secret" not in done.err
    done = accord("replicas", "list", "--store", f"sqlite:///{tmp_path}/t.db")
    assert (done.code, "one process" in done.err) == (1, True)


@pytest.mark.parametrize("command", ["serve", "hub"])
def test_a_server_without_its_database_says_one_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends: whoever started it tries again."""
    agent = tmp_path / "echo.py"
    agent.write_text(
        "from accord import Agent\n\nagent = Agent('Echo')\n\n"
        "@agent.skill\nasync def echo(text: str) -> str:\n    return text\n"
    )
    served = (str(agent),) if command == "serve" else ()
    store = "postgresql://me:secret@127.0.0.1:1/db"
    monkeypatch.setenv("ACCORD_KEY", accord("keyring", "new").out.strip())
    done = accord(command, *served, "--port", "0", "--store", store)
    assert done.code == 1
    (said,) = done.err.splitlines()
    assert said.startswith("Error: the database can't be used: postgresql://me@127.0.0.1:1/db")


async def _version(url: str) -> str:
    db = await asyncpg.connect(url)
    try:
        return str(await db.fetchval("SHOW server_version")).split()[0]
    finally:
        await db.close()


def test_doctor_looks_at_a_database(url: str) -> None:
    """As a replica would, before one depends on it. Behind a pooler the role must have settings
    that a replica otherwise sets itself.
    """
    direct = accord("doctor", "--store", url)
    assert direct.code == 0
    assert "connections are free" in direct.out
    version = asyncio.run(_version(base_url()))
    assert f"PostgreSQL {version}\n" in direct.out
    assert "ALTER ROLE" not in direct.out
    pooled = accord("doctor", "--store", f"{url}&pooler=on")
    assert pooled.code == 1
    statement = "ALTER ROLE postgres SET idle_in_transaction_session_timeout = '10s'"
    assert f"bad   the role lacks a setting: {statement}" in pooled.out
    gone = accord("doctor", "--store", "postgresql://me:secret@127.0.0.1:1/db")
    assert gone.code == 1
    assert "the database can't be used" in gone.out
    assert "secret" not in gone.out
