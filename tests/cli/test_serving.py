"""What `accord serve` and `agent.run` do beside answering: log, reload, take limits."""

import asyncio
import inspect
import json
import logging
import os
import re
import signal
import sys

import aiohttp
import pytest
from click.testing import CliRunner

from accord import Agent, connect
from accord.cli import main
from tests.cli.shell import served
from tests.processes import start, until, until_sync

TEAM = """
from accord import Agent
agent = Agent('Team')

@agent.skill
def greet(name: str) -> str:
    if name == 'x':
        raise OSError('no flour')
    return f'Hi {name}'
"""


def accord(*words):
    """A command, in this process: starting others takes most of a test's time."""
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def team(tmp_path, alone):
    (tmp_path / "team.py").write_text(TEAM)
    return tmp_path


def test_one_line_per_request_and_per_task(team):
    words = ("team.py", "--store", "memory://", "--log-level", "info")
    with served(*words, cwd=team) as (process, url):
        sent = json.loads(accord("send", url, "Ada", "-o", "json").stdout)["task"]
        accord("task", "get", url, "no-such-task")
        accord("send", url, "x")
        log = process.err
        until_sync(lambda: "no flour" in log.text, "the traceback")
        task = re.escape(sent["id"])
        line = rf"^{STAMP} INFO: SendStreamingMessage caller=- task={task} state=\w+ [\d.]+ ms$"
        assert len(re.findall(line, log.text, re.M)) == 1
        line = rf"^{STAMP} INFO: task {task} is completed, skill=greet caller=- \d+ ms$"
        assert len(re.findall(line, log.text, re.M)) == 1
        assert re.search(rf"^{STAMP} INFO: AgentCard caller=- task=- state=- ", log.text, re.M)
        assert re.search(rf"^{STAMP} INFO: GetTask caller=- error=TaskNotFound: ", log.text, re.M)
        assert re.search(
            rf"^{STAMP} ERROR: task \S{{36}}: skill greet failed, reference \w+\nTraceback",
            log.text,
            re.M,
        )


def test_the_lines_are_objects_for_programs(team):
    words = ("--store", "memory://", "--log-level", "info", "--log-format", "json")
    with served("team.py", *words, cwd=team) as (process, url):
        sent = json.loads(accord("send", url, "Ada", "-o", "json").stdout)["task"]
        until_sync(lambda: "is completed" in process.err.text)
        lines = [json.loads(line) for line in process.err.text.splitlines()]
    [request] = [line for line in lines if line.get("operation") == "SendStreamingMessage"]
    [task] = [line for line in lines if line["logger"] == "accord.tasks"]
    assert request["task_id"] == task["task_id"] == sent["id"]
    assert task["state"] == "completed"
    assert task["skill"] == "greet"
    assert isinstance(task["ms"], int)
    assert isinstance(request["ms"], float)


def test_nothing_is_logged_unless_asked_for(team):
    with served("team.py", "--store", "memory://", cwd=team) as (process, url):
        accord("send", url, "Ada")
        assert process.stop_sync() == 0
        assert process.err.text == ""


def test_logging_that_the_program_has_set_up_stays_as_it_is(team):
    (team / "own.py").write_text(
        "import logging\nlogging.basicConfig(level='INFO', format='OWN %(message)s')\n" + TEAM
    )
    words = ("own.py", "--store", "memory://", "--log-format", "json", "--log-level", "info")
    with served(*words, cwd=team) as (process, url):
        accord("send", url, "Ada")
        until_sync(lambda: "is completed" in process.err.text)
        assert all(line.startswith("OWN ") for line in process.err.text.splitlines())


