"""Commands around agents: settings, completion, doctor, init and the demo server."""

import json
import re
import shlex
import shutil
import sys

import pytest
from click.testing import CliRunner

from accord.cli import main
from accord.client.auth import Login, Logins
from accord.extras import install_command, installed_from
from tests.cli.shell import accord, found, served
from tests.processes import run_sync, start

SHELLS = ["bash", "zsh", "fish"]


pytestmark = pytest.mark.usefixtures("alone")


def shown(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_each_level_of_settings_wins_over_the_next(tmp_path, monkeypatch):
    """CONFIG_001, CONFIG_002, DEFAULT_001, CLI_001: help shows what counts."""

    def card():
        rows = {row["name"]: row for row in json.loads(shown("config", "show", "-o", "json"))}
        return rows["agent-card"]["value"], rows["agent-card"]["source"]

    assert card() == ("none", "default")
    (tmp_path / "home" / "a2a-cli").mkdir(parents=True)
    (tmp_path / "home" / "a2a-cli" / ".env").write_text("A2ACLI_AGENT_CARD=global.example\n")
    assert card() == ("global.example", "global file")
    (tmp_path / ".env").write_text("OTHER=1\n# A2ACLI_X\nexport A2ACLI_AGENT_CARD='near.example'\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert card() == ("near.example", "local file")
    assert "near.example, by" in shown("send", "--help")
    monkeypatch.setenv("A2ACLI_AGENT_CARD", "here.example")
    assert card() == ("here.example", "environment")
    done = CliRunner().invoke(
        main, ["send", "-a", "http://127.0.0.1:9", "x", "--retry-max-time", "0"]
    )
    assert "127.0.0.1:9" in done.output


def test_the_six_defaults():
    """DEFAULT_001: each ships, and each has an option that overrides it."""
    rows = {row["name"]: row["value"] for row in json.loads(shown("config", "show", "-o", "json"))}
    help_ = shown("send", "--help")
    for name, default in {
        "transport": "the card's order",
        "wait": "on for send, off for task get",
        "output": "answer",
        "verbose": "off",
        "a2a-version": "the highest that both know",
        "insecure": "off",
    }.items():
        assert rows[name] == default
        assert f"--{name}" in help_
    assert "--async" in help_


def test_settings_show_no_secrets(monkeypatch):
    """AUTH_004"""
    monkeypatch.setenv("A2ACLI_BEARER", "s3cret")
    assert "bearer: <redacted> (environment A2ACLI_BEARER)" in shown("config", "show")
    assert "s3cret" not in shown("send", "--help")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_the_completion_script(shell, tmp_path):
    """CLI_002"""
    script = shown("completion", shell)
    assert "_ACCORD_COMPLETE" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        assert run_sync(shell, "-n", str(tmp_path / "script")).code == 0
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def test_what_powershell_asks_for(monkeypatch):
    """CLI_002: its script calls accord with these variables."""
    assert "Register-ArgumentCompleter -Native -CommandName accord" in shown(
        "completion", "powershell"
    )
    for line, word, names in [
        ("accord ta", "ta", {"task"}),
        ("accord task ", "", {"get", "list", "watch", "subscribe", "cancel", "download", "fork",
                              "push-config"}),
        ("accord task get --out", "--out", {"--output"}),
    ]:  # fmt: skip
        env = {"_ACCORD_COMPLETE": "powershell_complete", "COMP_WORDS": line, "COMP_WORD": word}
        done = CliRunner().invoke(main, [], env=env, prog_name="accord")
        assert {one.split("\t")[1] for one in done.stdout.splitlines()} == names


def test_logins_are_shown_without_their_secrets(tmp_path):
    """CONFIG_001: what is kept, and in which file, which is for its owner alone."""
    file = tmp_path / "logins.json"
    Logins(file).put("https://hr.example", Login("bearer", secret="s3cret"))
    assert file.stat().st_mode & 0o777 == 0o600
    [row] = [
        row
        for row in json.loads(shown("config", "show", "-o", "json"))
        if row["name"].startswith("login")
    ]
    assert row["name"] == "login https://hr.example"
    assert row["path"] == str(file)
    assert "s3cret" not in shown("config", "show")


def test_without_a_command_there_is_help():
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 2
    assert "Usage:" in done.output


def test_doctor_says_what_is_wrong(tmp_path):
    done = accord("doctor", cwd=tmp_path)
    assert done.code == 0
    assert re.search(r"^ok +accord ", done.out, re.M)
    assert re.search(r"^(ok|note) +the web console is (not )?built", done.out, re.M)
    (tmp_path / ".accord").mkdir()
    (tmp_path / ".accord" / "broken.db").write_bytes(b"not a database" * 100)
    broken = accord("doctor", "http://127.0.0.1:9", cwd=tmp_path)
    assert broken.code == 1
    assert re.search(r"^bad +\.accord/broken\.db", broken.out, re.M)
    assert re.search(r"^bad +http://127\.0\.0\.1:9", broken.out, re.M)


def test_doctor_says_of_each_database_what_it_takes(tmp_path):
    """With what is in the log beside it: the file of a running server may be nearly empty."""
    (tmp_path / "hello.py").write_text(
        "from accord import Agent\nagent = Agent('Hello')\n"
        "@agent.skill\ndef greet(name: str) -> str:\n    return name\n"
    )
    with served("hello.py", cwd=tmp_path) as (_, url):
        assert accord("send", url, "Ada", cwd=tmp_path).code == 0
        line = re.search(r"^ok +\.accord/hello\.db, .*$", accord("doctor", cwd=tmp_path).out, re.M)
        assert line is not None
        assert "; it names 0 files with 0 bytes" in line[0]
        size = int(found(r"([\d,]+) KiB", line[0]).replace(",", ""))
        assert size > (tmp_path / ".accord" / "hello.db").stat().st_size >> 10


def test_a_new_project_runs_and_passes_its_test(tmp_path):
    assert "Dockerfile" in accord("init", "my-agent", cwd=tmp_path).out
    project = tmp_path / "my-agent"
    tests = run_sync(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert tests.code == 0, tests.out
    with served("agent.py", cwd=project) as (process, url):
        assert "My agent" in process.out.text
        assert accord("send", url, "Ada").out.strip() == "Hello, Ada!"
    assert "already" in accord("init", "my-agent", cwd=tmp_path).err


def test_a_new_project_installs_the_wheel_of_the_clone(tmp_path):
    """The name `accord` on an index may be somebody else's package."""
    done = accord("init", "my-agent", cwd=tmp_path)
    [line] = (tmp_path / "my-agent/requirements.txt").read_text().splitlines()
    assert re.fullmatch(r"\./accord-[\d.]+-py3-none-any\.whl", line)
    is_copied = (tmp_path / "my-agent" / line).exists()
    assert is_copied or "Make it with `make release`" in done.err


def test_hints_name_where_accord_was_installed_from():
    command = install_command("grpc")
    place = installed_from()
    assert place is not None
    assert (place / "pyproject.toml").exists()
    assert command == f"pip install '{place}[grpc]'"


def test_the_demo_server_shows_every_state(tmp_path):
    """DEMO_SERVER_001"""
    command = (sys.executable, "-m", "accord", "demo-server", "--port", "0")
    with start(*command, cwd=tmp_path) as process:
        url = re.search(r"http\S+", process.line_sync())[0]
        states = {}
        for skill in ("echo", "ask", "authorize", "fail", "reject", "files"):
            done = accord("send", url, "x", "--skill", skill, "-o", "json", cwd=tmp_path)
            assert done.code == 0
            states[skill] = json.loads(done.out)["task"]["status"]["state"]
        assert [state.removeprefix("TASK_STATE_") for state in states.values()] == [
            "COMPLETED", "INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "REJECTED", "COMPLETED"
        ]  # fmt: skip
        assert accord("send", url, "Ada", "--skill", "greeting").out == "Hello, Ada!\n"


AGENT = "from accord import Agent, File\nagent = Agent('Team')\n@agent.skill\n"


@pytest.mark.parametrize(("skill", "shown"), [
    ("async def add(a: int, b: int = 2) -> int:\n    return a + b", "3"),
    ("async def greet(name: str) -> str:\n    return name", "Hello"),
    ("async def half(n: float) -> float:\n    return n / 2", "0.75"),
    ("def first(table: File) -> str:\n    'The first of a CSV file.'\n"
     "    return table.data.decode().splitlines()[1]", "A,3"),
], ids=["fields", "text", "number", "file"])  # fmt: skip
def test_the_line_to_try_works_for_the_first_skill(tmp_path, skill, shown):
    (tmp_path / "team.py").write_text(AGENT + skill)
    with served("team.py", "--store", "memory://", cwd=tmp_path) as (process, _):
        while not (line := process.line_sync()).startswith("Try it:"):
            pass
        typed = line.removeprefix("Try it:").replace(
            "accord send", f"{shlex.quote(sys.executable)} -m accord send"
        )
        done = run_sync("sh", "-c", typed, cwd=tmp_path)
        assert done.out.strip() == shown, done.err


@pytest.mark.parametrize("where", ["pkg.mod:agent", "pkg.mod", "pkg/mod.py", "pkg"])
def test_an_agent_in_a_package_with_relative_imports(tmp_path, where):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .mod import agent\n")
    (tmp_path / "pkg" / "words.py").write_text("WORD = 'Hi'\n")
    (tmp_path / "pkg" / "mod.py").write_text(
        "from .words import WORD\n" + AGENT + "def greet(name: str) -> str:\n    return WORD\n"
    )
    with served(where, "--store", "memory://", cwd=tmp_path) as (_, url):
        assert accord("send", url, "x").out == "Hi\n"


def test_the_log_can_be_json_and_the_bindings_elsewhere(tmp_path):
    (tmp_path / "team.py").write_text(
        "from accord import Agent\nagent = Agent('Team')\n@agent.skill\n"
        "def greet(name: str) -> str:\n    raise OSError('no flour')\n"
    )
    words = ("--log-format", "json", "--rpc", "/a2a", "--rest", "/api", "--store", "memory://")
    with served("team.py", *words, cwd=tmp_path) as (process, url):
        card = json.loads(accord("card", "get", url, "-o", "json").out)
        urls = {one["url"] for one in card["supportedInterfaces"]}
        assert urls == {f"{url}/a2a", f"{url}/api"}
        accord("send", url, "x")
        lines = [json.loads(line) for line in process.err.text.splitlines()]
    assert any("no flour" in line.get("error", "") for line in lines)
    assert all({"time", "level", "message"} <= set(line) for line in lines)


def test_a_module_that_is_not_there_is_named(tmp_path):
    assert "no module nowhere" in accord("serve", "nowhere.mod:agent", cwd=tmp_path).err
