"""accord hub, as a person types it."""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner

from accord.cli import main
from accord.hub import HubRefused, RestClient
from tests.cli.shell import accord, found, served
from tests.processes import Process, start, until_sync

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@contextmanager
def hub_served(cwd: Path, *words: str) -> Iterator[tuple[Process, str]]:
    """`accord hub` on a free port while the block lasts: the process and its address."""
    command = (sys.executable, "-m", "accord", "hub", "--port", "0", *words)
    with start(*command, cwd=cwd) as process:
        yield process, found(r"http\S+", process.line_sync())


def test_a_public_hub_says_at_start_that_nobody_comes_in_without_a_login(tmp_path):
    """Bound to loopback, behind a proxy there: what is off is not found out by surprise."""
    with hub_served(tmp_path, "--url", "https://hub.corp.example", "--no-console") as (process, _):
        lines = [process.line_sync().strip() for _ in range(6)]
        assert "guests   callers without a login may do nothing (--guests)" in lines
        assert "egress   to public addresses; others by --allow-host" in lines


def test_one_command_starts_a_hub_and_three_more_fill_it(tmp_path, capsys):
    """It probes the agents by itself, and lists them as up."""
    began = time.monotonic()
    files = [str(EXAMPLES / name) for name in ("echo.py", "trip.py", "hello.py")]
    with contextlib.ExitStack() as running:
        process, url = running.enter_context(hub_served(tmp_path))
        ready_s = time.monotonic() - began
        agents, _ = running.enter_context(served(*files, cwd=tmp_path))
        hub = ("--hub", url)
        lines = [process.line_sync() for _ in range(4)]
        assert any("/console/?key=" in line for line in lines)
        places = [found(r"http\S+", agents.line_sync()) for _ in files]
        added = [accord("hub", "add", place, *hub, cwd=tmp_path) for place in places]
        assert [one.code for one in added] == [0, 0, 0]
        assert "echo is approved: 1 skill\n" in added[0].out

        def are_up() -> bool:
            listed = accord("hub", "list", *hub, cwd=tmp_path).out.splitlines()[1:]
            return [line.split()[:3] for line in listed] == [
                [name, "approved", "up"] for name in ("echo", "hello", "trip-planner")
            ]

        until_sync(are_up)
        with capsys.disabled():
            print(f"\nthe hub is ready after {ready_s:.1f} s; three agents added, all up")
        shown = accord("hub", "show", "echo", *hub, cwd=tmp_path).out
        assert "skill      echo" in shown
        missing = accord("hub", "show", "nope", *hub, "-o", "json", cwd=tmp_path)
        assert missing.code == 1
        assert "no agent 'nope'" in json.loads(missing.out)["error"]["message"]
    away = accord("hub", "list", "--hub", url, cwd=tmp_path)
    assert away.code == 3
    assert "start one with:  accord hub" in away.err


def health_of(url: str, name: str) -> str:
    """How an agent is, as anybody sees it."""
    try:
        return str(
            asyncio.run(RestClient(url, "").call("GET", f"/agents/{name}"))["health"]["state"]
        )
    except HubRefused:
        return "missing"


def test_the_admins_key_is_shown_to_the_hub_of_this_folder_alone(tmp_path):
    """It was sent to whatever listens at an address of this machine."""
    with hub_served(tmp_path) as (process, url):
        assert accord("hub", "key", "list", "--hub", url, cwd=tmp_path).code == 0
        with showing_keys() as (other, shown):
            refused = accord("hub", "key", "list", "--hub", other, "-o", "json", cwd=tmp_path)
            assert f"write --hub {url}" in refused.out
            assert shown == [None]
        assert process.stop_sync() == 0
    assert not (tmp_path / ".accord" / "hub.address").exists()


