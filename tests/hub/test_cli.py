"""accord hub, as a person types it."""

import asyncio
import contextlib
import json
import re
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
from tests.hub.test_backup import PEM
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
        assert "egress   to public addresses; allow others with --allow-host" in lines


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
        assert "accord hub list" in accord("hub", "show", "nope", *hub, cwd=tmp_path).err
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


def test_commands_call_the_hub_of_their_folder(tmp_path):
    """On whatever port it is; not the usual address, where another one may be."""
    with hub_served(tmp_path) as (_, url):
        listed = accord("hub", "key", "list", cwd=tmp_path)
        assert listed.code == 0, listed.err
        assert "local-admin" in listed.out
        with showing_keys() as (other, shown):
            accord("hub", "key", "list", "--hub", other, cwd=tmp_path)
            assert shown == [None]  # what is named counts before the folder's
        assert "no agents yet" in accord("hub", "list", "--hub", url, cwd=tmp_path).out


def test_an_agent_of_a_team_is_called_after_a_login(tmp_path, monkeypatch):
    """Its card is for those who are logged in, and options' credentials are not sent to cards."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    agent = served(str(EXAMPLES / "echo.py"), cwd=tmp_path)
    with hub_served(tmp_path) as (_, url), agent as (_, echo):
        given = ("--visibility", "team", "--team", "hr")
        assert accord("hub", "add", echo, *given, cwd=tmp_path).code == 0
        tried = accord("hub", "policy", "try", "echo", "--caller", "bob", cwd=tmp_path).out
        assert tried == "deny: it is for team hr only\n"
        eve = ("eve", "--role", "user", "--team", "hr")
        key = accord("hub", "key", "new", *eve, cwd=tmp_path).out.strip()
        place = f"{url}/agents/echo/"
        refused = accord("send", place, "hello", "--api-key", key, cwd=tmp_path)
        assert refused.code != 0
        login = ("auth", "login", place, "--with", "key")
        assert f"Log in with:  accord {' '.join(login)}" in refused.err
        done = CliRunner().invoke(main, [*login, "--secret-stdin"], input=f"{key}\n")
        assert done.exit_code == 0, done.output
        assert CliRunner().invoke(main, ["send", place, "hello"]).stdout == "hello\n"


def test_only_a_changed_card_is_marked(tmp_path):
    """The first card of an agent that waits is no change; a refresh says that there is one."""
    file = tmp_path / "pay.py"
    words = "from accord import Agent\nagent = Agent('Pay', description='{}')\n"
    words += "@agent.skill\ndef pay(name: str) -> str:\n    return name\n"
    file.write_text(words.format("Pays people."))
    with hub_served(tmp_path):
        key = accord("hub", "key", "new", "pub", "--role", "publisher", cwd=tmp_path).out.strip()
        with served(str(file), cwd=tmp_path) as (process, url):
            added = accord("hub", "add", url, "--hub-key", key, cwd=tmp_path).out
            listed = accord("hub", "list", cwd=tmp_path)
            assert "pending" in listed.out
            assert "*" not in listed.out + listed.err
            accord("hub", "approve", found(r"(\S+) is pending", added), cwd=tmp_path)
            process.stop_sync()
        file.write_text(words.format("Pays people quickly."))
        command = (sys.executable, "-m", "accord", "serve", str(file))
        with start(*command, "--port", str(urlsplit(url).port), cwd=tmp_path) as process:
            process.line_sync()
            said = accord("hub", "refresh", "pay", cwd=tmp_path).out
            assert "version 1 of its card in use\nversion 2 is not; see:" in said
            listed = accord("hub", "list", cwd=tmp_path)
            assert "approved *" in listed.out
            assert "* the latest card is not in use" in listed.err
            assert "Pays people quickly." in accord("hub", "diff", "pay", cwd=tmp_path).out


def test_the_admins_key_is_shown_to_nobody_after_the_hub_was_killed(tmp_path):
    """What listens at its address then is not the hub."""
    with hub_served(tmp_path) as (process, _):
        process.kill()
    with showing_keys() as (other, shown):
        (tmp_path / ".accord" / "hub.address").write_text(f"{other}\n")
        assert accord("hub", "key", "list", "--hub", other, cwd=tmp_path).code != 0
        assert shown == [None]


def test_what_is_no_hub_is_called_so(tmp_path):
    """As a web page at the usual port, or an agent: the error names no route of theirs."""
    agents = json.dumps({"error": {"code": 404, "message": "no GET /api/v1/agents here"}}).encode()
    for answer in ((200, b"<html>hello"), (404, b"<html>not found"), (404, agents)):
        with answering(lambda handler, answer=answer: answer) as url:  # type: ignore[misc]
            done = accord("hub", "list", "--hub", url, cwd=tmp_path)
        assert done.code != 0
        assert f"the server at {url} is not a hub" in done.err
        assert "/api/v1" not in done.err


def test_errors_of_verbs_name_what_can_be_typed(tmp_path):
    """Not a route or a header of the REST interface, which the verb takes care of."""
    with hub_served(tmp_path) as (_, url):
        missing = accord("hub", "show", "nobody", "--hub", url, cwd=tmp_path)
        refused = accord("hub", "key", "list", "--hub", url, "--hub-key", "no", cwd=tmp_path)
    assert "accord hub list" in missing.err
    assert "--hub-key" in refused.err
    for done in (missing, refused):
        assert "/api/" not in done.err
        assert "X-API-Key" not in done.err


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
        added = accord("hub", "add", "--from", "agents.txt", "--hub", url, cwd=tmp_path)
        assert added.code == 1
        assert "echo is approved" in added.out
        lines = added.err.splitlines()
        assert [line.partition(": not added: ")[0] for line in lines[:2]] == [
            "http://127.0.0.1:1",
            "ftp://nowhere",
        ]
        assert all(line.partition(": not added: ")[2] for line in lines[:2])
        assert lines[1].endswith("write an address like https://hr.corp.example")
        shown = accord("hub", "set", "echo", "probe=free", "--hub", url, cwd=tmp_path).out
        assert "settings   changes=hold texts=hold" in shown
        assert "probe=free" in shown


def test_an_agent_registers_itself_and_leaves_in_good_order(tmp_path, monkeypatch):
    """Beats come ten times as often as usual, so that missing three of them does not take long."""
    monkeypatch.setenv("ACCORD_HUB_HEARTBEAT_S", "1")
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
        assert "its first card" in hub("diff", "echo")
        approved = hub("approve", "echo")  # shows what it approves
        assert f"interface JSONRPC 1.0 {echo}" in approved
        assert "version 1 of its card in use" in approved
        assert "suspended" in hub("suspend", "echo")
        assert "approved" in hub("resume", "echo")
        assert "version 1" in hub("refresh", "echo")
        assert "team, hr" not in hub("set", "echo", "changes=pin", "--visibility", "private")
        wrong = hub("set", "echo", "probe=sometimes", code=1)
        assert "probe=sometimes: choose from on, free, off" in wrong
        assert "hr" in hub("team", "add", "hr") + hub("team", "list")
        text = hub("key", "new", "mia", "--role", "user", "--team", "hr")
        assert "accord_" in text
        assert "user" in hub("key", "list")
        assert "publisher" in hub("user", "set", "https://id/sub", "--role", "publisher")
        assert "https://id/sub" in hub("user", "list")
        assert "removed" in hub("user", "remove", "https://id/sub")
        assert "none" in hub("user", "list")
        made = hub("policy", "add", "deny", "!team:hr", "call", "skill:echo/*")
        rule = found(r"rule (\w+) is", made)
        assert hub("policy", "list").split()[-1] == "-"  # no limit, not a limit of 0
        assert hub("policy", "try", "echo", "--caller", "x").startswith("deny")
        hub("policy", "remove", rule)
        hub("network", "add", "10.9.0.0/16", "--why", "the lab")
        assert "the lab" in hub("network", "list")
        hub("network", "remove", "10.9.0.0/16")
        keys = tmp_path / "us.pem"
        keys.write_text(PEM)
        trusted = found(r"id (\w+)", hub("trust", "add", "us", str(keys), "--expires", "90d"))
        assert "us" in hub("trust", "list")
        assert "not trusted any more" in hub("trust", "remove", trusted)
        keys.write_text('{"no": JSON')
        for wrong, why in ((str(keys), "is not JSON"), ("nothing.pem", "can't be read")):
            assert f"Error: {wrong} {why}: " in hub("trust", "add", "us", wrong, code=1)
        assert "is not JSON" in hub("add", "--from", str(keys), code=1)
        gone = {"type": "application/a2a-agent-card+json", "url": "http://127.0.0.1:1/card.json"}
        keys.write_text(json.dumps({"entries": [{"identifier": "urn:a", **gone}]}))
        assert "1 of 1 agents were not added" in hub("add", "--from", str(keys), code=1)
        keys.write_bytes(b"\xff\xfe")
        assert "is not text" in hub("add", "--from", str(keys), code=1)
        given = ["hub", "credential", "set", "echo", "apiKey", "--hub", url]
        assert CliRunner().invoke(main, given, input="a-secret").output == "echo: apiKey is set\n"
        assert "removed" in hub("credential", "remove", "echo", "apiKey")
        mine = found(r"(\w+) +mia", hub("key", "list"))
        assert f"key {mine} is revoked" in hub("key", "revoke", mine)
        assert "mia" not in hub("key", "list")
        assert "hr" in hub("team", "remove", "hr")
        assert "none" in hub("team", "list")
        assert re.search(r"^\d+ +\d{4}-\d\d-\d\d \d\d:\d\d +\S+ +network.add", hub("audit"), re.M)
        assert "whole" in hub("audit", "--verify")
        assert "sealed anew: 0" in hub("rekey")
        assert "no open alert" in hub("inbox", "--dismiss", "0", code=1)
        assert "none" in hub("inbox") + hub("credential", "list", "echo")
        assert "in use" in hub("reject", "echo", "1", code=1)
        assert "retired" in hub("remove", "echo")
        assert "no agents yet" in hub("list")
