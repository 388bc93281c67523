"""accord chat in a real terminal: questions, files, Ctrl-C, and a server that goes away."""

import signal
import sys
from pathlib import Path

import pexpect
import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.bakery import Bakery
from tests.cli.shell import served

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clerk")
    with served(str(HERE / "scripted.py"), "--store", "memory://", cwd=folder) as (_, url):
        yield url


@pytest.fixture
def terminal(tmp_path):
    """Start a command in a terminal; it is ended with the test."""
    started = []

    def spawn(*words):
        child = pexpect.spawn(
            sys.executable, ["-m", "accord", *words], cwd=tmp_path, timeout=20, encoding="utf-8"
        )
        started.append(child)
        return child

    yield spawn
    for child in started:
        child.close(force=True)


def test_a_conversation_with_a_question_and_a_file(url, terminal, tmp_path):
    """CHAT_001: the answer goes to the task that asked, the next message to the same context."""
    chat = terminal("chat", url, "--skill", "ask")
    chat.expect("> ")
    chat.sendline("A list")
    chat.expect("Which day")
    chat.expect(r"\? ")
    chat.sendline("Monday")
    chat.expect("A list on Monday")
    chat.expect("> ")
    chat.sendline("/quit")
    chat.expect(r"chat \S+ --context-id \S+")
    chat.expect(pexpect.EOF)

    (tmp_path / "scan.txt").write_text("ink")
    chat = terminal("chat", url)
    chat.expect("> ")
    chat.sendline("/file nowhere.txt")
    chat.expect("can't be read")
    chat.sendline("/file scan.txt")
    chat.expect("will be sent with your next message")
    chat.sendline("look")
    chat.expect("text:'look'")
    chat.expect("file:b'ink':scan.txt:text/plain")
    chat.expect("> ")
    chat.sendeof()
    chat.expect(pexpect.EOF)


def test_ctrl_c_stops_the_work_and_not_the_conversation(url, terminal):
    chat = terminal("chat", url, "--skill", "wait")
    chat.expect("> ")
    chat.sendline("/nowhere/never")
    chat.expect("there is no /nowhere/never")
    chat.expect("> ")
    chat.sendline("never")
    chat.expect("begun")
    chat.sendintr()
    chat.expect("is canceled")
    chat.expect("> ")
    chat.sendline("/help")
    chat.expect("begin a new conversation")
    chat.expect("> ")
    chat.sendeof()
    chat.expect(pexpect.EOF)


def test_a_server_that_was_killed_is_waited_for(terminal, tmp_path):
    with Bakery(tmp_path) as bakery:
        chat = terminal("chat", bakery.url)
        chat.expect("> ")
        chat.sendline("a loaf")
        chat.expect("flour, ")
        bakery.stop(signal.SIGKILL)
        chat.expect("away, trying again")
        bakery.rise()
        bakery.start()
        chat.expect("bread")
        chat.expect("> ")
        chat.sendline("/quit")
        chat.expect(r"chat \S+ --context-id \S+")
        chat.expect(pexpect.EOF)


def test_a_question_outlives_its_server(terminal, tmp_path):
    """The answer goes to the server that was started since, and to the task that asked."""
    with Bakery(tmp_path) as bakery:
        chat = terminal("chat", bakery.url, "--skill", "order")
        chat.expect("> ")
        chat.sendline("A loaf")
        chat.expect("Which day")
        chat.expect(r"\? ")
        bakery.stop(signal.SIGKILL)
        bakery.start()
        chat.sendline("Monday")
        chat.expect("A loaf on Monday")
        chat.expect("> ")


def test_long_work_shows_that_it_goes_on(url, terminal, tmp_path):
    """On a terminal; in a pipe there is nothing of it."""
    sending = terminal("send", url, str(tmp_path / "done"), "--skill", "wait")
    sending.expect(r"[|/\\-] \d+ s")
    (tmp_path / "done").touch()
    sending.expect("is completed")
    sending.expect(pexpect.EOF)


def test_without_a_terminal_nothing_is_waited_for(url):
    """CHAT_001: one message is sent as accord send does; none is a usage error."""
    assert CliRunner().invoke(main, ["chat", url, "Ada", "--skill", "hello"]).stdout == (
        "Hello, Ada!\n"
    )
    assert CliRunner().invoke(main, ["chat", url]).exit_code == 2
