"""Files through a relay: brought here and taken there, whatever their size."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from accord import Agent, BodyTooLarge, Context, File, connect
from accord.client import Client
from accord.model import FILES, A2AError, ArtifactUpdate, Limits, Part, TaskState
from tests.files.test_files import BOB, MB, agent_of, fetch, names_in, pattern, served, upload


async def test_files_go_through_a_relay(tmp_path: Path) -> None:
    """A caller of the relay needs no way to the agent behind it: addresses are the relay's."""
    data = pattern(6 * MB + 1)
    place = tmp_path / "film.mp4"
    place.write_bytes(data)
    async with served(agent_of(auth=False)) as (_, behind):
        relay = await asyncio.to_thread(Agent.proxy, behind, name="Relay")
        async with served(relay) as (_, url), connect(url) as client:
            said = await client.send(File.path(place), skill="size")
            assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()} film.mp4")
            back = (await client.send(File.path(place), skill="echo")).files[0]
            assert back.url.startswith(f"{url}/files/")
            assert (await back.save(tmp_path / "back.mp4")).read_bytes() == data
            chunked = await client.send("9", skill="chunks")
            assert len(chunked.files) == 1
            whole = b"".join(bytes([n]) * 50_000 for n in range(9))
            assert await chunked.files[0].read() == whole
    assert names_in(tmp_path) == ["back.mp4", "film.mp4"]


SIZES = {
    "large": [300_000] * 4,
    "small": [50_000] * 9,
    "small first": [50_000, 300_000, 50_000, 400_000],
    "large first": [300_000, 50_000, 50_000, 400_000, 10],
}


class Writer:
    """An agent that writes a file in pieces, each when it may."""

    def __init__(self, sizes: list[int]) -> None:
        self.pieces = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
        self.whole = b"".join(self.pieces)
        self.may_go_on = asyncio.Event()
        self.stops_before = len(sizes)
        self.agent = Agent("Writer", description="Writes.")
        self.agent.skill(self.give)
        self.agent.skill(self.write)

    async def give(self, text: str) -> AsyncIterator[bytes]:
        """Yield a file."""
        for n, piece in enumerate(self.pieces):
            await self._turn(n)
            yield piece

    async def write(self, text: str, ctx: Context) -> str:
        """Write a file."""
        async with ctx.file("all.bin") as file:
            for n, piece in enumerate(self.pieces):
                await self._turn(n)
                await file.write(piece)
        return "done"

    async def _turn(self, n: int) -> None:
        if n == self.stops_before:
            await self.may_go_on.wait()


