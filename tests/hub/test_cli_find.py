"""accord hub find, probe, check, and a catalog added, as a person types them."""

import json

from click.testing import CliRunner

from accord.cli import main
from tests.cli.shell import served
from tests.hub.cases import card_of, load_cases
from tests.hub.test_cli import EXAMPLES, hub_served


def test_find_probe_and_check(tmp_path, monkeypatch):
    """Each once against a real hub and a real agent."""
    monkeypatch.chdir(tmp_path)
    cards = [
        {"identifier": f"urn:air:x:y:{case.name}", "type": "application/a2a-agent-card+json"}
        | {"data": json.loads(card_of(case))}
        for case in load_cases()[0][:3]
    ]
    (tmp_path / "catalog.json").write_text(json.dumps({"entries": cards}))
    agent = served(str(EXAMPLES / "echo.py"), cwd=tmp_path)
    with hub_served(tmp_path) as (_, url), agent as (_, echo):

        def hub(*words: str) -> str:
            done = CliRunner().invoke(main, ["hub", *words, "--hub", url])
            assert done.exit_code == 0, done.output
            return done.output

        hub("add", echo)
        assert "it-desk is added" in hub("add", "--from", "catalog.json")
        found = hub("find", "reset password", "--takes", "text/plain").splitlines()
        assert (found[0].split()[0], found[1].split()[0]) == ("it-desk", "reset_password")
        assert hub("find", "knit a sweater") == "no agent fits\n"
        assert json.loads(hub("find", "--tag", "visa", "-o", "json"))["total"] == 1
        probed = hub("probe", "echo", "--send-message")
        assert probed.startswith("echo is up")
        assert "JSONRPC 1.0" in probed
        direct = CliRunner().invoke(main, ["check", echo]).output
        [score] = [line for line in direct.splitlines() if line.startswith("Score: 100 of 100")]
        assert score in hub("check", "echo")
