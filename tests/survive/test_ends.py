"""How a process ends: functions that are released clean up, streams are told, and no child holds
what was ours.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processes import until
from tests.reliability.harness import BROKEN, Refused, Server, message, state_of, text_of
from tests.survive.ends import SHAPES

SCRIPT = Path(__file__).parent / "ends.py"
PATIENCE_S = 60.0
HELD = len(SHAPES) + 3  # some hold two things
HOW = (" held", " given back")


class Ending(Server):
    """A server in an interpreter of its own, of which all is taken apart at its end."""

    def __init__(self, way: str, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.is_forked = False
        self.command = [sys.executable, str(SCRIPT), way, str(self._port), str(folder)]

    @property
    def world(self) -> list[str]:
        path = self.folder / "world"
        return path.read_text().splitlines() if path.exists() else []


@contextlib.asynccontextmanager
async def ending(way: str, folder: Path) -> AsyncIterator[Ending]:
    server = Ending(way, folder)
    try:
        await server.start()
        yield server
    finally:
        await server.close()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may still wait for somebody to ask."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("way", ["run", "asyncio", "uvloop"])
async def test_a_function_that_is_released_cleans_up_and_goes_on_in_the_next_process(
    tmp_path: Path, way: str
) -> None:
    """It is cancelled as any asyncio code is, in whatever it holds something: a context manager, a
    task, a group, a generator, a branch. That is no cancellation by its client, and a deploy is no
    fault: the log has nothing to say of it. In the next process the function is called again from
    the top, and all of it is done.
    """
    async with ending(way, tmp_path) as server:
        client = server.client()
        ids = {
            shape: (await client.send(message("go", shape, returnImmediately=True)))["id"]
            for shape in SHAPES
        }
        await until(lambda: {line.split()[0] for line in server.world} == set(SHAPES))
        await until(lambda: len(server.world) == HELD)
        assert await server.stop() == 0
        held, given_back = (
            Counter(line.removesuffix(how) for line in server.world if line.endswith(how))
            for how in HOW
        )
        assert held == given_back
        assert held.total() + given_back.total() == len(server.world)
        assert server.log.read_text() == ""
        (tmp_path / "go").touch()
        await server.start()
        await client.send(message("yes", task_id=ids["asks"]))
        async with asyncio.timeout(PATIENCE_S):
            for task_id in ids.values():
                while state_of(task := await client.get(task_id)) == "TASK_STATE_WORKING":
                    pass
                assert state_of(task) == "TASK_STATE_COMPLETED"


@contextlib.asynccontextmanager
async def with_child(server: Ending) -> AsyncIterator[tuple[str, int]]:
    """A task whose function has forked a child, which would go on for a minute; the next life of
    the function forks another.
    """
    task = await server.client().send(message("go", "forks", returnImmediately=True))
    await until(lambda: server.world)
    child = int(server.world[0].split()[1])
    try:
        yield task["id"], child
    finally:
        for line in server.world:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[1]), signal.SIGKILL)


async def test_a_child_holds_nothing_of_a_server_that_was_killed(tmp_path: Path) -> None:
    """Pools of processes outlive a `kill -9`: neither port nor database nor clients may wait for
    them.
    """
    async with ending("run", tmp_path) as server, with_child(server) as (task_id, child):
        stream = server.client().subscribe(task_id)
        await anext(stream)
        await server.kill()
        with pytest.raises(BROKEN):
            async with asyncio.timeout(PATIENCE_S):
                await anext(stream)
        assert is_alive(child)
        await server.start()  # on the same port and database
        assert state_of(await server.client().get(task_id)) == "TASK_STATE_WORKING"


async def test_a_child_is_ended_with_a_server_that_stops(tmp_path: Path) -> None:
    """`atexit` is called, by which `multiprocessing` ends its daemons; pools are daemons too."""
    async with ending("run", tmp_path) as server, with_child(server) as (_, child):
        assert await server.stop() == 0
        await until(lambda: not is_alive(child))


async def test_a_signal_to_a_child_is_no_signal_to_the_server(tmp_path: Path) -> None:
    """A child has the handlers of the loop it was forked from: without a word it would not end, and
    the server would.
    """
    async with ending("run", tmp_path) as server:
        assert text_of(await server.client().send(message("go", "ends_children"))) == "-15 -15"
        await server.client().send(message("go", "asks"))


@pytest.mark.parametrize("way", ["run", "asyncio", "uvloop"])
async def test_streams_are_told_to_come_back_also_where_the_server_is_a_hosts(
    tmp_path: Path, way: str
) -> None:
    """A host ends its lifespan when all connections are closed; it would wait for ever for those
    who read along.
    """
    async with ending(way, tmp_path) as server:
        client = server.client()
        waiting = (await client.send(message("go", "asks")))["id"]
        running = (await client.send(message("go", "plain", returnImmediately=True)))["id"]
        streams = [client.subscribe(waiting), client.subscribe(running)]
        for stream in streams:
            await anext(stream)
        reading = [asyncio.ensure_future(anext(stream)) for stream in streams]
        if way == "run":
            await until(lambda: "plain held" in server.world)
        (tmp_path / "go").touch()  # a step that is under way is done, and its run let go
        assert await server.stop() == 0
        for told in reading:
            with pytest.raises(Refused, match="goes on when it is back"):
                await told