@contextmanager
def showing_keys() -> Iterator[tuple[str, list[str | None]]]:
    """Something on this machine that asks for keys: its address, and those it was shown."""
    shown: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        shown.append(handler.headers.get("X-API-Key"))
        return 401, b""

    with answering(answer) as url:
        yield url, shown


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], tuple[int, bytes]]) -> Iterator[str]:
    """A server that is no hub of ours: its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_all_agents_are_listed_however_many_there_are(tmp_path):
    """A hub answers with 500 at most; the others come with the next page."""
    names = [f"agent-{n:04}" for n in range(1200)]
    usual = {"state": "approved", "health": {}, "visibility": "public", "description": ""}

    def answer(handler: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        query = parse_qs(urlsplit(handler.path).query)
        rest = [name for name in names if name > query.get("cursor", [""])[0]]
        agents = [{"name": name, **usual} for name in rest[:500]]
        more = rest[499] if len(rest) > 500 else ""
        body = {"agents": agents, "next": more, "total": len(names)}
        return 200, json.dumps(body).encode()

    with answering(answer) as url:
        listed = accord("hub", "list", "--hub", url, cwd=tmp_path).out
        assert [line.split()[0] for line in listed.splitlines()[1:]] == names
        found = json.loads(accord("hub", "list", "--hub", url, "-o", "json", cwd=tmp_path).out)
        assert [one["name"] for one in found["agents"]] == names


def test_a_file_of_agents_says_why_each_was_not_added(tmp_path):
    """And `show` has the settings, as `set` takes them."""
    agent = served(str(EXAMPLES / "echo.py"), cwd=tmp_path)
    with hub_served(tmp_path) as (_, url), agent as (_, echo):
        file = tmp_path / "agents.txt"
        file.write_text(f"{echo}\nhttp://127.0.0.1:1\nftp://nowhere\n")
        added = accord("hub", "add", "--file", "agents.txt", "--hub", url, cwd=tmp_path)
        assert added.code == 1
        assert "echo is approved" in added.out
        lines = added.err.splitlines()
        assert [line.partition(": not added: ")[0] for line in lines[:2]] == [
            "http://127.0.0.1:1",
            "ftp://nowhere",
        ]
        assert all(line.partition(": not added: ")[2] for line in lines[:2])
        shown = accord("hub", "set", "echo", "probe=free", "--hub", url, cwd=tmp_path).out
        assert "settings   changes=hold texts=hold" in shown
        assert "probe=free" in shown


def test_an_agent_registers_itself_and_leaves_in_good_order(tmp_path, monkeypatch):
    """Beats come ten times as often as usual, so that missing three of them does not take long."""
    monkeypatch.setenv("ACCORD_HUB_BEAT_S", "1")
    with hub_served(tmp_path) as (_, url):
        echo = str(EXAMPLES / "echo.py")
        with served(echo, "--hub", url, cwd=tmp_path) as (process, _):
            began = time.monotonic()
            until_sync(lambda: health_of(url, "echo") == "up")
            print(f"\nlisted and up after {time.monotonic() - began:.1f} s")
            assert process.stop_sync() == 0
            assert health_of(url, "echo") == "gone"
            print("gone as soon as its process had ended")
        with served(echo, "--hub", url, cwd=tmp_path) as (process, _):
            name = "echo-2"  # another port is another agent
            until_sync(lambda: health_of(url, name) == "up")
            process.kill()
            began = time.monotonic()
            until_sync(lambda: health_of(url, name) == "down")
            print(f"down {time.monotonic() - began:.1f} s after kill -9, with beats of 1 s")


def test_verbs_of_an_admin(tmp_path, monkeypatch):
    """Every verb once, as typed: they are thin, and the tests of REST prove what they do."""
    monkeypatch.chdir(tmp_path)
    agent = served(str(EXAMPLES / "echo.py"), cwd=tmp_path)
    with hub_served(tmp_path) as (_, url), agent as (_, echo):

        def hub(*words: str, code: int = 0) -> str:
            done = CliRunner().invoke(main, ["hub", *words, "--hub", url])
            assert done.exit_code == code, done.output
            return done.output

        hub("add", echo)
        assert "no differences" in hub("diff", "echo")
        approved = hub("approve", "echo")  # shows what it approves
        assert f"interface JSONRPC {echo}" in approved
        assert "version 1 of its card in use" in approved
        assert "suspended" in hub("suspend", "echo")
        assert "approved" in hub("resume", "echo")
        assert "version 1" in hub("refresh", "echo")
        assert "team, hr" not in hub("set", "echo", "changes=pin", "--visibility", "private")
        assert "hr" in hub("team", "add", "hr") + hub("team", "list")
        text = hub("key", "new", "mia", "--role", "user", "--team", "hr")
        assert "accord_" in text
        assert "role:user" in hub("key", "list")
        made = hub("policy", "add", "deny", "!team:hr", "call", "skill:echo/*")
        rule = found(r"rule (\w+) is", made)
        assert "deny" in hub("policy", "list")
        assert hub("policy", "try", "echo", "--name", "x").startswith("deny")
        hub("policy", "remove", rule)
        hub("network", "add", "10.9.0.0/16", "--why", "the lab")
        assert "the lab" in hub("network", "list")
        hub("network", "remove", "10.9.0.0/16")
        assert "network.add" in hub("audit")
        assert "whole" in hub("audit", "--verify")
        (tmp_path / "export.json").write_text(hub("export"))
        assert "there is an entry of this name" in hub("import", "export.json")
        assert "sealed anew: 0" in hub("rekey")
        assert "none" in hub("inbox") + hub("credential", "list", "echo")
        assert "in use" in hub("reject", "echo", "1", code=1)
        assert "retired" in hub("remove", "echo")
        assert "no agents yet" in hub("list")
