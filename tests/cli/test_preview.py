"""Commands with a version that is not released, and hosts that are found by their catalog."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.shell import served

HERE = Path(__file__).parent

pytestmark = pytest.mark.usefixtures("alone")


def accord(*words, code=0):
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done


def test_the_preview_is_served_and_spoken_if_asked_for(tmp_path):
    """By both sides: without it, the card does not offer 1.1, and a command does not take it."""
    words = (str(HERE / "scripted.py"), "--store", "memory://")
    with served(*words, "--preview", "1.1", cwd=tmp_path) as (_, url):
        sent = json.loads(accord("send", url, "x", "--preview", "1.1", "-o", "json").stdout)
        assert sent["task"]["generation"] > 1
        plain = json.loads(accord("send", url, "x", "-o", "json").stdout)
        assert "generation" not in plain["task"]
        refused = accord("send", url, "x", "--a2a-version", "1.1", code=2)
        assert "add --preview 1.1" in refused.output
    with served(*words, cwd=tmp_path) as (_, url):
        refused = accord("send", url, "x", "--a2a-version", "1.1", "--preview", "1.1", code=1)
        assert "does not offer" in refused.output


def test_a_preview_that_does_not_exist_is_refused(tmp_path):
    refused = accord("serve", str(HERE / "scripted.py"), "--preview", "7.7", code=1)
    assert "previews 7.7: choose from 1.1" in refused.output
