"""The commands of deploy/, run without containers: two replicas on PostgreSQL and a proxy, each on
an address of its own; a pod; one process on a file.
"""

import asyncio
import functools
import json
import os
import re
import shutil
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from accord import connect
from accord.client import Client
from accord.client.auth import ApiKey
from accord.model import ArtifactUpdate
from tests.client.certs import Authority
from tests.deploy.test_files import DEPLOY, compose, instructions, manifests
from tests.postgres import schema_url
from tests.processes import Process, free_port, run, run_sync, start, until_listening

ACCORD = Path(sys.executable).with_name("accord")
PAGE = DEPLOY.parent / "docs" / "deploy" / "docker.md"
HOSTS = {"replica-1": "127.0.0.2", "replica-2": "127.0.0.3"}


class Ports(NamedTuple):
    http: int
    grpc: int
    metrics: int


def container(command: list[str], host: str, ports: Ports, others: dict[str, str]) -> Process:
    """What a container would run, at an address of this machine."""
    at = {
        "0.0.0.0": host,
        "8000": str(ports.http),
        "50051": str(ports.grpc),
        "9464": str(ports.metrics),
        **others,
    }
    command = [*json.loads(instructions("ENTRYPOINT")[0])[2:], *command]
    for known, here in at.items():
        command = [word.replace(known, here) for word in command]
    assert not any("$" in word for word in command)
    return start(ACCORD, "serve", *command, cwd=DEPLOY, env={"ACCORD_KEY": key()})


def replica(name: str, store: str, ports: Ports, url: str) -> Process:
    """A replica of the compose file."""
    others = {
        "postgresql://accord:${POSTGRES_PASSWORD}@postgres/accord": store,
        "https://${PUBLIC_HOST:-localhost}": url,
    }
    return container(compose()["services"][name]["command"], HOSTS[name], ports, others)


@functools.cache
def key() -> str:
    """The key that the replicas share."""
    done = run_sync(ACCORD, "keyring", "new")
    assert done.code == 0, done
    return done.out.strip()


async def is_healthy(name: str, ports: Ports) -> bool:
    """The health check of the image."""
    (instruction,) = instructions("HEALTHCHECK")
    program, *words = json.loads(instruction.partition("CMD ")[2])
    assert program == "python"
    words = [word.replace("127.0.0.1:8000", f"{HOSTS[name]}:{ports.http}") for word in words]
    return (await run(sys.executable, *words)).code == 0


@asynccontextmanager
async def replicas(url: str = "http://localhost") -> AsyncIterator[tuple[dict, Ports, str]]:
    """Both replicas, and a key of a caller."""
    ports = Ports(free_port(), free_port(), free_port())
    with schema_url() as store:
        running = {name: replica(name, store, ports, url) for name in HOSTS}
        try:
            for process in running.values():
                await process.line()
            done = await run(
                *(ACCORD, "key", "new", "mia"),
                *("--store", store, "--agent", DEPLOY / "agent.py"),
                env={"ACCORD_KEY": key()},
            )
            secret = re.search(r"\S{30,}", done.out)
            assert secret, done
            yield running, ports, secret[0]
        finally:
            for process in running.values():
                process.close()


async def test_two_replicas_come_up_are_healthy_and_drain():
    """On SIGTERM a replica lets go: durable work goes on in the other, and it ends with code 0."""
    async with replicas() as (running, ports, secret):
        for name in HOSTS:
            assert await is_healthy(name, ports)
            page = await asyncio.to_thread(read, f"http://{HOSTS[name]}:{ports.metrics}/metrics")
            assert "accord_ready 1.0" in page
        urls = {name: f"http://{host}:{ports.http}" for name, host in HOSTS.items()}
        async with (
            connect(urls["replica-1"], auth=ApiKey(secret)) as first,
            connect(urls["replica-2"], auth=ApiKey(secret)) as second,
        ):
            task = (await first.send(6, skill="copy", wait=False)).task
            assert await running["replica-1"].stop() == 0
            assert not await is_healthy("replica-1", ports)
            reply = await second.wait(task.id)
            assert reply.text == ", ".join(f"page {n}" for n in range(1, 7))
        assert await running["replica-2"].stop() == 0


