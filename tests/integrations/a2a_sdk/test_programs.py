"""`accord run`: programs written for a2a-sdk 0.2, 0.3 and 1.x run unchanged, served by Accord."""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord import A2AError, InvalidParams, connect
from accord.model import StatusUpdate, TaskState
from tests.processes import free_port, run, start, until, until_listening

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SDKS = {
    "0.2": (ROOT / ".venv-02/bin/python", "server0.py"),
    "0.3": (ROOT / ".venv-03/bin/python", "server0.py"),
    "1.x": (Path(sys.executable), "server1.py"),
}


@asynccontextmanager
async def program(sdk: str, *options: str, file: str = "", args: Sequence[str] = ()):
    """A program under `accord run`."""
    python, server = SDKS[sdk]
    server = file or server
    port = free_port()
    command: list[str | Path] = [python, "-m", "accord", "run", *options, HERE / server]
    command += [str(port), *args]
    with start(*command, env={"PYTHONPATH": str(ROOT / "src")}) as process:
        await until_listening(port)
        yield process, f"http://127.0.0.1:{port}"
        assert await process.stop() == -signal.SIGTERM  # so ends uvicorn, in good order


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_program_runs_unchanged(sdk):
    async with program(sdk) as (_, url), connect(url) as client:
        assert client.card.name == "Hello World Agent"
        assert [skill.id for skill in client.card.skills] == ["hello_world"]

        reply = await client.send("hello")
        assert (reply.text, reply.task) == ("Hello World", None)
        reply = await client.send("chunks")
        assert (reply.text, reply.state) == ("one two three", TaskState.COMPLETED)
        assert [a.artifact_id for a in reply.task.artifacts] == ["count"]
        chunks = [text async for text in client.stream("chunks").text()]
        assert chunks == ["one ", "two ", "three"]

        reply = await client.send("ask")
        assert reply.question == "Which day?"
        reply = await reply.answer("Monday")
        assert (reply.text, reply.state) == ("Monday on turn 3", TaskState.COMPLETED)

        events = [event async for event in client.stream("plan")]
        said = [e.status.message.text for e in events if _has_message(e)]
        assert said == ["looking"]

        reply = await client.send("fail")
        assert (reply.state, reply.task.status.message.text) == (
            TaskState.FAILED,
            "it can't be done",
        )
        assert (await client.send("leave")).state is TaskState.COMPLETED
        with pytest.raises(InvalidParams, match="not like this"):
            await client.send("refuse")
        with pytest.raises(A2AError, match="Reference") as refused:
            await client.send("break")
        assert "secret" not in str(refused.value)


def _has_message(event) -> bool:
    return isinstance(event, StatusUpdate) and event.status.message is not None


@pytest.mark.parametrize("sdk", SDKS)
async def test_cancel_asks_the_executor_first(sdk):
    async with program(sdk) as (process, url), connect(url) as client:
        reply = await client.send("wait", wait=False)
        await until(lambda: "waiting" in process.out.text)
        task = await client.cancel(reply.task_id)
        assert task.status.state is TaskState.CANCELED
        assert task.status.message.text == "stopped as you wished"
        await until(lambda: "cancelled" in process.err.text)


@pytest.mark.parametrize("version", ["0.3", "0.1"])
async def test_a_program_answers_versions_it_does_not_know(version):
    async with program("1.x") as (_, url), connect(url, version=version) as client:
        assert (await client.send("chunks")).text == "one two three"


async def test_the_routes_of_a_program_are_its_own_and_its_tasks_are_stored(tmp_path):
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with program("1.x", "--store", store) as (_, url), connect(url) as client:
        done = await run("curl", "-s", f"{url}/mine")
        assert done.out == "the program's own"
        asked = await client.send("ask")
    async with program("1.x", "--store", store) as (_, url), connect(url) as client:
        reply = await client.send("Monday", task_id=asked.task_id)
        assert reply.text == "Monday on turn 3"


PUBLIC = "https://agents.example.com/hello"


