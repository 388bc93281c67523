"""Every example runs, and does what it says."""

import ast
import asyncio
import sys
from pathlib import Path

import pytest

from accord import connect
from accord.model import StatusUpdate
from accord.testing import Clock
from tests.cli.shell import found
from tests.drive import say, state_of, text_of
from tests.processes import run_sync, start

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    from accord.cli.load import load_agent

    return load_agent(str(EXAMPLES / f"{name}.py"))


async def test_hello_greets(connect_rpc):
    async with connect_rpc(load("hello")) as client:
        assert text_of((await client.send("Ada"))["task"]) == "Hello, Ada!"


async def test_echo_is_a_task_working_one_artifact_completed(connect):
    async with connect(load("echo")) as client:
        frames = await (await client.stream("hello")).rest()
        assert [next(iter(frame)) for frame in frames] == [
            "task",
            "statusUpdate",
            "artifactUpdate",
            "statusUpdate",
        ]
        assert text_of(frames[2]["artifactUpdate"]["artifact"]) == "hello"


async def test_the_ledger_books_in_a_database_that_its_lifespan_opened(connect):
    """Over every binding; the database is no part of what a caller sends."""
    async with connect(load("ledger")) as client:
        for cents in (1250, 50):
            booking = [{"data": {"account": "travel", "cents": cents}}]
            await client.send(say(booking, metadata={"skill": "book"}))
        task = (await client.send(say("travel", metadata={"skill": "balance"})))["task"]
        assert text_of(task) == "13.00"


async def test_the_row_counter_says_how_far_it_is():
    async with connect(load("count_rows")) as client:
        reply = await client.send("2")
        assert (reply.text, reply.progress) == ("All 2 rows are read.", (2, 2))


async def test_an_approval_is_paid_if_it_comes_in_time(tmp_path, monkeypatch):
    """And its receipt comes the day after."""
    monkeypatch.setenv("PAID", str(tmp_path / "paid.txt"))
    clock = Clock()
    async with clock.connect(load("approval")) as client:
        asked = await client.send("Invoice 17")
        late = await client.send("Invoice 18")
        answered = client.stream("true", task_id=asked.task_id)
        async for event in answered:
            said = event.status.message if isinstance(event, StatusUpdate) else None
            if said is not None and "receipt tomorrow" in said.text:
                break
        clock.advance(86_400)
        assert (await client.wait(asked.task_id)).text == "paid: Invoice 17, receipt 1"
        clock.advance(86_401)
        assert (await client.wait(late.task_id)).text == "not paid: Invoice 18"
        await answered.close()


async def test_trip_asks_and_streams(connect):
    async with connect(load("trip")) as client:
        task = (await client.send("Rome"))["task"]
        assert state_of(task) == "input-required"
        task = (await client.send(say("2", taskId=task["id"])))["task"]
        assert (state_of(task), text_of(task).count("Day")) == ("completed", 2)


async def test_chat_remembers_what_was_said_and_so_does_the_next_process(tmp_path):
    """The process is killed between two turns."""
    file, store = str(EXAMPLES / "chat.py"), f"sqlite:///{tmp_path}/t.db"
    said = []
    for text in ("hello", "and again"):
        command = [sys.executable, "-m", "accord", "serve", file, "--port", "0", "--store", store]
        with start(*command, cwd=tmp_path) as process:
            async with connect(found(r"http://[\d.:]+", await process.line())) as client:
                said.append((await client.send(text, context_id="c")).text)
            process.kill()
    assert said == ["You said: hello.", "You said: and again. Before that: hello."]


async def test_invoice_checks_reads_answers_and_declines(connect):
    async with connect(load("invoice")) as client:
        checked = (await client.send(say([{"data": {"number": "A-7", "net": 100}}])))["task"]
        assert checked["artifacts"][0]["parts"][0]["data"] == {"number": "A-7", "gross": 119}
        refused = (await client.send(say('{"number": "A-8", "net": -1}')))["task"]
        assert state_of(refused) == "rejected"
        read = (await client.send(say([{"raw": "YQpi", "filename": "a.txt"}])))["task"]
        assert text_of(read) == "2 lines"
        assert text_of((await client.send("When are you open?"))["message"]).startswith("Monday")


async def test_an_agent_is_a_tool_of_another(connect_rpc, monkeypatch):
    """The concierge hands on what the trip planner asks."""
    async with connect_rpc(load("trip")) as trips:
        monkeypatch.setenv("TRIPS", trips.url)
        concierge = await asyncio.to_thread(load, "agent_as_tool")  # this loop serves the trips
        async with connect_rpc(concierge) as client:
            task = (await client.send("Rome"))["task"]
            assert text_of(task["status"]["message"]).startswith("How many days")
            task = (await client.send(say("1", taskId=task["id"])))["task"]
            assert (state_of(task), text_of(task).count("Day")) == ("completed", 1)


@pytest.mark.parametrize("name", ["mcp_reader", "mcp_library"])
async def test_tools_of_an_mcp_server_are_used_and_served(connect_rpc, name):
    async with connect_rpc(load(name)) as client:
        assert "Moby-Dick" in str((await client.send("moby"))["task"]["artifacts"])


@pytest.mark.parametrize("name", ["agent_as_tool", "mcp_library", "mcp_reader"])
def test_an_integration_takes_fifteen_lines(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 15


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_one_idea_that_fits_on_a_page(path):
    """Examples are read before they are run: at most 120 lines, with a docstring that says what
    they show.
    """
    text = path.read_text()
    assert len(text.splitlines()) <= 120
    if path.stem not in ("__init__", "hello"):
        assert ast.get_docstring(ast.parse(text))


def test_hello_is_a_handful_of_lines():
    code = [line for line in (EXAMPLES / "hello.py").read_text().splitlines() if line.strip()]
    assert len(code) <= 6


async def test_onboarding_collects_what_three_departments_make_and_asks_back():
    """The case the project began from: discover by cards, delegate, stream progress, collect
    artifacts, ask what is missing.
    """
    from examples.onboarding import facilities, hr, it
    from examples.onboarding.onboarding import onboarding_agent

    async with connect(onboarding_agent([hr.agent, it.agent, facilities.agent])) as pro:
        reply = await pro.send({"name": "Ada Lovelace"})
        assert reply.question == "When does Ada Lovelace start?"
        reply = await reply.answer("2026-12-01")
        assert reply.question.startswith("Which laptop")
        stream = pro.stream("16", task_id=reply.task_id)
        said = [
            e.status.message.text
            async for e in stream
            if getattr(e, "status", None) and e.status.message
        ]
    artifacts = {artifact.name: artifact for artifact in stream.reply.task.artifacts}
    assert list(artifacts)[:6] == [
        "employee record",
        "welcome mail",
        "",
        "hardware order",
        "desk",
        "badge",
    ]
    assert said == [
        "IT: laptop ordered",
        "IT: laptop shipped",
        "IT: laptop at the front desk",
        "Facilities: desk assigned",
    ]
    assert artifacts["badge"].parts[0].raw.startswith(b"%PDF-1.4")
    assert stream.reply.state.word == "completed"


def test_the_onboarding_case_runs_with_one_command():
    done = run_sync(sys.executable, "-m", "examples.onboarding", cwd=EXAMPLES.parent)
    assert done.code == 0, done.err
    for shown in (
        "HR: record created",
        "IT: laptop shipped",
        "badge.pdf",
        "is ready to start",
        "ada.lovelace@company.example",
    ):
        assert shown in done.out