async def test_a_pod_comes_up_answers_its_probes_and_drains():
    """What Kubernetes would run."""
    (found,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    host, ports = HOSTS["replica-1"], Ports(free_port(), free_port(), free_port())
    with (
        schema_url() as store,
        container(found["args"], host, ports, {"$(STORE)": store}) as process,
    ):
        await process.line()
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert found[probe]["httpGet"]["port"] == "http"
            path = found[probe]["httpGet"]["path"]
            await asyncio.to_thread(read, f"http://{host}:{ports.http}{path}")  # raises if not 200
        assert await process.stop() == 0


def hub_container(
    words: list[str], host: str, ports: Ports, others: dict[str, str], folder: Path
) -> Process:
    """What a container of a hub would run, at an address of this machine."""
    at = {
        "0.0.0.0": host,
        "8000": str(ports.http),
        "50051": str(ports.grpc),
        "9464": str(ports.metrics),
        **others,
    }
    for known, here in at.items():
        words = [word.replace(known, here) for word in words]
    assert not any("$" in word for word in words)
    folder.mkdir(exist_ok=True)
    return start(ACCORD, *words, cwd=folder, env={"ACCORD_KEY": key()})


@pytest.mark.parametrize("program", ["compose", "kubernetes"])
async def test_two_hubs_come_up_are_healthy_and_drain(tmp_path, program):
    """What compose and Kubernetes would run. Both hubs know each other, and end with code 0."""
    ports = Ports(free_port(), free_port(), free_port())
    if program == "compose":
        found = compose("hub")["services"]["replica-1"]
        words = [*found["entrypoint"], *found["command"]]
    else:
        (found,) = manifests("hub")["Deployment"]["spec"]["template"]["spec"]["containers"]
        words = [*found["command"], *found["args"]]
    with schema_url() as store:
        others = {
            "postgresql://accord:${POSTGRES_PASSWORD}@postgres/accord": store,
            "https://${PUBLIC_HOST:-localhost}": "https://hub.example.com",
            "$(STORE)": store,
        }
        hubs = {
            name: hub_container(words[1:], host, ports, others, tmp_path / name)
            for name, host in HOSTS.items()
        }
        try:
            for name, hub in hubs.items():
                await hub.line()
                assert await is_healthy(name, ports)
                page = read(f"http://{HOSTS[name]}:{ports.metrics}/metrics")
                assert "accord_ready 1.0" in page
            for hub in hubs.values():
                assert await hub.stop() == 0
        finally:
            for hub in hubs.values():
                hub.close()


async def test_one_hub_on_a_file_comes_up_and_stops(tmp_path):
    """What the unit tells systemd to run."""
    unit = (DEPLOY / "hub" / "accord-hub.service").read_text()
    words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)[1]
    words = words.replace("/var/lib/accord-hub/hub.db", str(tmp_path / "hub.db"))
    port = free_port()
    with start(ACCORD, *words.split(), "--port", str(port), cwd=tmp_path) as process:
        await process.line()
        await asyncio.to_thread(read, f"http://127.0.0.1:{port}/readyz")
        assert await process.stop() == 0
    assert (tmp_path / "hub.db").exists()


