"""-o json: every command that prints data has it, and prints JSON and nothing else on stdout."""

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from accord.cli import main
from accord.client.auth import Login, Logins
from tests.cli.shell import accord

pytestmark = pytest.mark.usefixtures("alone")

# Commands without -o: servers, whose output is a log, and commands that print a document.
WITHOUT = {"serve", "run", "demo-server", "hub", "card sign", "completion", "skill", "help"}


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, with its words; a group only if it does something."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    if command.invoke_without_command:
        yield " ".join(path), command
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from commands(found, *path, name)


def said(*words: str) -> Any:
    done = accord(*words, "-o", "json")
    assert done.code == 0, done.out + done.err
    return json.loads(done.out)


def has_json(command: click.Command) -> bool:
    return any(
        "-o" in one.opts and "json" in getattr(one.type, "choices", ()) for one in command.params
    )


def test_every_command_that_prints_data_has_json():
    """A new command gets -o json, or a place in the list above."""
    assert {name for name, command in commands(main) if not has_json(command)} == WITHOUT


def test_a_database_is_maintained_by_a_program(tmp_path):
    key = said("key", "new", "mia", "--store", "sqlite:///a.db")["id"]
    store = ("--store", "sqlite:///a.db")
    assert said("key", "revoke", key, *store) == {"id": key, "state": "revoked"}
    schema = said("db", "stats", *store)["newest_schema"]
    assert said("db", "migrate", *store) == {"schema_before": schema, "schema": schema}
    vacuumed = said("db", "vacuum", *store)
    assert vacuumed["deleted_files"] == 0
    assert vacuumed["bytes_after"] == (tmp_path / "a.db").stat().st_size
    (tmp_path / "a.db.keys").write_text(said("keyring", "new")["key"])
    backup = said("db", "backup", "b.db", "--with-keys", *store)
    assert backup == {
        "file": "b.db",
        "bytes": (tmp_path / "b.db").stat().st_size,
        "files": None,
        "files_elsewhere": 0,
        "keys": "b.db.keys",
        "needs_keys": True,
    }
    assert said("db", "restore", "b.db", "--store", "sqlite:///c.db") == {
        "store": "sqlite:///c.db",
        "file": "b.db",
        "files_elsewhere": 0,
        "keys": "c.db.keys",
    }
    assert (tmp_path / "c.db.keys").read_text() == (tmp_path / "a.db.keys").read_text()


def test_keys_are_rotated_by_a_program(tmp_path):
    file = tmp_path / "keys"
    file.write_text(said("keyring", "new")["key"])
    made = said("keyring", "rotate", "--key-file", str(file))
    assert made["file"] == str(file)
    assert said("keyring", "list", "--key-file", str(file))["keys"][0]["id"] == made["id"]


def test_a_project_is_made_by_a_program(tmp_path):
    made = said("init", "hello")
    assert made["folder"] == "hello"
    assert {"hello/agent.py", "hello/Dockerfile"} <= set(made["files"])
    assert all((tmp_path / file).exists() for file in made["files"])


def test_a_program_logs_out(tmp_path):
    Logins(tmp_path / "logins.json").put("https://hr.example", Login("bearer", secret="s3cret"))
    assert said("auth", "logout", "https://hr.example") == {
        "at": "https://hr.example",
        "error": None,
    }


def test_that_nobody_is_logged_in_is_no_error_for_a_program():
    assert said("auth", "status") == []
