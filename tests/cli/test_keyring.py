"""accord keyring, and the keyring of an app."""

import pytest
from click.testing import CliRunner

from accord import Agent
from accord.auth import Keyring, KeyringError, new_key
from accord.cli import main


def hr():
    agent = Agent("HR")

    @agent.skill
    async def hire(name: str) -> str:
        """Hire somebody."""
        return name

    return agent


def run(*words, env=None):
    return CliRunner(env={"ACCORD_KEY": None} | (env or {})).invoke(main, ["keyring", *words])


def test_a_new_key_can_be_used():
    Keyring.parse(run("new").output.strip())


def test_listed_and_rotated(tmp_path):
    file = tmp_path / "keys"
    secret = Keyring.open(file)._keys[0]
    before = run("list", "--key-file", str(file)).output
    assert secret.id in before
    assert "current" in before
    done = run("rotate", "--key-file", str(file))
    assert f"is the current key in {file}" in done.output
    after = run("list", "--key-file", str(file)).output.splitlines()
    assert secret.id in after[3]
    assert "previous" in after[3]
    assert file.read_text().splitlines()[-1].split()[0] not in "".join(after)


def test_which_keys_are_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "say which keys" in run("list").output
    Keyring.open(".accord/a.db.keys")
    assert "current" in run("list").output
    Keyring.open(".accord/b.db.keys")
    assert ".accord/a.db.keys, .accord/b.db.keys" in run("list").output
    assert "current" in run("list", "--store", "sqlite:///.accord/b.db").output
    assert "--key-file" in run("list", "--store", "postgresql://db/a").output
    missing = run("rotate", "--key-file", "nowhere")
    assert missing.exit_code == 1
    assert "can't use the key file nowhere" in missing.output


def test_keys_in_the_environment():
    """Can't be rotated from here; what to do is said."""
    env = {"ACCORD_KEY": new_key()}
    assert "ACCORD_KEY" in run("list", env=env).output
    done = run("rotate", env=env)
    assert done.exit_code == 1
    assert "ACCORD_KEY=NEW,OLD" in done.output
    assert env["ACCORD_KEY"] not in done.output


@pytest.fixture
def no_key(monkeypatch):
    monkeypatch.delenv("ACCORD_KEY", raising=False)


def test_the_keyring_of_an_app(tmp_path, no_key, monkeypatch):
    """Made when it is first needed, beside the SQLite file."""
    agent = hr()
    app = agent.app(store=f"sqlite:///{tmp_path}/hr.db")
    assert list(tmp_path.iterdir()) == []
    assert app.keyring.file == tmp_path / "hr.db.keys"
    assert app.keyring is app.keyring
    assert agent.app(key_file=tmp_path / "mine").keyring.file == tmp_path / "mine"
    assert agent.app().keyring.file is None
    monkeypatch.setenv("ACCORD_KEY", new_key())
    assert agent.app(store=f"sqlite:///{tmp_path}/other.db").keyring.file is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hr.db.keys", "mine"]


def test_a_shared_store_needs_a_key_of_its_own(no_key):
    from accord.store.memory import MemoryStore

    class Shared(MemoryStore):
        is_volatile = False

    app = hr().app(store=Shared())
    with pytest.raises(KeyringError, match="accord keyring new"):
        _ = app.keyring


def test_hosts_that_are_allowed(caplog):
    """Said loudly; a mistake is told of at once."""
    app = hr().app(allow_hosts=["localhost"])
    assert app.guard.allows_name("localhost")
    assert "may point to localhost" in caplog.text
    with pytest.raises(ValueError, match="not a host that can be allowed"):
        hr().app(allow_hosts=["http://localhost"])