@pytest.mark.parametrize("skill", ["give", "write"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=list(SIZES))
@pytest.mark.parametrize("is_relayed", [False, True], ids=["agent", "relay"])
async def test_pieces_of_any_size_are_one_file(
    is_relayed: bool, sizes: list[int], skill: str
) -> None:
    """Large pieces go by address: each address gives its piece, and the last all of it."""
    writer = Writer(sizes)
    async with AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(served(writer.agent))
        if is_relayed:
            relay = await asyncio.to_thread(Agent.proxy, url, name="Relay")
            _, url = await stack.enter_async_context(served(relay))
        client = await stack.enter_async_context(connect(url))
        reply = await client.send("go", skill=skill)
        assert reply.ok, reply
        (file,) = reply.files
        assert await file.read() == writer.whole
        stream = client.stream("go", skill=skill)
        parts = [
            part
            async for event in stream
            if isinstance(event, ArtifactUpdate)
            for part in event.artifact.parts
        ]
        pieces = [
            await content_of(client, part)
            for part in parts
            if isinstance(part.raw, bytes) or isinstance(part.url, str)
        ]
        assert b"".join(pieces) == writer.whole
        (file,) = stream.reply.files
        assert await file.read() == writer.whole


@pytest.mark.parametrize("skill", ["give", "write"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=list(SIZES))
async def test_a_relay_that_is_restarted_in_the_middle_of_a_file_has_all_of_it(
    sizes: list[int], skill: str, tmp_path: Path
) -> None:
    writer = Writer(sizes)
    writer.stops_before = 2
    store = f"sqlite:///{tmp_path}/relay.db"
    async with served(writer.agent) as (_, behind):
        relay = await asyncio.to_thread(Agent.proxy, behind, name="Relay")
        async with served(relay, store=store) as (_, url), connect(url) as client:
            stream = client.stream("go", skill=skill)
            async for event in stream:
                if isinstance(event, ArtifactUpdate) and await size_of(client, event) > 0:
                    break
            task_id = stream.task_id
        relay = await asyncio.to_thread(Agent.proxy, behind, name="Relay")
        async with served(relay, store=store) as (_, url), connect(url) as client:
            writer.may_go_on.set()
            reply = await client.wait(task_id)
            assert reply.ok, reply
            (file,) = reply.files
            assert await file.read() == writer.whole


async def content_of(client: Client, part: Part) -> bytes:
    if isinstance(part.raw, bytes):
        return part.raw
    assert isinstance(part.url, str)
    with await client.open_file(part.url) as file:
        return file.read()


async def size_of(client: Client, event: ArtifactUpdate) -> int:
    return sum([len(await content_of(client, part)) for part in event.artifact.parts])


async def test_a_path_of_a_stranger_is_no_file_of_ours() -> None:
    """What looks like a file on the disk is passed on as the text it is."""
    async with served(agent_of()) as (_, url):
        place = await upload(url, BOB, b"x" * 100)
        body = (
            b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m",'
            b'"role":"ROLE_USER","parts":[{"url":"file:","path":"/etc/passwd","filename":"a"}],'
            b'"metadata":{"skill":"size"}}}}'
        )
        headers = BOB | {"Content-Type": "application/json", "A2A-Version": "1.0"}
        _, _, said = await fetch(url, headers, "POST", body)
        assert b"root:" not in said
        assert (await fetch(place, BOB))[0] == 200


async def test_a_file_that_the_relay_can_not_take_fails_the_task() -> None:
    """The caller never gets an address of the agent behind, which it can't reach."""
    async with served(agent_of(auth=False)) as (_, behind):
        relay = await asyncio.to_thread(Agent.proxy, behind, name="Relay")
        small = Limits(file_size=100_000)
        async with served(relay, limits=small) as (_, url), connect(url) as client:
            reply = await client.send("500", skill="report")
            task = await client.get(reply.task_id)
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert "limit file_size" in task.status.message.text
    assert behind not in repr(task.artifacts)


def card_of(request: web.Request, *extensions: Any) -> dict[str, Any]:
    """The card of an agent of other makers."""
    base = str(request.url.origin())
    return {
        "name": "Other",
        "description": "Is not made with Accord.",
        "version": "1",
        "supportedInterfaces": [
            {"url": base, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "capabilities": {"extensions": list(extensions)},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "s", "description": "s", "tags": ["s"]}],
    }


@pytest.mark.parametrize("is_relayed", [False, True], ids=["client", "relay"])
async def test_a_large_file_for_an_agent_that_takes_no_uploads_is_refused(
    is_relayed: bool, tmp_path: Path
) -> None:
    """It would be in memory as a whole, several times. The error names the limit, and ways out."""

    async def card(request: web.Request) -> web.Response:
        return web.json_response(card_of(request))

    async def never(request: web.Request) -> web.Response:
        raise AssertionError("nothing is sent")

    with (tmp_path / "film.mp4").open("wb") as film:
        film.truncate(17 * MB)
    app = web.Application()
    app.router.add_get("/.well-known/agent-card.json", card)
    app.router.add_post("/", never)
    words = r"film.mp4 has 17825792 bytes. This agent takes no uploads .* up to 16777216 bytes"
    async with TestServer(app) as behind:
        if not is_relayed:
            async with connect(str(behind.make_url(""))) as client:
                with pytest.raises(BodyTooLarge, match=words):
                    await client.send(File.path(tmp_path / "film.mp4"))
            return
        relay = await asyncio.to_thread(Agent.proxy, str(behind.make_url("")), name="Relay")
        async with served(relay) as (_, url), connect(url) as client:
            with pytest.raises(BodyTooLarge, match=words):
                await client.send(File.path(tmp_path / "film.mp4"))


async def test_a_file_without_an_end_is_cut_off() -> None:
    """An agent that sends bytes for ever must not fill the disk of the relay."""
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(bytes(MB))
            sent += MB

    async def task(request: web.Request) -> web.Response:
        part = {"url": f"{request.url.origin()}/files/{'A' * 22}", "filename": "a.bin"}
        made = {
            "id": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [part]}],
        }
        asked = await request.json()
        result = made if asked["method"] == "GetTask" else {"task": made}
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    async def card(request: web.Request) -> web.Response:
        params = {"url": f"{request.url.origin()}/files", "limit": 1 << 40, "inline": 1}
        return web.json_response(card_of(request, {"uri": FILES, "params": params}))

    app = web.Application()
    app.router.add_get("/.well-known/agent-card.json", card)
    app.router.add_post("/", task)
    app.router.add_get("/files/{id}", endless)
    async with TestServer(app) as behind:
        relay = await asyncio.to_thread(Agent.proxy, str(behind.make_url("")), name="Relay")
        small = Limits(file_size=5 * MB)
        async with served(relay, limits=small) as (_, url), connect(url) as client:
            async with asyncio.timeout(60):
                with pytest.raises(A2AError, match=r"larger than 5242880 bytes.*limit file_size"):
                    await client.send("go")
    assert sent < 100 * MB