async def called(url: str, name: str) -> tuple[int, set[str]]:
    """Call the agent, and ask for its card, as a client that knows the server by this name. Returns
    the status, and the addresses in the card.
    """
    to = ("curl", "-s", "-H", f"Host: {name}")
    sent = ("-H", "Content-Type: application/json", "-d", "{}", f"{url}/")
    done = await run(*to, "-o", "/dev/null", "-w", "%{http_code}", *sent)
    card = json.loads((await run(*to, f"{url}/.well-known/agent-card.json")).out)
    return int(done.out), {one["url"].rstrip("/") for one in card["supportedInterfaces"]}


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_program_is_reached_by_the_name_in_its_card(sdk):
    """It stands behind a proxy, whose name nobody told us but the program. Other names may be an
    attacker's.
    """
    async with program(sdk, args=[f"{PUBLIC}/"]) as (_, url):
        assert await called(url, "agents.example.com") == (200, {PUBLIC})
        assert (await called(url, "other.example.com"))[0] == 421


async def test_an_address_given_to_accord_run_counts_more_than_the_card():
    """And what comes after the program's name is the program's own."""
    other = "https://a2a.example.org"
    async with program("1.x", "--url", other, args=[PUBLIC, "--url", "x"]) as (_, url):
        assert await called(url, "a2a.example.org") == (200, {other})
        assert (await called(url, "agents.example.com"))[0] == 421


async def test_a_program_takes_the_options_of_a_server():
    async with (
        program("1.x", "--limits", "body=2KiB", "--versions", "1.0") as (_, url),
        connect(url) as client,
    ):
        assert {one.protocol_version for one in client.card.supported_interfaces} == {"1.0"}
        with pytest.raises(A2AError, match="2048"):
            await client.send("x" * 4096)


async def test_server_and_client_of_a_founding_document_work_as_printed():
    """Both on a2a-sdk 0.2, the extended card included."""
    async with program("0.2") as (_, url):
        done = await run(SDKS["0.2"][0], HERE / "client02.py", url)
    assert done.code == 0, done.err
    told = [json.loads(line) for line in done.out.splitlines()]
    assert told[0] == ["card", "Hello World Agent", "1.0.0", 1]
    assert told[1] == ["extended", "Hello World Agent - Extended Edition", "1.0.1", 2]
    for way, message in told[2:]:
        assert (message["kind"], message["role"]) == ("message", "agent"), way
        assert message["parts"] == [{"kind": "text", "text": "Hello World"}]
    assert [way for way, _ in told[2:]] == ["send", "stream"]


async def test_without_a2a_sdk_it_says_what_to_install(tmp_path):
    (tmp_path / "a2a.py").write_text("raise ImportError('No module named a2a')")
    program = tmp_path / "program.py"
    program.write_text("print('run')")
    done = await run(
        sys.executable,
        *("-m", "accord", "run", program),
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"},
    )
    assert done.code == 1
    assert "pip install 'a2a-sdk" in done.err


async def test_two_turns_at_once_do_not_mix():
    async with program("1.x") as (_, url), connect(url) as client:
        replies = await asyncio.gather(*[client.send(f"wish {i}") for i in range(20)])
        assert [reply.text for reply in replies] == [f"wish {i} on turn 0" for i in range(20)]


@pytest.mark.parametrize(("sdk", "file"), [("0.3", "several0.py"), ("1.x", "several1.py")])
async def test_each_of_several_agents_answers_at_its_own_path(sdk, file):
    """One at the root, one below it, one below that one, on both bindings over HTTP."""
    async with program(sdk, file=file) as (_, url):
        for name, path in (("A", ""), ("B", "/b"), ("C", "/b/c")):
            for binding in ("JSONRPC", "HTTP+JSON"):
                async with connect(url + path, binding=binding) as client:
                    answer = (await client.send("who")).text
                    assert (client.card.name, answer) == (name, name), binding
        if sdk == "1.x":  # its handlers have copies of the cards, or there is no handler
            for name in "ABCD":
                done = await run("curl", "-s", f"{url}/cards/{name}.json")
                assert json.loads(done.out)["name"] == name