def test_every_limit_can_be_set(team):
    words = ("--store", "memory://", "--limits", "body=1KiB,tasks=5", "--limits", "parts=1")
    with served("team.py", *words, cwd=team) as (_, url):
        assert "1024 bytes" in accord("send", url, "a" * 2000).stderr
        assert "parts" in accord("send", url, "a", "--text", "b").stderr
    for wrong, what in [("bodies=1", "one of body, "), ("body=much", "like 500 or 8MiB")]:
        assert what in accord("serve", str(team / "team.py"), "--limits", wrong).stderr
    assert "is a time" in accord("serve", str(team / "team.py"), "--retention", "keys_s=-1").stderr


def test_a_change_starts_the_agent_again(team):
    words = ("serve", "team.py", "--port", "0", "--store", "memory://", "--reload")
    with start(sys.executable, "-m", "accord", *words, cwd=team) as process:

        def url():
            found = re.findall(r"served at (\S+)", process.out.text)
            return found[-1] if found else None

        first = until_sync(url)
        assert accord("send", first, "Ada").stdout == "Hi Ada\n"
        until_sync(lambda: "watching" in process.err.text)
        (team / "team.py").write_text("not Python\n")
        until_sync(lambda: "line 1" in process.err.text, "the mistake is named")
        (team / "team.py").write_text(TEAM.replace("Hi", "Hello"))
        second = until_sync(lambda: url() if url() != first else None, "the new start")
        assert accord("send", second, "Ada").stdout == "Hello Ada\n"
        assert process.stop_sync(signal.SIGTERM) == 0


def agent_of_one_skill() -> Agent:
    agent = Agent("Team")

    @agent.skill
    async def greet(name: str) -> str:
        return f"Hi {name}"

    return agent


def test_run_and_serve_take_what_an_app_takes():
    app, run, serve = (
        set(inspect.signature(method).parameters) for method in (Agent.app, Agent.run, Agent.serve)
    )
    assert app <= run
    assert app <= serve <= run


async def test_run_in_a_loop_says_what_to_write():
    with pytest.raises(RuntimeError, match=r"await agent\.serve"):
        agent_of_one_skill().run()


async def test_an_agent_is_served_in_the_loop_of_a_program():
    """Two of them, beside each other; each ends when it is cancelled."""
    urls: list[str] = []
    serving = [
        asyncio.create_task(
            agent_of_one_skill().serve(port=0, store="memory://", on_start=urls.append)
        )
        for _ in range(2)
    ]
    await until(lambda: len(urls) == 2)
    for url in urls:
        async with connect(url) as client:
            assert (await client.send("Ada")).text == "Hi Ada"
    for task in serving:
        task.cancel()
    ended = await asyncio.gather(*serving, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2


async def test_sigterm_ends_an_agent_in_the_loop_of_a_program():
    urls: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    serving = asyncio.create_task(
        agent_of_one_skill().serve(port=0, store="memory://", on_start=urls.append)
    )
    await until(lambda: urls)
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        await serving
    assert signal.getsignal(signal.SIGTERM) is before


async def test_a_port_that_is_taken_is_named_in_a_loop_too():
    urls: list[str] = []
    first = asyncio.create_task(
        agent_of_one_skill().serve(port=0, store="memory://", on_start=urls.append)
    )
    await until(lambda: urls)
    port = int(urls[0].rpartition(":")[2])
    with pytest.raises(RuntimeError, match="is in use"):
        await agent_of_one_skill().serve(port=port, store="memory://")
    first.cancel()
    await asyncio.wait([first])


async def test_behind_a_proxy_a_wrong_address_is_named_once(caplog):
    caplog.set_level(logging.WARNING, "accord")
    headers = {"X-Forwarded-Host": "agents.example", "X-Forwarded-Proto": "https"}
    async with agent_of_one_skill().app().serving() as url, aiohttp.ClientSession() as http:
        for _ in range(2):
            async with http.get(f"{url}/.well-known/agent-card.json", headers=headers) as answer:
                assert (await answer.json())["supportedInterfaces"][0]["url"] == f"{url}/"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "--url https://agents.example" in said[0]
    assert url in said[0]
