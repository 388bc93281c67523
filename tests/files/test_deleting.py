"""Deleting files that tasks name, or are about to name: on every store, in every version."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from accord import File, Reply
from accord import connect as keyed_client
from accord.model import InvalidParams, TaskNotFound
from tests.files.test_bindings import WAYS, client_of
from tests.files.test_files import BOB, MIA, agent_of, fetch, pattern, served, upload
from tests.postgres import schema_url

STORES = ["memory", "sqlite", "postgresql"]
SMALL = pattern(1000)  # of a file that is uploaded
LARGE = pattern(100_000)  # of one in a message that lies in the file store


def store_of(kind: str, tmp_path: Path) -> Any:
    if kind == "postgresql":
        return schema_url()
    return nullcontext("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/tasks.db")


class SlowFiles:
    """A file store in which bytes are written when the test says so."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_asked = asyncio.Event()
        self.may_write = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, id: str, start: int, data: bytes) -> None:
        self.is_asked.set()
        await self.may_write.wait()
        await self._store.write(id, start, data)


@asynccontextmanager
async def sending(app: Any, client: Any, place: str) -> AsyncIterator[tuple[Any, SlowFiles]]:
    """Send an uploaded file and one in the message, whose bytes are being written."""
    files = app.engine.tasks.files
    files.store = slow = SlowFiles(files.store)
    async with asyncio.timeout(20):
        sent = asyncio.ensure_future(
            client.send([File(url=place, name="a"), File(LARGE, name="b")], skill="size")
        )
        await slow.is_asked.wait()
        yield sent, slow
        slow.may_write.set()


async def refused_deletion(place: str) -> None:
    status, _, body = await fetch(place, None, "DELETE")
    assert (status, b"used by a task" in body, b"FILE_IN_USE" in body) == (409, True, True)


@pytest.mark.parametrize("kind", STORES)
async def test_a_file_is_not_deleted_while_a_message_with_it_is_taken(
    kind: str, tmp_path: Path
) -> None:
    with store_of(kind, tmp_path) as store:
        app = agent_of(auth=False).app(store=store)
        async with app.serving() as url, client_of(url, ("JSONRPC", "1.0")) as client:
            await not_deleted(app, url, client)


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_so_it_is_in_every_version(way: tuple[str, str]) -> None:
    app = agent_of(auth=False).app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        await not_deleted(app, url, client)


async def not_deleted(app: Any, url: str, client: Any) -> None:
    place = await upload(url, {}, SMALL)
    async with sending(app, client, place) as (sent, slow):
        await refused_deletion(place)
        slow.may_write.set()
        reply = await sent
        assert reply.text.startswith("1000 ")
    await refused_deletion(place)
    assert (await fetch(place, None, "HEAD"))[0] == 200


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_a_message_with_a_deleted_file_is_refused(way: tuple[str, str]) -> None:
    app = agent_of(auth=False).app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        place = await upload(url, {}, SMALL)
        assert (await fetch(place, None, "DELETE"))[0] == 204
        with pytest.raises(InvalidParams, match=place):
            await client.send(File(url=place), skill="size")


@pytest.mark.parametrize("kind", STORES)
async def test_a_file_of_a_message_that_was_refused_can_be_deleted(
    kind: str, tmp_path: Path
) -> None:
    """Nothing refers to it: the task is none, the skill makes none, another file is not there."""
    agent = agent_of(auth=False)

    @agent.skill
    async def plain_reply(file: File) -> Reply:
        """Answer without a task."""
        return Reply(f"{len(await file.read())} bytes")

    with store_of(kind, tmp_path) as store:
        async with (
            served(agent, store=store) as (_, url),
            client_of(url, ("JSONRPC", "1.0")) as client,
        ):
            places = [await upload(url, {}, SMALL) for _ in range(3)]
            with pytest.raises(TaskNotFound):
                await client.send(File(url=places[0]), task_id="none")
            with pytest.raises(InvalidParams):
                await client.send([File(url=places[1]), File(url=f"{url}/files/{'x' * 22}")])
            assert (await client.send(File(url=places[2]), skill="plain_reply")).text
            for place in places:
                assert (await fetch(place, None, "DELETE"))[0] == 204
                assert (await fetch(place, None, "HEAD"))[0] == 404


@pytest.mark.parametrize("kind", STORES)
async def test_the_task_of_a_stranger_keeps_no_file(kind: str, tmp_path: Path) -> None:
    """Who knows the id of a file and names it gets what one gets who names none."""
    agent = agent_of()

    @agent.skill
    async def link(url: str) -> File:
        """Give a link."""
        return File(url=url)

    with store_of(kind, tmp_path) as store:
        async with (
            served(agent, store=store) as (_, url),
            keyed_client(url, headers=BOB) as bob,
        ):
            place = await upload(url, MIA, SMALL)
            id_ = place.rpartition("/")[2]
            said = []
            for named in (id_, "x" * 22):
                reply = await bob.send(f"accord-file:{named}/0/1000", skill="link")
                text = repr([artifact.parts for artifact in reply.task.artifacts])
                said.append(text.replace(named, "ID"))
            assert said[0] == said[1]
            assert (await fetch(place, MIA, "DELETE"))[0] == 204
            assert (await fetch(place, MIA))[0] == 404


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_no_version_names_the_file_of_a_stranger(way: tuple[Any, Any]) -> None:
    """The answer is that of a file that does not exist."""
    app = agent_of().app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url:
        place = await upload(url, MIA, SMALL)
        binding, version = way
        async with keyed_client(
            url, binding=binding, version=version, previews=["1.1"], headers=BOB
        ) as bob:
            errors = []
            for named in (place, f"{url}/files/{'x' * 22}"):
                with pytest.raises(InvalidParams) as refused:
                    await bob.send(File(url=named), skill="size")
                errors.append(str(refused.value).replace(named, "URL"))
            assert errors[0] == errors[1]
        assert (await fetch(place, MIA, "DELETE"))[0] == 204
