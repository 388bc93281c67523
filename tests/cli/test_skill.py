"""The skill for coding agents: what ships, what it says, and that its examples work."""

import json
import re
import shlex
import sys
from pathlib import Path

from click.testing import CliRunner

import accord as package
from accord.cli import main
from tests.cli.shell import accord, found
from tests.processes import start

SHIPPED = Path(package.__file__).parent / "cli" / "skills" / "accord"
URL = "http://localhost:8000"


def head_and_body(text: str) -> tuple[dict[str, str], str]:
    _, head, body = text.split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines()), body


def test_one_skill_ships_and_sends_to_the_help():
    """SKILL_001: it is short, leaves options to the help, and says what an agent has to know."""
    assert list(Path(package.__file__).parent.rglob("SKILL.md")) == [SHIPPED / "SKILL.md"]
    text = accord("skill").out
    assert text == (SHIPPED / "SKILL.md").read_text("utf-8")
    head, body = head_and_body(text)
    assert head["name"] == SHIPPED.name
    assert len(head["description"]) <= 1024
    assert "accord command" in head["compatibility"]
    assert len(head["compatibility"]) <= 500
    assert len(body) < 4000  # a thousand tokens
    for words in (
        "accord help", "--help", "-o json", "--stream", "--task-id", "--context-id",
        "state", "exit code", "Don't sleep", "A2ACLI_BEARER", "accord --version",
    ):  # fmt: skip
        assert words in body
    listed = re.findall(r"^  ([a-z-]+) ", accord("help").out.partition("Commands:")[2], re.M)
    named = [verb for verb in listed if f"accord {verb}" in body]
    assert len(named) < len(listed) / 2


def test_it_repeats_no_rules():
    """SKILL_002: neither the specification's ids nor its language stand in the skill."""
    for file in SHIPPED.rglob("*.md"):
        text = file.read_text("utf-8")
        assert not re.search(r"A2ACLI_[A-Z_]+_\d{3}", text)
        assert not re.search(r"\b(MUST|SHOULD|SHALL|REQUIRED)\b", text)


def test_it_is_installed_where_coding_agents_look(tmp_path):
    done = accord("skill", "--install", str(tmp_path))
    assert done.code == 0
    target = tmp_path / ".agents" / "skills" / "accord"
    names = {file.relative_to(target) for file in target.rglob("*") if file.is_file()}
    assert names == {file.relative_to(SHIPPED) for file in SHIPPED.rglob("*.md")}
    assert str(target) in done.out
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".agents").touch()
    assert "can't be written" in accord("skill", "--install", str(tmp_path / "other")).err


def test_every_command_of_its_examples_runs(tmp_path, monkeypatch):
    """SKILL_001: the worked examples stand beside it, and work as they are written."""
    text = (SHIPPED / "references" / "examples.md").read_text("utf-8")
    commands = re.findall(r"^\$ accord (.*)$", text, re.M)
    assert len(commands) > 8
    ids = {"TASK": "", "CONTEXT": ""}
    monkeypatch.chdir(tmp_path)
    command = (sys.executable, "-m", "accord", "demo-server", "--port", "0")
    with start(*command, cwd=tmp_path) as process:
        url = found(r"http\S+", process.line_sync())
        for line in commands:
            words = [ids.get(word, word) for word in shlex.split(line.replace(URL, url))]
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, (line, done.output)
            for answer in done.stdout.splitlines() if "--stream" in words else [done.stdout]:
                task = json.loads(answer).get("task") if "json" in words else None
                if task is not None:
                    ids = {"TASK": task["id"], "CONTEXT": task["contextId"]}
    assert list((tmp_path / "files").iterdir())
