"""Spans as a collector gets them, from the real exporter by OTLP."""

import json
import logging
import re
import socket
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import aiohttp
import pytest

from accord import Agent, Context, TaskNotFound, connect, observe
from accord.push import Receiver, listening
from accord.server.process import JsonFormatter as Json
from tests.drive import JsonRpc
from tests.observe.collector import Span, tree
from tests.processes import Process, free_port, run_sync, start, until

AGENTS = """
from accord import Agent, Context, connect

hotels, trains, planner = Agent("Hotels"), Agent("Trains"), Agent("Planner")


def look_up(city: str) -> str:
    return f"a room in {city}"


@hotels.skill
async def book_room(city: str, ctx: Context) -> str:
    return await ctx.step(look_up, city)


@trains.skill
async def book_seat(city: str) -> str:
    return f"a seat to {city}"


@planner.skill
async def plan(city: str, ctx: Context) -> str:
    async with connect("HOTELS", binding="HTTP+JSON") as hotels:
        room = await ctx.delegate(hotels, city)
    seat = await ctx.delegate("TRAINS", city)
    return f"{room.text}, {seat.text}"
"""


def accord(folder: Path, collector_url: str, *words: str) -> Process:
    """A command; one that traces, if there is a collector."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector_url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    return start(sys.executable, "-m", "accord", *words, cwd=folder, env=env)


def serve(folder: Path, name: str, port: int, collector_url: str, *words: str) -> Process:
    words = ("serve", f"agents.py:{name}", "--port", str(port), "--no-console", *words)
    return accord(folder, collector_url, *words)


async def test_one_trace_from_a_client_through_a_hub_and_three_agents_with_push(traced, tmp_path):
    """Every process exports its part by itself. The whole is one tree, rightly nested, over all
    bindings and two versions: the planner calls the others through the hub, which the client calls
    too.
    """
    ports = {name: free_port() for name in ("hub", "hotels", "trains", "planner")}
    urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    at = f"{urls['hub']}/agents"
    agents = AGENTS.replace("HOTELS", f"{at}/hotels").replace("TRAINS", f"{at}/trains")
    (tmp_path / "agents.py").write_text(agents)
    (tmp_path / "agents.txt").write_text("\n".join([*urls.values()][1:]))
    told = []

    def seen() -> dict[str, Span]:
        """What the collector has of the trace of our call."""
        spans = flushed(traced)
        (root,) = [span for span in spans if span.service == "client" and not span.parent]
        return {span.id: span for span in spans if span.trace == root.trace}

    with ExitStack() as stack:
        processes = [
            stack.enter_context(serve(tmp_path, name, ports[name], traced.url, *words))
            for name, words in {
                "hotels": (),
                "trains": ("--versions", "0.3"),
                "planner": (),
            }.items()
        ]
        hub = ("hub", "--port", str(ports["hub"]), "--grpc-port", str(free_port()))
        words = (*hub, "--allow-host", "127.0.0.1", "--no-console")
        processes.append(stack.enter_context(accord(tmp_path, traced.url, *words)))
        for process in processes:
            await process.line()  # it is served
        add = ("hub", "add", "--from", "agents.txt", "--hub", urls["hub"])
        with accord(tmp_path, "", *add) as adding:
            assert await adding.wait() == 0
        receiver = Receiver(told.append, is_unverified=True)
        async with (
            listening(receiver) as hook,
            connect(f"{at}/planner", binding="GRPC") as client,
        ):
            reply = await client.send("Rome", push=hook)
            assert reply.text == "a room in Rome, a seat to Rome"
            await until(lambda: told and told[-1].state.word == "completed", "the last push")
        # One that stops waits for its collector only for a while, which may be short here.
        await until(lambda: len(seen()) >= len(TREE) + 2 * len(told), "all spans")
        for process in processes:
            assert await process.stop() == 0
    spans = seen()
    lines = tree([span for span in spans.values() if span.name != "push"], has_bindings=True)
    assert [re.sub(r"\.[0-9a-f]{16}\b", "", line) for line in lines] == TREE
    pushes = [span for span in spans.values() if span.name == "push"]
    assert sum(span.service == "client" for span in pushes) == len(told)
    for span in pushes:
        parent = spans[span.parent]
        expected = ("push", "Hub") if span.service == "client" else ("SendMessage", "Hub")
        assert (parent.name, parent.service) == expected


TREE = [
    "client: SendMessage CLIENT",
    "  Hub: SendMessage SERVER GRPC 1.0",
    "    Hub: invoke_agent planner INTERNAL",
    "      Hub: SendStreamingMessage CLIENT",
    "        Planner: SendStreamingMessage SERVER JSONRPC 1.0",
    "          Planner: invoke_agent Planner INTERNAL",
    "            Planner: invoke_agent Hotels CLIENT",
    "              Planner: SendStreamingMessage CLIENT",
    "                Hub: SendStreamingMessage SERVER HTTP+JSON 1.0",
    "                  Hub: invoke_agent hotels INTERNAL",
    "                    Hub: SendStreamingMessage CLIENT",
    "                      Hotels: SendStreamingMessage SERVER JSONRPC 1.0",
    "                        Hotels: invoke_agent Hotels INTERNAL",
    "                          Hotels: step look_up INTERNAL",
    "            Planner: invoke_agent Trains CLIENT",
    "              Planner: SendStreamingMessage CLIENT",
    "                Hub: SendStreamingMessage SERVER JSONRPC 1.0",
    "                  Hub: invoke_agent trains INTERNAL",
    "                    Hub: SendStreamingMessage CLIENT",
    "                      Trains: SendStreamingMessage SERVER JSONRPC 0.3",
    "                        Trains: invoke_agent Trains INTERNAL",
]

DURABLE = """
import asyncio
from pathlib import Path

