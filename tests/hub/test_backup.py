"""A hub that was backed up comes back as it was, on SQLite and on PostgreSQL."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from accord import connect
from tests import postgres
from tests.cli.shell import COMMAND, accord, found
from tests.hub.hubs import Desk, agent_named, hub_at, serving_card
from tests.postgres import programs
from tests.processes import fork, until

SECRET = "a-secret-of-an-agent"
TABLES = (
    *("agents", "cards", "members", "users", "teams", "policies", "credentials", "trusted_keys"),
    *("networks", "alerts", "audit", "probes", "hours", "checks", "relays", "rounds"),
)
PEM = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""


async def run(*words: str) -> str:
    done = await asyncio.to_thread(accord, *words)
    assert done.code == 0, done.err
    return done.out


async def all_of(desk: Desk) -> dict[str, Any]:
    """What the hub's tables hold."""
    held = {}
    for table in TABLES:
        rows = await desk.hub.db.fetch(f"SELECT * FROM {table}")
        held[table] = sorted(repr(sorted(row.items())) for row in rows)
    return held


async def fill(desk: Desk, url: str, server: Any) -> str:
    """Make one of everything; return the id of a task."""
    await desk.add(url)
    await desk.add(server.url, visibility="team", team="hr", settings={"changes": "pin"})
    await desk.call("POST", "/agents", {"card": server.base(name="Halted")})
    await desk.call("POST", "/agents/halted:suspend")
    await desk.call("POST", "/agents", {"card": server.base(name="Gone")})
    await desk.call("DELETE", "/agents/gone")
    await desk.key("pub", "publisher", "hr")
    await desk.call("POST", "/agents", {"card": server.base(name="Waits")}, by="pub")
    server.card = server.base(description="Bakes, and more.")
    await desk.call("POST", "/agents/baker:refresh")
    made = [
        ("PUT", "/agents/baker/credentials/key", {"kind": "bearer", "secret": SECRET}),
        ("POST", "/teams", {"name": "hr"}),
        ("PUT", "/users/ada", {"role": "publisher", "teams": ["hr"]}),
        ("POST", "/networks", {"what": "10.9.0.0/16", "why": "lab"}),
        ("POST", "/trusted-keys", {"name": "us", "pem": PEM}),
        ("POST", "/policies", {"who": "team:hr", "what": "agent:baker", "effect": "deny"}),
    ]
    for verb, path, body in made:
        answer = await desk.call(verb, path, body)
        assert answer.status < 300, (path, answer.body)
    async with connect(f"{desk.url}/agents/echo") as client:
        task = (await client.send("hi")).task
    await desk.hub.traces.flush()  # else its row is stored within a second, maybe after the backup
    return task.id


def states(desk: Desk) -> dict[str, tuple[str, int, int]]:
    return {
        entry.name.partition("-")[0]: (entry.state.value, entry.approved, entry.latest)
        for entry in desk.hub.registry.all()
    }


async def test_a_hub_comes_back_as_it_was(tmp_path, store, monkeypatch):
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    url = store["store"]
    file, keys = tmp_path / "monday", store.get("key_file") or f"{tmp_path}/hub.db.keys"
    options = ("--store", url, "--key-file", keys)
    async with agent_named().app().serving() as agent, serving_card() as server:
        async with hub_at(tmp_path, **store) as desk:
            task = await fill(desk, agent, server)
            told = await run("db", "backup", f"{file}-without", *options)
            assert f"need the keys in {keys}" in told
            # A sealed credential opens with the keys alone.
            assert str(file) in await run("db", "backup", str(file), "--with-keys", *options)
            before, were, admin = await all_of(desk), states(desk), desk.keys["admin"]
            assert were["baker"] == ("approved", 1, 2)
            assert (were["halted"][0], were["waits"][0]) == ("suspended", "pending")
            await desk.call("POST", "/agents/halted:resume")
            await desk.call("DELETE", "/agents/baker")
            used = await asyncio.to_thread(
                accord, "db", "restore", str(file), "--replace", *options
            )
            assert (used.code, "is in use by" in used.err) == (1, True)
        there = await asyncio.to_thread(accord, "db", "restore", str(file), *options)
        assert (there.code, "--replace" in there.err) == (1, True)
        await asyncio.to_thread(Path(keys).unlink)
        assert f"its keys are in {keys}" in await run(
            "db", "restore", str(file), "--replace", *options
        )
        async with hub_at(tmp_path, **store) as desk:
            assert desk.keys["admin"] == admin, "the key of the local admin is valid still"
            # The log says that it is an older one.
            shortened = "DELETE FROM audit WHERE did = 'audit.shortened'"
            assert await desk.hub.audit.verify() == ""
            assert await desk.hub.db.execute(shortened) == 1
            assert await all_of(desk) == before
            assert states(desk) == were
            baker = desk.hub.registry.get("baker")
            assert desk.hub.vault.for_origin(baker, server.url, None) is not None
            async with connect(f"{desk.url}/agents/echo") as client:
                assert (await client.get(task)).status.state.word == "completed"


