"""Metrics, as Prometheus reads them."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from accord import Agent, Context, TaskNotFound, Unauthenticated, connect
from accord.app.metrics import listen_address
from accord.auth import ApiKeys
from accord.push import PushSettings
from tests.processes import PATIENCE_S, free_port, run, start
from tests.push.webhook import Call, webhook

ROOT = Path(__file__).parents[2]
OBSERVABILITY = ROOT / "docs" / "observability.md"
DASHBOARD = ROOT / "deploy" / "grafana" / "accord.json"

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Prometheus",
)


async def get(url: str, **query: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url, params=query) as answer:
        return await answer.text()


class Page:
    """A page of metrics, read by Prometheus's own library."""

    def __init__(self, text: str) -> None:
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._samples[name, frozenset(labels.items())]

    def get(self, name: str, **labels: str) -> float:
        """As a call, but 0 if it has not been counted."""
        return self._samples.get((name, frozenset(labels.items())), 0.0)


def desk() -> Agent:
    agent = Agent("Desk")

    @agent.skill
    async def order(item: str, ctx: Context) -> str:
        if item == "nothing":
            raise ValueError(item)
        if item == "ask":
            return await ctx.ask("Which?")
        return f"ordered {item}"

    return agent


@asynccontextmanager
async def busy(app) -> AsyncIterator[str]:
    """Requests of every kind, on every binding: good ones, a failing one, an open question."""
    async with app.serving() as url:
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
            async with connect(url, binding=binding) as client:
                await client.send("a shelf")
                await client.send("nothing")
                await client.send("ask")
                with pytest.raises(TaskNotFound):
                    await client.get("unknown")
                async for _ in client.stream("a table", push="http://127.0.0.1:9/hook"):
                    pass
        yield url


async def test_the_page_counts_what_happens():
    app = desk().app(grpc_port=0, metrics=0, allow_hosts=["127.0.0.1"])
    async with busy(app):
        page = Page(await get(app.metrics.url))
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
        of = {"agent": "Desk", "version": "1.0", "binding": binding}
        counts = [
            page("accord_requests_total", operation=operation, outcome=outcome, **of)
            for operation, outcome in (
                ("SendMessage", "OK"),
                ("SendStreamingMessage", "OK"),
                ("GetTask", "TASK_NOT_FOUND"),
            )
        ]
        assert counts == [3, 1, 1]
    skill = {"agent": "Desk", "skill": "order"}
    assert page("accord_run_seconds_count", state="completed", **skill) == 6
    assert page("accord_run_seconds_count", state="failed", **skill) == 3
    assert page("accord_tasks", state="input-required", **skill) == 3
    assert page("accord_commit_items_sum") >= page("accord_commit_seconds_count") > 0
    assert page("accord_stored_tasks", state="failed") == 3
    assert page("accord_ready") == page("accord_lease_valid") == 1
    assert page("accord_store_outage_seconds") == 0
    assert page("accord_loop_lag_seconds") >= 0
    assert page("accord_push_lag_seconds") >= 0


async def test_what_is_served_is_documented_and_has_a_help_text(tmp_path):
    """Every metric of ours, and none that is not there."""
    app = desk().app(store=f"sqlite:///{tmp_path}/desk.db", metrics=0)
    async with app.serving():
        text = await get(app.metrics.url)
    helps = dict(re.findall(r"^# HELP (accord_\w+) (.+)$", text, re.MULTILINE))
    assert set(helps) == set(re.findall(r"^# TYPE (accord_\w+) ", text, re.MULTILINE))
    rows = re.findall(r"^\| (`accord_.*?) \|", OBSERVABILITY.read_text(), re.MULTILINE)
    assert set(helps) == set(re.findall(r"accord_\w+", " ".join(rows)))