from accord import Agent, Context

agent = Agent("Porter")


@agent.skill(durable=True)
async def carry(what: str, ctx: Context) -> str:
    if not Path("go").exists():
        Path("begun").touch()
        await asyncio.Event().wait()
    return f"carried {what}"
"""


async def test_a_run_that_goes_on_after_a_crash_belongs_to_the_trace_of_its_message(
    collector, tmp_path
):
    """The trace is stored with the task."""
    (tmp_path / "agents.py").write_text(DURABLE)
    port, trace = free_port(), "ab" * 16
    with serve(tmp_path, "agent", port, collector.url) as process:
        await process.line()
        headers = {"traceparent": f"00-{trace}-{'cd' * 8}-01"}
        async with connect(f"http://127.0.0.1:{port}", headers=headers) as client:
            task_id = (await client.send("a chest", wait=False)).task.id
        await until((tmp_path / "begun").exists)
        process.kill()
    (tmp_path / "go").touch()
    with serve(tmp_path, "agent", port, collector.url) as process:
        await process.line()
        async with connect(f"http://127.0.0.1:{port}") as client:
            assert (await client.wait(task_id)).text == "carried a chest"
        runs = await until(
            lambda: [span for span in collector.spans if span.name == "invoke_agent Porter"]
        )
        assert await process.stop() == 0
    (run,) = runs
    assert (run.trace, run.attributes["accord.resumed"]) == (trace, True)
    assert run.parent not in ("", "cd" * 8)  # the span of the request, in the process that died


async def test_a_process_stops_without_its_collector(tmp_path):
    """One that takes connections and never answers. By itself the exporter would wait an hour."""
    (tmp_path / "agents.py").write_text(AGENTS)
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        env = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{deaf.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
        }
        words = ("serve", "agents.py:trains", "--port", str(port), "--no-console")
        with start(sys.executable, "-m", "accord", *words, cwd=tmp_path, env=env) as process:
            await process.line()
            async with connect(f"http://127.0.0.1:{port}") as client:
                assert (await client.send("Rome")).text == "a seat to Rome"
            assert await process.stop() == 0


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_call_and_its_request_on_every_binding(traced, binding):
    agent = Agent("Desk", version="2.1")

    @agent.skill
    async def order(item: str) -> str:
        return f"ordered {item}"

    app = agent.app(grpc_port=0)
    async with app.serving() as url, connect(url, binding=binding) as client:
        await client.send("shelf")
        async for _ in client.stream("table"):
            pass
        with pytest.raises(TaskNotFound):
            await client.get("nothing")
    spans = flushed(traced)
    assert sorted(tree(spans)) == sorted(
        [
            "client: SendMessage CLIENT",
            "  client: SendMessage SERVER",
            "    client: invoke_agent Desk INTERNAL",
            "client: SendStreamingMessage CLIENT",
            "  client: SendStreamingMessage SERVER",
            "    client: invoke_agent Desk INTERNAL",
            "client: GetTask CLIENT",
            "  client: GetTask SERVER",
        ]
    )
    served = [span for span in spans if span.kind == "SERVER"]
    assert {span.attributes["a2a.protocol.binding"] for span in served} == {binding}
    assert {span.attributes["a2a.protocol.version"] for span in served} == {"1.0"}
    failed = [span for span in served if span.is_error]
    assert [span.attributes["error.type"] for span in failed] == ["TASK_NOT_FOUND"]
    run = next(span for span in spans if span.kind == "INTERNAL")
    assert run.attributes.pop("a2a.task.id")
    assert run.attributes.pop("gen_ai.conversation.id")  # the contextId
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.system": "accord",
        "gen_ai.agent.name": "Desk",
        "gen_ai.agent.version": "2.1",
        "accord.skill": "order",
        "a2a.task.state": "completed",
    }


async def test_what_fails_is_marked_and_texts_stay_here(traced):
    """Neither what a caller sends nor what an exception says is in a span."""
    agent = Agent("Desk")

    async def lock_away(what: str) -> str:
        raise KeyError(f"no place for {what}")

    @agent.skill
    async def keep(what: str, ctx: Context) -> str:
        return await ctx.step(lock_away, what)

    async with connect(agent) as client:
        assert (await client.send("hunter2")).state.word == "failed"
    spans = flushed(traced)
    errors = {span.name: span.attributes.get("error.type") for span in spans}
    assert errors["step lock_away"] == "KeyError"
    assert errors["invoke_agent Desk"] == "StepFailed"
    assert "hunter2" not in str(spans)


async def test_spans_of_your_own_are_in_the_run_and_calls_are_in_them(traced):
    """Libraries that trace find the current span where OpenTelemetry keeps it."""
    from opentelemetry import trace

    desk, shop = Agent("Desk"), Agent("Shop")

    @desk.skill
    async def order(item: str) -> str:
        return item

    @shop.skill
    async def sell(item: str, ctx: Context) -> str:
        with traced.provider.get_tracer("mine").start_as_current_span("think"):
            assert trace.get_current_span().is_recording()
            return (await ctx.delegate(desk, item)).text

    async with connect(shop) as client:
        await client.send("x")
    assert tree(flushed(traced)) == [
        "client: SendMessage CLIENT",
        "  client: SendMessage SERVER",
        "    client: invoke_agent Shop INTERNAL",
        "      client: think INTERNAL",
        "        client: invoke_agent Desk CLIENT",
        "          client: SendStreamingMessage CLIENT",
        "            client: SendStreamingMessage SERVER",
        "              client: invoke_agent Desk INTERNAL",
    ]


async def test_a_trace_that_is_not_sampled_has_no_spans_and_goes_along(traced):
    agent, shop = Agent("Desk"), Agent("Shop")
    seen = []

    @agent.skill
    async def order(item: str) -> str:
        seen.append(observe.current_trace())
        return item

    @shop.skill
    async def sell(item: str, ctx: Context) -> str:
        return (await ctx.delegate(agent, item)).text

    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-00", "tracestate": "vendor=1"}
    async with connect(shop, headers=headers) as client:
        await client.send("x")
    assert flushed(traced) == []
    (trace,) = seen
    assert (trace.trace_id, trace.is_sampled, trace.tracestate) == ("ab" * 16, False, "vendor=1")


async def test_lines_of_a_json_log_name_the_trace_and_the_task(traced):
    agent, lines = Agent("Desk"), []

    @agent.skill
    async def order(item: str) -> str:
        lines.append(json.loads(Json().format(logging.makeLogRecord({"msg": "here"}))))
        return item

    async with connect(agent) as client:
        await client.send("x")
    (run,) = [span for span in flushed(traced) if span.name == "invoke_agent Desk"]
    assert (lines[0]["trace_id"], lines[0]["span_id"]) == (run.trace, run.id)
    assert "trace_id" not in json.loads(Json().format(logging.makeLogRecord({"msg": "outside"})))


def flushed(collector):
    """All spans of this process that have ended."""
    assert collector.provider.force_flush()
    return collector.spans


async def test_the_environment_switches_traces_on_and_off(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert not observe.is_wanted()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert observe.is_wanted()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not observe.is_wanted()


async def test_a_send_that_nobody_observes_costs_three_looks_at_a_variable():
    """Whether this process traces, and of which trace the message is."""
    agent = Agent("Desk")

    @agent.skill
    async def order(item: str) -> str:
        return item

    calls: Counter[str] = Counter()
    room = f"{Path(observe.__file__ or '').parent}/"

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(room):
            calls[frame.f_code.co_name] += 1

    app = agent.app()
    async with app.serving() as url, aiohttp.ClientSession() as http:
        client = JsonRpc(http, url)
        await client.send("first")  # opens what is opened once
        sys.setprofile(count)
        try:
            await client.send("second")
        finally:
            sys.setprofile(None)
    assert calls == {"tracing": 1, "recorded_trace": 2}


def test_a_process_that_does_not_trace_does_not_load_opentelemetry():
    code = """if True:
        import sys
        from accord import Agent

        agent = Agent("Desk")

        @agent.skill
        def order(item: str) -> str: ...

        agent.app()
        print([name for name in ("opentelemetry", "prometheus_client") if name in sys.modules])
    """
    assert run_sync(sys.executable, "-c", code) == (0, "[]\n", "")