async def test_a_file_that_is_no_backup_replaces_nothing(tmp_path, store, monkeypatch):
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
        await run("db", "backup", f"{tmp_path}/good", "--store", store["store"])
    good = await asyncio.to_thread((tmp_path / "good").read_bytes)
    bad = {"text": b"hello " * 1000, "cut": good[: len(good) // 2], "empty": b""}
    for name, content in bad.items():
        await asyncio.to_thread((tmp_path / name).write_bytes, content)
        words = ("db", "restore", f"{tmp_path}/{name}", "--replace", "--store", store["store"])
        done = await asyncio.to_thread(accord, *words)
        assert done.code == 1, name
        assert "Traceback" not in done.err
    async with hub_at(tmp_path, **store) as desk:
        assert desk.hub.registry.get("baker") is not None


WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql'"


@contextlib.asynccontextmanager
async def stopping_at(tag: str) -> AsyncIterator[asyncpg.Connection]:
    """Have statements of a kind, such as CREATE INDEX, wait in the whole database."""
    db = await asyncpg.connect(postgres.base_url())
    try:
        await db.execute(
            "CREATE FUNCTION wait_here() RETURNS event_trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_advisory_xact_lock(7); END$$"
        )
        await db.execute(
            "CREATE EVENT TRIGGER wait_here ON ddl_command_start "
            f"WHEN TAG IN ('{tag}') EXECUTE FUNCTION wait_here()"
        )
        await db.execute("SELECT pg_advisory_lock(7)")
        yield db
    finally:
        await db.execute("SELECT pg_advisory_unlock_all()")
        await db.execute("DROP EVENT TRIGGER IF EXISTS wait_here")
        await db.execute("DROP FUNCTION IF EXISTS wait_here")
        await db.close()


@pytest.mark.parametrize("tag", ["DROP SCHEMA", "CREATE TABLE", "CREATE INDEX"])
async def test_a_restore_that_is_killed_is_whole_or_not_at_all(tmp_path, monkeypatch, tag):
    """What was sent before it was killed may be all there is to do: then it is done."""
    monkeypatch.setenv("PATH", f"{programs()}{os.pathsep}{os.environ['PATH']}")
    things = (
        "SELECT array_agg(nspname || '.' || relname ORDER BY nspname, relname) FROM pg_class "
        "RIGHT JOIN pg_namespace AS n ON relnamespace = n.oid AND relkind IN ('r', 'i') "
        "WHERE nspname NOT LIKE 'pg%'"
    )
    with postgres.schema_url() as url:
        store = {"store": url, "key_file": str(tmp_path / "keys")}
        async with hub_at(tmp_path, **store):
            pass
        await run("db", "backup", f"{tmp_path}/empty", "--store", url)
        async with hub_at(tmp_path, **store) as desk, serving_card() as server:
            await desk.add(server.url)
        words = ("db", "restore", f"{tmp_path}/empty", "--replace", "--store", url)
        async with stopping_at(tag) as db:
            were = await db.fetchval(things)
            with fork(COMMAND, *words, log=tmp_path / "log") as process:
                await until(lambda: postgres.execute(WAITING)[0][0])
                process.kill()
            await db.execute("SELECT pg_advisory_unlock_all()")
            await until(lambda: not postgres.execute(SESSIONS)[0][0])
            assert await db.fetchval(things) == were
        async with hub_at(tmp_path, **store) as desk:
            was_sent = desk.hub.registry.get("baker") is None
            assert await desk.hub.audit.verify() == ""
        assert not was_sent or tag == "CREATE INDEX"
        await run(*words)  # and the next one works
        async with hub_at(tmp_path, **store) as desk:
            assert desk.hub.registry.get("baker") is None


async def test_a_backup_is_restored_elsewhere_with_its_keys(tmp_path):
    """On another machine there is nothing but the two files."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    async with hub_at(here) as desk, serving_card() as server:
        await desk.add(server.url)
        secret = {"kind": "bearer", "secret": SECRET}
        await desk.call("PUT", "/agents/baker/credentials/key", secret)
        await run(
            "db", "backup", f"{tmp_path}/b", "--with-keys", "--store", f"sqlite:///{here}/hub.db"
        )
    await asyncio.to_thread(shutil.rmtree, here)
    await run("db", "restore", f"{tmp_path}/b", "--store", f"sqlite:///{there}/hub.db")
    async with hub_at(there) as desk:
        baker = desk.hub.registry.get("baker")
        assert desk.hub.vault.for_origin(baker, server.url, None) is not None


@pytest.mark.parametrize("verb", ["stats", "migrate", "vacuum"])
async def test_the_database_of_a_hub_is_looked_after_as_others_are(tmp_path, store, verb):
    async with hub_at(tmp_path, **store) as desk, serving_card() as server:
        await desk.add(server.url)
    assert await run("db", verb, "--store", store["store"])
    listed = await run("key", "list", "--store", store["store"])
    assert "local-admin" in listed
    # Keys of a hub have roles, and rows in its audit log: they are made and revoked by the hub.
    for words in (("new", "mia"), ("revoke", found(r"(\w+) +local-admin", listed))):
        refused = await asyncio.to_thread(accord, "key", *words, "--store", store["store"])
        assert (refused.code, f"accord hub key {words[0]}" in refused.err) == (1, True)
    assert await run("key", "list", "--store", store["store"]) == listed
    assert await run("push", "list", "--store", store["store"]) is not None
    async with hub_at(tmp_path, **store) as desk:
        assert desk.hub.registry.get("baker") is not None


async def test_doctor_knows_the_database_of_a_hub(tmp_path, store):
    """While the hub runs; and a file that no hub can use is bad, wherever it is."""
    url = store["store"]
    async with hub_at(tmp_path, **store):
        told = await run("doctor", "--store", url)
        assert "bad " not in told
        is_file = url.startswith("sqlite:")
        assert ("hub.db, the database of a hub, " if is_file else "a hub up to 12") in told
    if is_file:
        await asyncio.to_thread((tmp_path / "hub.db").write_bytes, b"something else")
        done = await asyncio.to_thread(accord, "doctor", "--store", url)
        assert (done.code, "is not a database" in done.out) == (1, True)
