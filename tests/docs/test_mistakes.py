"""What a newcomer gets wrong ends in a message that says what is wrong and what to type next, never
in a traceback.
"""

import http.server
import re
import signal
import socket
import sys
import threading
from contextlib import contextmanager

import pytest

from tests.cli import shell
from tests.processes import run_sync, start, until_sync

HELLO = """from accord import Agent
agent = Agent("Hello")
@agent.skill
def greet(name: str) -> str:
    return f"Hello, {name}!"
"""


def accord(*words, cwd):
    """What a command says that does not do it."""
    done = shell.accord(*words, cwd=cwd)
    assert done.code != 0
    return done.err


@contextmanager
def hello(tmp_path, text=HELLO):
    (tmp_path / "hello.py").write_text(text)
    with shell.served("hello.py", cwd=tmp_path) as (process, url):
        yield url
        process.stop_sync(signal.SIGINT)


@pytest.mark.parametrize(("file", "lines"), [
    ("x = (", ["bad.py, line 1: '(' was never closed", "x = ("]),
    ("import nothere", ["bad.py, line 1: ModuleNotFoundError", "-m pip install nothere"]),
    ("from accord import Agent\nagent = Agent('')", ["bad.py, line 2: ValueError: an agent needs a "
"name", "agent = Agent('')"]),
    ("from accord import Agent\nagent = Agent('1')", ["has no skill yet; decorate a function with "
"@agent.skill"]),
])  # fmt: skip
def test_a_file_with_a_mistake_is_told_by_its_line(tmp_path, file, lines):
    (tmp_path / "bad.py").write_text(file)
    said = accord("serve", "bad.py", "--port", "0", cwd=tmp_path)
    assert [line for line in lines if line not in said] == []


def test_a_port_that_is_taken(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is in use" in accord(
            "serve", "hello.py", "--port", str(port), cwd=tmp_path
        )


def test_a_file_that_is_no_database(tmp_path):
    """Named, by the server as by the tools."""
    (tmp_path / "hello.py").write_text(HELLO)
    for command in (["serve", "hello.py", "--port", "0"], ["db", "stats"]):
        said = accord(*command, "--store", "sqlite:///hello.py", cwd=tmp_path)
        assert "hello.py is not a database" in said
        assert "--store" in said


@pytest.mark.parametrize(("args", "said"), [
    (["--log-level", "loud"], "'warning'"),
    (["--url", "nonsense"], "write it like https://"),
    (["--prot", "1"], "--port"),
])  # fmt: skip
def test_an_option_with_a_mistake(tmp_path, args, said):
    (tmp_path / "hello.py").write_text(HELLO)
    assert said in accord("serve", "hello.py", *args, cwd=tmp_path)


def test_a_task_that_is_not_there_or_has_ended(tmp_path):
    with hello(tmp_path) as url:
        assert "Leave out --task-id" in accord(
            "send", url, "Ada", "--task-id", "nope", cwd=tmp_path
        )
        for verb in ("get", "cancel", "watch"):
            said = accord("task", verb, url, "nope", cwd=tmp_path)
            assert "Task not found: nope" in said
            assert "--task-id" not in said  # which this command does not have
        sent = shell.accord("send", url, "Ada")
        task_id = shell.found(r"task (\S+) is completed", sent.err)
        said = accord("send", url, "Ada", "--task-id", task_id, cwd=tmp_path)
        assert "takes no more messages" in said
        assert "--context-id" in said
        assert "http://, not https://" in accord(
            "send", url.replace("http", "https"), "Ada", cwd=tmp_path
        )


def test_an_address_without_an_agent(tmp_path):
    """Nothing listens there, or something else does."""
    for command in (["card", "get", "http://127.0.0.1:9"], ["send", "http://127.0.0.1:9", "Ada"]):
        assert "accord serve FILE" in accord(*command, cwd=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _NotFound) as plain:
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        said = accord("card", "get", f"http://127.0.0.1:{plain.server_port}", cwd=tmp_path)
        plain.shutdown()
    assert "no agent card there" in said
    assert "the address that accord serve prints" in said


def test_grpc_without_its_extra(tmp_path):
    """The core brings neither protobuf nor grpcio; whoever asks for gRPC is told how to get
    them.
    """
    (tmp_path / "hello.py").write_text(HELLO)
    missing = "import sys; sys.modules['grpc'] = sys.modules['google.protobuf'] = None; "
    without = (
        missing + "from accord.cli import main; main(['serve', 'hello.py', '--grpc-port', '0'])"
    )
    done = run_sync(sys.executable, "-c", without, cwd=tmp_path)
    assert re.search(r"pip install '.*\[grpc\]'", done.err)
    assert "Traceback" not in done.err


def test_run_says_where_it_serves(tmp_path):
    """`python hello.py` must not look as if nothing happened."""
    (tmp_path / "hello.py").write_text(HELLO + "agent.run(port=0)\n")
    with start(sys.executable, "hello.py", cwd=tmp_path) as process:
        assert re.fullmatch(
            r"Hello is served at http://127.0.0.1:\d+   \(Ctrl-C stops it\)", process.line_sync()
        )
        assert process.stop_sync(signal.SIGINT) == 0


def test_ctrl_c_while_waiting_says_that_the_work_goes_on(tmp_path):
    """Hanging up ends nothing at the agent; who presses Ctrl-C to cancel has to know."""
    body = 'async def greet(name: str):\n    yield "first"\n    await asyncio.Event().wait()\n'
    text = "import asyncio\n" + HELLO.partition("def greet")[0] + body
    with (
        hello(tmp_path, text) as url,
        start(sys.executable, "-m", "accord", "send", url, "Ada", "--stream") as process,
    ):
        until_sync(lambda: process.out.text == "first", "the first chunk")
        process.stop_sync(signal.SIGINT)
    assert "the agent goes on with its task" in process.err.text
    assert "Traceback" not in process.err.text


class _NotFound(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *args):
        """Nobody reads it."""