@pytest.mark.parametrize("program", ["docker", "systemd"])
async def test_one_process_on_a_file_comes_up_and_stops(tmp_path, program):
    """What the page tells Docker to run, and the unit systemd."""
    ports, host = Ports(free_port(), free_port(), free_port()), "127.0.0.1"
    tasks = tmp_path / "tasks.db"
    if program == "docker":
        (line,) = re.findall(r"^\$ docker run .* clerk (--.*)$", PAGE.read_text(), re.MULTILINE)
        process = container(line.split(), host, ports, {"/data/tasks.db": str(tasks)})
    else:
        unit = (DEPLOY / "accord.service").read_text()
        words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)[1]
        words = words.replace("/var/lib/accord/tasks.db", str(tasks))
        process = start(ACCORD, *words.split(), "--port", str(ports.http), cwd=DEPLOY)
    with process:
        await process.line()
        await asyncio.to_thread(read, f"http://{host}:{ports.http}/readyz")
        assert await process.stop() == 0
    assert tasks.exists()


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


# What each proxy reads, with addresses and certificates of this machine

Config = Callable[[Path, Ports, int, Path, Path], list[str | Path]]


def replaced(text: str, ports: Ports, others: dict[str, str]) -> str:
    at = {
        **others,
        **{f"{name}:8000": f"{host}:{ports.http}" for name, host in HOSTS.items()},
        **{f"{name}:50051": f"{host}:{ports.grpc}" for name, host in HOSTS.items()},
    }
    for known, here in at.items():
        assert known in text
        text = text.replace(known, here)
    return text


def nginx(folder: Path, ports: Ports, port: int, cert: Path, key: Path) -> list[str | Path]:
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no nginx here: apt install nginx")
    text = replaced(
        (DEPLOY / "nginx.conf").read_text(),
        ports,
        {
            "/etc/nginx/tls/fullchain.pem": str(cert),
            "/etc/nginx/tls/privkey.pem": str(key),
            "/tmp/nginx.pid": f"{folder}/nginx.pid",
            "listen 443": f"listen 127.0.0.1:{port}",
            "listen 50051": f"listen 127.0.0.1:{ports.grpc}",
        },
    )
    config = folder / "nginx.conf"
    config.write_text(f"daemon off;\n{text}")
    return [program, "-p", folder, "-e", "stderr", "-c", config]


def caddy(folder: Path, ports: Ports, port: int, cert: Path, key: Path) -> list[str | Path]:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("no Caddy here: apt install caddy")
    text = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        ports,
        {
            # A certificate of ours instead of one it would get by itself.
            "agents.example.com:50051 {": f"https://127.0.0.1:{ports.grpc} {{\n\ttls {cert} {key}",
            "agents.example.com {": f"https://127.0.0.1:{port} {{\n\ttls {cert} {key}",
        },
    )
    config = folder / "Caddyfile"
    options = ("admin off", "auto_https disable_redirects", "default_bind 127.0.0.1")
    config.write_text("{\n\t%s\n}\n%s" % ("\n\t".join(options), text))
    return [program, "run", "--config", config]


@pytest.mark.parametrize("proxy", [nginx, caddy], ids=lambda proxy: proxy.__name__)
async def test_a_proxy_passes_tls_streams_and_grpc(tmp_path, proxy: Config):
    """Events arrive when they happen, not together when the stream has ended. A replica that has
    stopped is not missed.
    """
    certificate, private = Authority(tmp_path).issue("proxy")
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    async with replicas(url) as (running, ports, secret):
        command = proxy(tmp_path, ports, port, certificate, private)
        with start(*command, env={"HOME": str(tmp_path)}) as process:
            await until_listening(port)
            await until_listening(ports.grpc)
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(
                        connect(url, binding=binding, auth=ApiKey(secret), ca=tmp_path / "ca.pem")
                    )
                    for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
                ]
                for client in clients:
                    await uses(client)
                assert await running["replica-1"].stop() == 0
                for client in clients * 3:
                    assert (await client.send("hello", skill="echo")).text == "hello"
            await process.stop()


async def uses(client: Client) -> None:
    assert client.card.name == "Clerk"
    # Of a stream that takes minutes, the first letter comes at once.
    async for event in client.stream("a" * 1000, skill="spell"):
        if isinstance(event, ArtifactUpdate):
            assert event.artifact.text == "a"
            break
    task = await client.cancel(event.task_id)
    assert task.status.state.word == "canceled"
