"""accord serve, send and card, as a person types them."""

import signal
from pathlib import Path

import pytest

from accord import Artifact, Message, Part, connect
from accord.cli.show import show_reply
from accord.cli.target import AgentTarget
from accord.client.reply import ClientReply
from accord.model import Role, Task, TaskState, TaskStatus
from tests.cli.shell import accord, found, served

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_a_conversation_on_the_command_line(tmp_path):
    """Serve, look at the card, ask, answer: what the README shows, with tasks kept in
    ./.accord/.
    """
    with served(str(EXAMPLES / "trip.py"), cwd=tmp_path) as (_, url):
        assert "Plan a trip" in accord("card", "get", url).out
        assert '"name": "Trip planner"' in accord("card", "get", url, "-o", "json").out
        asked = accord("send", url, "Rome")
        assert asked.out.strip() == "How many days do you have?"
        task_id = found(r"--task-id (\S+)", asked.err)
        answered = accord("send", url, "1", "--task-id", task_id, "--stream")
        assert "Day 1" in answered.out
        assert "completed" in answered.err
    assert (tmp_path / ".accord" / "trip-planner.db").exists()


def test_ctrl_c_ends_the_server_cleanly(tmp_path):
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, _):
        assert process.stop_sync(signal.SIGINT) == 0


@pytest.mark.parametrize(("words", "line"), [
    ((), "public addresses only"),
    (("--egress-proxy", "http://ada:pw@127.0.0.1:3128"), "through the proxy http://127.0.0.1:3128"),
])  # fmt: skip
def test_the_start_says_how_addresses_of_strangers_are_called(tmp_path, words, line):
    with served(str(EXAMPLES / "echo.py"), *words, cwd=tmp_path) as (process, _):
        lines = [process.line_sync() for _ in range(4)]
    (egress,) = [text for text in lines if "egress" in text]
    assert line in egress
    assert "pw" not in egress


def test_a_second_server_on_the_same_database_is_told_so(tmp_path):
    """Design, rule 19."""
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, _):
        second = accord("serve", str(EXAMPLES / "echo.py"), "--port", "0", cwd=tmp_path)
        assert second.code != 0
        assert f"in use by process {process.pid}" in second.err + second.out


@pytest.mark.parametrize(("args", "what"), [
    (["nope.py"], "no file nope.py"),
    (["empty.py"], "has no agent"),
    (["two.py"], "say which: two.py:one, two.py:two"),
    (["two.py:three"], "has no agent 'three'; it has one, two"),
    (["bad.py"], "say what 'text' is"),
    (["echo.py", "--host", "0.0.0.0"], "--no-auth"),
    (["echo.py", "--url", "https://echo.example"], "https://echo.example can be reached from"),
    (["echo.py", "--trusted-proxy", "127.0.0.1"], "127.0.0.1 by a trusted proxy can be reached"),
    (["echo.py", "--store", "redis://x"], "use memory:// or sqlite:///"),
    (["echo.py", "--versions", "7.0"], "7.0"),
    (["echo.py", "--tls-cert", "echo.py"], "--tls-key"),
    (["echo.py", "--egress-proxy", "socks5://x:1"], "is not an HTTP proxy"),
    (["echo.py", "--egress-proxy", "http://x:1", "--allow-host", "y"], "the proxy decides"),
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
    assert done.code == 1
    assert what in done.err
    assert "Traceback" not in done.err


def test_a_file_of_another_type_is_answered_with_the_option_that_names_its_type(tmp_path):
    (tmp_path / "table.py").write_text(
        "from accord import Agent, File\nagent = Agent('Table')\n"
        "@agent.skill(input_modes=['text/csv'])\n"
        "async def size(table: File) -> int:\n    return len(await table.read())\n"
    )
    (tmp_path / "a.txt").write_text("a,b\n")
    with served("table.py", cwd=tmp_path) as (_, url):
        refused = accord("send", url, "--file", "a.txt", cwd=tmp_path)
        assert (refused.code, "--media-type TYPE after its --file" in refused.err) == (1, True)
        taken = accord("send", url, "--file", "a.txt", "--media-type", "text/csv", cwd=tmp_path)
        assert (taken.code, taken.out.strip()) == (0, "4")
        none = accord("send", url, "hello", cwd=tmp_path)
        assert "needs a file in the message" in none.err
        assert "Send one with --file FILE" in none.err
        assert "--media-type" not in none.err


def test_a_path_that_is_typed_wrong_is_noticed(tmp_path):
    """The message would go to another agent; the error has the name that was meant."""
    files = [str(EXAMPLES / "echo.py"), str(EXAMPLES / "trip.py")]
    with served(*files, cwd=tmp_path) as (_, url):
        wrong = accord("send", f"{url}/ecko", "hello")
        assert wrong.code != 0
        assert "no agent is at /ecko; did you mean /echo/?" in wrong.err
        assert accord("send", f"{url}/echo", "hello").out == "hello\n"


def test_an_agent_that_is_not_there_is_named():
    done = accord("send", "http://127.0.0.1:9", "hello", "--retry-max-time", "0.1")
    assert done.code == 3
    assert "127.0.0.1:9" in done.err
    assert "Traceback" not in done.err


def test_help_teaches_every_command():
    shown = accord("--help").out
    for verb in ("serve", "send", "card", "db"):
        assert verb in shown
        assert "accord " + verb in accord(verb, "--help").out


def test_the_database_can_be_looked_at_and_made_smaller(tmp_path):
    with served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (process, url):
        accord("send", url, "hello")
        assert "1 task, " in accord("db", "stats", cwd=tmp_path).out
        process.stop_sync(signal.SIGINT)
    assert "1 task, " in accord("db", "stats", cwd=tmp_path).out
    assert "after" in accord("db", "vacuum", cwd=tmp_path).out
    assert "newest" in accord("db", "migrate", cwd=tmp_path).out
    missing = accord("db", "stats", "--store", "sqlite:///nothing.db", cwd=tmp_path)
    assert "there is no database" in missing.err


def test_a_task_that_failed_says_why_beside_what_it_had_made(capsys):
    task = Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.FAILED, message=said("out of flour")),
    )
    task.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="half a loaf")]))
    show_reply(
        ClientReply(connect("http://127.0.0.1:9"), task), AgentTarget(url="http://127.0.0.1:9")
    )
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "half a loaf\n",
        "task t is failed: out of flour\ncontext c\n",
    )


def said(text):
    return Message(message_id="m", role=Role.AGENT, parts=[Part(text=text)])
