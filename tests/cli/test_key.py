"""accord key, as a person types it."""

import json
import re
import sqlite3

from tests.cli.shell import accord, served

HR = """
from accord import Agent, Caller
from accord.auth import ApiKeys

agent = Agent("HR", auth=ApiKeys())

@agent.skill(scopes=["hr.write"])
async def hire(name: str, caller: Caller) -> str:
    return f"{name} hired by {caller.name}"
"""


def test_a_key_from_new_to_revoked(tmp_path):
    """Made before the first start, shown once, listed without it, used, revoked while the server
    runs.
    """
    (tmp_path / "hr.py").write_text(HR)
    none = accord("key", "list", cwd=tmp_path)
    assert none.code == 2
    assert "--agent FILE" in none.err
    made = accord("key", "new", "mia", "--scope", "hr.write", "--agent", "hr.py", cwd=tmp_path)
    assert "of mia, in sqlite:///" in made.err
    assert ".accord/hr.db" in made.err
    key = made.out.strip()
    assert re.fullmatch(r"accord_[0-9a-f]{12}_[0-9a-f]{48}", key)
    with served("hr.py", cwd=tmp_path) as (_, url):
        listed = accord("key", "list", cwd=tmp_path).out
        id_ = key.split("_")[1]
        assert f"{id_}  mia" in listed
        assert "hr.write" in listed
        assert "valid" in listed
        assert key not in listed
        assert key.split("_")[2] not in listed
        by_name = accord("key", "revoke", "mia", cwd=tmp_path)
        assert by_name.code == 1
        assert f"the keys of mia are: {id_}" in by_name.err
        revoked = accord("key", "revoke", id_, cwd=tmp_path)
        assert revoked.code == 0
        assert "revoked" in accord("key", "list", cwd=tmp_path).out
        assert "no valid key" in accord("key", "revoke", id_, cwd=tmp_path).err
        refused = accord("send", url, "Bob", cwd=tmp_path)
        assert refused.code == 4
    with sqlite3.connect(tmp_path / ".accord" / "hr.db") as db:
        row = db.execute("SELECT * FROM api_keys").fetchone()
    assert not any(key.split("_")[2] in str(value) for value in row)


def test_a_key_that_no_agent_asks_for_is_warned_of(tmp_path):
    for name, auth in (("hr", ", auth=ApiKeys()"), ("open", "")):
        (tmp_path / f"{name}.py").write_text(HR.replace(", auth=ApiKeys()", auth))
    made = {
        name: accord("key", "new", "mia", "--agent", f"{name}.py", cwd=tmp_path)
        for name in ("hr", "open")
    }
    assert "the agent in open.py has no auth=ApiKeys()" in made["open"].err
    assert "Warning" not in made["hr"].err


def test_a_new_key_as_json(tmp_path):
    (tmp_path / "hr.py").write_text(HR)
    made = accord("key", "new", "mia", "--agent", "hr.py", "-o", "json", cwd=tmp_path)
    found = json.loads(made.out)
    assert (found["name"], found["state"]) == ("mia", "valid")
    assert found["key"].startswith(f"accord_{found['id']}_")


def test_what_is_typed_wrong_is_said(tmp_path):
    (tmp_path / "hr.py").write_text(HR)
    wrong = accord("key", "new", "mia", "--expires", "soon", "--agent", "hr.py", cwd=tmp_path)
    assert "30m, 12h, 90d or 2w" in wrong.err
    memory = accord("key", "list", "--store", "memory://", cwd=tmp_path)
    assert "loses its keys" in memory.err
    late = accord("key", "new", "mia", "--expires", "90d", "--agent", "hr.py", cwd=tmp_path)
    assert "until 20" in late.err


def test_an_agent_with_auth_may_be_reached_from_other_machines(tmp_path):
    """Without --no-auth, which would be no help: the two contradict each other."""
    (tmp_path / "hr.py").write_text(HR)
    with served("hr.py", "--host", "0.0.0.0", cwd=tmp_path) as (_, url):
        assert url.startswith("http://127.0.0.1:")  # 0.0.0.0 is an address that nobody calls
        refused = accord("send", url, "Bob", cwd=tmp_path)
        assert refused.code == 4
    both = accord("serve", "hr.py", "--host", "0.0.0.0", "--no-auth", cwd=tmp_path)
    assert both.code == 1
    assert "leave one of them out" in both.err
