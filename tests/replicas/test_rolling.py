"""A rolling restart behind nginx: nobody who uses our client notices.

nginx is Debian's package; without it these tests say so and are skipped.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accord import connect
from accord.client import Gap
from accord.model import ArtifactUpdate, StatusUpdate, TaskState
from tests.postgres import execute, schema_url
from tests.processes import free_port, start, until_listening
from tests.reliability.harness import report, size
from tests.replicas.fleet import Fleet, fleet, settled
from tests.replicas.serve import COUNTED
from tests.replicas.test_processes import BEAT_S, LONG_LEASE_S, schema_of

ROUNDS = size(1, 20)
WIDTH = 6
COUNT = "".join(f"{n} " for n in range(COUNTED))

CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  {page}
}}
"""


def documented() -> str:
    """The configuration the page about replicas shows."""
    text = (Path(__file__).parents[2] / "docs" / "replicas.md").read_text()
    return text.partition("```nginx\n")[2].partition("```")[0]


@contextlib.asynccontextmanager
async def nginx(replicas: Fleet, folder: Path) -> AsyncIterator[str]:
    """nginx before the replicas, while the block lasts; gives its address."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no nginx here: apt install nginx")
    port = free_port()
    page = documented().replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    for n, replica in enumerate(replicas.replicas, 1):
        page = page.replace(f"127.0.0.1:800{n}", f"127.0.0.1:{replica.port}")
    path = folder / "nginx.conf"
    path.write_text(CONFIG.format(folder=folder, page=page))
    options = ("-c", str(path), "-p", str(folder), "-e", str(folder / "error.log"))
    with start(program, *options) as process:
        await until_listening(port)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await process.stop()  # its workers would outlive a master that is killed


def read_text(events: list[Any]) -> str:
    """What a reader has at the end of a stream, of which it has lost nothing."""
    text = ""
    for event in events:
        assert not isinstance(event, Gap)
        if isinstance(event, ArtifactUpdate):  # a new process may begin the text anew, and says so
            said = "".join(str(part.text) for part in event.artifact.parts)
            text = text + said if event.append else said
    assert isinstance(events[-1], StatusUpdate)
    assert events[-1].status.state is TaskState.COMPLETED
    return text


async def test_a_rolling_restart_loses_nothing(tmp_path: Path) -> None:
    """V1: three replicas restarted one after the other under load; 0 failed requests, 0 lost
    events.
    """
    is_over = asyncio.Event()
    answers = streams = 0

    async with contextlib.AsyncExitStack() as stack:
        url = stack.enter_context(schema_url(lease_s=LONG_LEASE_S, beat_s=BEAT_S))
        replicas = await stack.enter_async_context(fleet([url] * 3, tmp_path, 1))
        address = await stack.enter_async_context(nginx(replicas, tmp_path))

        async def ask(n: int) -> None:
            nonlocal answers
            async with connect(address) as client:
                i = 0
                while not is_over.is_set():
                    text = f"r{n}-{i}"
                    assert (await client.send(text, skill="echo")).text == text
                    answers, i = answers + 1, i + 1

        async def read(n: int) -> None:
            nonlocal streams
            async with connect(address) as client:
                while not is_over.is_set():
                    events = [event async for event in client.stream("go", skill="count")]
                    assert read_text(events) == COUNT
                    streams += 1

        async def restart() -> None:
            for _ in range(ROUNDS):
                for replica in replicas.replicas:
                    assert await replica.stop() == 0
                    await replica.start(replicas.session)
            is_over.set()

        async with asyncio.timeout(120 * ROUNDS), asyncio.TaskGroup() as group:
            for n in range(WIDTH):
                group.create_task(ask(n))
                group.create_task(read(n))
            group.create_task(restart())
        await settled(schema_of(url))
        tasks = execute(f"SELECT count(*) FROM {schema_of(url)}.tasks")[0][0]
        assert tasks == answers + streams  # each message is one task
        report(
            "rolling restart",
            restarts=3 * ROUNDS,
            answers=answers,
            streams=streams,
            tasks=tasks,
            failed=0,
            lost=0,
        )
        assert answers
        assert streams
