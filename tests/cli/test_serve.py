"""accord serve, send and card, as a person types them."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from accord import Artifact, Message, Part, connect
from accord.cli.show import show_reply
from accord.client.reply import ClientReply
from accord.model import Role, Task, TaskState, TaskStatus

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def accord(*args, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "accord", *args], capture_output=True, text=True, timeout=60, cwd=cwd
    )


@contextmanager
def served(*args, cwd):
    command = [sys.executable, "-m", "accord", "serve", *args, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd
    )
    try:
        greeting = process.stdout.readline()
        yield process, re.search(r"http\S+", greeting).group()
    finally:
        process.kill()
        process.communicate()


def test_a_conversation_on_the_command_line(tmp_path):
    """Serve, look at the card, ask, answer: what the README shows, with tasks kept in
    ./.accord/.
    """
    with served(str(EXAMPLES / "trip.py"), cwd=tmp_path) as (_, url):
        assert "Plan a trip" in accord("card", "get", url).stdout
        assert '"name": "Trip planner"' in accord("card", "get", url, "-o", "json").stdout
        asked = accord("send", url, "Rome")
        assert asked.stdout.strip() == "How many days do you have?"
        task_id = re.search(r"--task-id (\S+)", asked.stderr).group(1)
        answered = accord("send", url, "1", "--task-id", task_id, "--stream")
        assert "Day 1" in answered.stdout
        assert "completed" in answered.stderr
    assert (tmp_path / ".accord" / "trip-planner.db").exists()


def test_ctrl_c_ends_the_server_cleanly(tmp_path):
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_a_second_server_on_the_same_database_is_told_so(tmp_path):
    """Design, rule 19."""
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, _):
        second = accord("serve", str(EXAMPLES / "echo.py"), "--port", "0", cwd=tmp_path)
        assert second.returncode != 0
        assert f"in use by process {process.pid}" in second.stderr + second.stdout


@pytest.mark.parametrize(("args", "what"), [
    (["nope.py"], "no file nope.py"),
    (["empty.py"], "has no agent"),
    (["two.py"], "say which: two.py:one, two.py:two"),
    (["two.py:three"], "has no agent 'three'; it has one, two"),
    (["bad.py"], "say what 'text' is"),
    (["echo.py", "--host", "0.0.0.0"], "--no-auth"),
    (["echo.py", "--store", "redis://x"], "use memory:// or sqlite:///"),
    (["echo.py", "--versions", "7.0"], "7.0"),
    (["echo.py", "--tls-cert", "echo.py"], "--tls-key"),
])  # fmt: skip
def test_what_is_typed_wrong_is_answered_with_what_to_type(tmp_path, args, what):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "two.py").write_text(
        "from accord import Agent\none, two = Agent('1'), Agent('2')\n"
    )
    (tmp_path / "bad.py").write_text(
        "from accord import Agent\nagent = Agent('1')\n@agent.skill\ndef f(text): ...\n"
    )
    (tmp_path / "echo.py").write_text((EXAMPLES / "echo.py").read_text())
    done = accord("serve", *args, cwd=tmp_path)
    assert done.returncode == 1
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agent_that_is_not_there_is_named():
    done = accord("send", "http://127.0.0.1:9", "hello", "--patience", "0.1")
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_teaches_every_command():
    shown = accord("--help").stdout
    for verb in ("serve", "send", "card", "db"):
        assert verb in shown
        assert "accord " + verb in accord(verb, "--help").stdout


def test_the_database_can_be_looked_at_and_made_smaller(tmp_path):
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, url):
        accord("send", url, "hello")
        assert "1 task, " in accord("db", "stats", cwd=tmp_path).stdout
        os.kill(process.pid, signal.SIGINT)
        process.wait(10)
    assert "1 task, " in accord("db", "stats", cwd=tmp_path).stdout
    assert "after" in accord("db", "vacuum", cwd=tmp_path).stdout
    assert "newest" in accord("db", "migrate", cwd=tmp_path).stdout
    missing = accord("db", "stats", "--store", "sqlite:///nothing.db", cwd=tmp_path)
    assert "there is no database" in missing.stderr


def test_a_task_that_failed_says_why_beside_what_it_had_made(capsys):
    task = Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.FAILED, message=said("out of flour")),
    )
    task.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="half a loaf")]))
    show_reply(ClientReply(connect("http://127.0.0.1:9"), task), "http://127.0.0.1:9")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("half a loaf\n", "task t is failed: out of flour\n")


def said(text):
    return Message(message_id="m", role=Role.AGENT, parts=[Part(text=text)])
