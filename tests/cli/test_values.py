"""An option whose value was forgotten does not take the next option as its value."""

import json

import pytest
from click.testing import CliRunner

from accord.cli import main

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("send http://127.0.0.1:9 hi --task-id --stream", "--task-id", "--stream"),
        ("send http://127.0.0.1:9 --text --stream", "--text", "--stream"),
        ("send http://127.0.0.1:9 -f --stream", "-f", "--stream"),
        ("send http://127.0.0.1:9 hi --context-id -o json", "--context-id", "-o"),
        ("task list http://127.0.0.1:9 --page-token --all", "--page-token", "--all"),
        ("task push-config create http://127.0.0.1:9 1 --url --id x", "--webhook", "--id"),
        ("push replay --task-id --all", "--task-id", "--all"),
        ("hub find --team --limit 3", "--team", "--limit"),
        ("hub --store --port 1", "--store", "--port"),
        ("key new mia --scope --tenant a", "--scope", "--tenant"),
        ("db stats --store --unknown", "--store", "--unknown"),
    ],
)
def test_a_forgotten_value_is_named(line, option, value):
    done = CliRunner().invoke(main, line.split())
    assert done.exit_code == 2, done.output
    assert f"Option '{option}' needs a value, but '{value}' follows it" in done.output


def test_a_program_reads_it_as_json():
    words = ["send", "http://127.0.0.1:9", "hi", "-o", "json", "--task-id", "--stream"]
    done = CliRunner().invoke(main, words)
    assert json.loads(done.stdout)["error"]["code"] == "A2ACLI_ERR_USAGE"


@pytest.mark.parametrize(
    "words",
    [
        ["send", "http://127.0.0.1:9", "--text=--stream", "--retry-max-time", "0"],
        ["send", "--retry-max-time", "0", "http://127.0.0.1:9", "--", "--task-id", "--stream"],
        ["send", "http://127.0.0.1:9", "--data", "-1", "--retry-max-time", "0"],
    ],
    ids=["equals", "behind --", "number"],
)
def test_a_value_that_looks_like_an_option_can_be_given(words):
    assert "needs a value" not in CliRunner().invoke(main, words).output