async def test_attempts_to_push_and_what_is_given_up_are_counted():
    settings = PushSettings(schedule_s=(0.0, 0.0), breaker_s=0.01)
    app = desk().app(metrics=0, push=settings, allow_hosts=["127.0.0.1"])
    async with app.serving() as url, webhook() as hook, connect(url) as client:

        async def attempts(outcome: str) -> float:
            page = Page(await get(app.metrics.url))
            return page.get("accord_push_attempts_total", outcome=outcome)

        for outcome, status in (
            ("delivered", 200),
            ("refused", 400),
            ("later", 503),
            ("gone", 410),
        ):
            hook.judge = partial(answer, status)
            await client.send("a shelf", push=hook.url)
            async with asyncio.timeout(PATIENCE_S):
                while not await attempts(outcome):  # noqa: ASYNC110  counted elsewhere
                    await asyncio.sleep(0.01)
        page = Page(await get(app.metrics.url))
    assert page("accord_push_dead_letters_total") > 0


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_who_is_refused_is_counted(binding):
    agent = Agent("Desk", auth=ApiKeys())
    agent.skill(listen, id="listen")
    app = agent.app(grpc_port=0, metrics=0)
    async with app.serving() as url, connect(url, binding=binding) as client:
        with pytest.raises(Unauthenticated):
            await client.send("hello")
        page = Page(await get(app.metrics.url))
    of = {"agent": "Desk", "operation": "unknown", "version": "unknown", "binding": binding}
    assert page("accord_requests_total", outcome="UNAUTHENTICATED", **of) == 1


async def test_there_is_only_the_page_and_only_for_this_machine():
    app = desk().app(metrics=0)
    async with app.serving(), aiohttp.ClientSession() as session:
        assert app.metrics.url.startswith("http://127.0.0.1:")
        async with session.get(app.metrics.url.replace("/metrics", "/")) as answer:
            assert answer.status == 404
        async with session.post(app.metrics.url) as answer:
            assert answer.status == 405


async def listen(text: str) -> str:
    return text


def answer(status: int, call: Call) -> int:
    return status


@needs_prometheus
async def test_promtool_finds_nothing_to_complain_about(tmp_path):
    app = desk().app(grpc_port=0, metrics=0, allow_hosts=["127.0.0.1"])
    async with busy(app):
        (tmp_path / "page").write_text(await get(app.metrics.url))
    done = await run("sh", "-c", f"promtool check metrics < {tmp_path}/page")
    assert done == (0, "", "")
    for what, file in (("config", "prometheus.yml"), ("rules", "alerts.yml")):
        done = await run("promtool", "check", what, ROOT / "deploy" / "prometheus" / file)
        assert done.code == 0, done.out + done.err


def queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for name, value in {"$__rate_interval": "1m", "$job": ".+", "$instance": ".+"}.items():
        found = [query.replace(name, value) for query in found]
    return found


def alerts() -> list[str]:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


@needs_prometheus
async def test_every_query_of_the_dashboard_answers_on_a_real_prometheus(tmp_path):
    """Grafana shows what these give. Each has something to show after a little traffic."""
    store = f"sqlite:///{tmp_path}/desk.db"
    app = desk().app(store=store, grpc_port=0, metrics=0, allow_hosts=["127.0.0.1"])
    async with busy(app):
        target = app.metrics.url.removeprefix("http://").removesuffix("/metrics")
        (tmp_path / "prometheus.yml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "200ms"},
                    "scrape_configs": [
                        {"job_name": "accord", "static_configs": [{"targets": [target]}]}
                    ],
                }
            )
        )
        port = free_port()
        with start(
            "prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            log=tmp_path / "prometheus.log",
        ):
            missing = set(queries())
            assert len(missing) > 25
            async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
                while missing:  # a rate needs two scrapes
                    await asyncio.sleep(0.1)
                    missing = {one for one in missing if not await answers(session, port, one)}
                for alert in alerts():  # whether it has an answer depends on this machine
                    await answers(session, port, alert)


async def answers(session: aiohttp.ClientSession, port: int, query: str) -> bool:
    url = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': query})}"
    try:
        async with session.get(url) as answer:
            if answer.status == 503:  # it is starting
                return False
            body = await answer.json()
    except aiohttp.ClientConnectionError:
        return False
    assert body["status"] == "success", f"{query}: {body}"
    return bool(body["data"]["result"])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (9464, ("127.0.0.1", 9464)),
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_where_metrics_are_served(given, found):
    assert listen_address(given) == found


@pytest.mark.parametrize("given", ["", "host", "host:", "host:port", "70000"])
def test_what_is_not_an_address_is_refused(given):
    with pytest.raises(ValueError, match="PORT or HOST:PORT"):
        listen_address(given)
