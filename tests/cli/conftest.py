"""What the tests of the command line share."""

import pytest


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No settings but the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ACCORD_LOGINS", str(tmp_path / "logins.json"))
