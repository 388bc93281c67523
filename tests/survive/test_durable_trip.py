"""examples/durable_trip.py, served as a user would, killed at every step."""

import contextlib
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.cli.shell import found
from tests.processes import Process, start
from tests.reliability.clients import Client, HttpClient
from tests.reliability.harness import BROKEN, WAYS, message, report, state_of, text_of, told
from tests.survive.test_fail_points import settled

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "durable_trip.py"
BOOKED = "flight booked: Rome\nhotel booked: Rome, 2 nights\npayment booked: 260 EUR\n"


class Trip:
    """The example under `accord serve`, over as many lives as it takes."""

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        self.bookings = folder / "bookings.txt"
        self._folder = folder
        self._session = session
        self._process: Process | None = None

    async def start(self, fail_point: str = "") -> Client:
        command = [
            sys.executable,
            *(["-X", f"accord_fail_point={fail_point}"] if fail_point else []),
            "-m",
            "accord",
            "serve",
            str(EXAMPLE),
            "--port",
            "0",
            "--store",
            f"sqlite:///{self._folder}/t.db",
        ]
        environment = {"BOOKINGS": str(self.bookings)}
        self._process = start(*command, cwd=self._folder, env=environment)
        url = found(r"http://[\d.:]+", await self._process.line())
        return HttpClient(self._session, url, WAYS["jsonrpc"])

    async def died(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.close()


@contextlib.asynccontextmanager
async def a_trip(folder: Path):
    async with aiohttp.ClientSession() as session:
        trip = Trip(folder, session)
        try:
            yield trip
        finally:
            trip.kill()


@pytest.mark.parametrize("when", ["begun", "done", "stored"])
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_trip_killed_at_any_of_its_steps_ends_as_if_nothing_had_been(
    tmp_path: Path, step: int, when: str
) -> None:
    """The process is killed before a step is done, between its doing and its noting, and after: one
    result, one booking each.
    """
    async with a_trip(tmp_path) as trip:
        client = await trip.start(f"step.{when}:{step}")
        with contextlib.suppress(*BROKEN):  # it may die before it has answered
            task_id = await begin(client)
            if step > 1:
                await settled(client, task_id)
                await client.send(message("2", task_id=task_id))
        assert await trip.died() == -signal.SIGKILL
        client = await trip.start()
        (task,) = [task async for task in client.every_task()]
        task_id = task["id"]
        task = await settled(client, task_id)
        if state_of(task) == "TASK_STATE_INPUT_REQUIRED":
            task = await client.send(message("2", task_id=task_id))
        assert (state_of(task), text_of(task)) == ("TASK_STATE_COMPLETED", BOOKED), told(task)
        bookings = trip.bookings.read_text().splitlines()
        assert [line.split()[0] for line in bookings] == ["flight", "hotel", "payment"]
        assert [said["role"] for said in task["history"]] == [
            "ROLE_USER",
            "ROLE_AGENT",
            "ROLE_USER",
        ]
        report("durable trip", killed=f"{when} step {step}", bookings=len(bookings), twice=0)


async def test_a_trip_killed_while_it_waits_for_its_answer_goes_on_with_it(tmp_path: Path) -> None:
    """A question survives three deaths, and a reply by task id alone continues it."""
    async with a_trip(tmp_path) as trip:
        client = await trip.start()
        task_id = await begin(client)
        await settled(client, task_id)
        for _ in range(3):
            trip.kill()
            client = await trip.start()
            assert told(await client.get(task_id)).startswith("How many nights?")
        task = await client.send(message("2", task_id=task_id))
        assert text_of(task) == BOOKED
        assert len(trip.bookings.read_text().splitlines()) == 3


async def begin(client: Client) -> str:
    return (await client.send(message("Rome", returnImmediately=True)))["id"]
