"""Files in every version and binding, and beside other agents."""

import base64
import hashlib
from typing import Any

import pytest

from accord import Agent, BodyTooLarge, Context, File, connect
from accord.client import Client
from tests.files.test_files import MB, agent_of, fetch, pattern

# What clients may speak: binding and version.
WAYS = [
    ("JSONRPC", "1.0"),
    ("JSONRPC", "0.3"),
    ("JSONRPC", "0.2"),
    ("JSONRPC", "0.1"),
    ("JSONRPC", "1.1"),
    ("HTTP+JSON", "1.0"),
    ("HTTP+JSON", "0.3"),
    ("HTTP+JSON", "1.1"),
    ("GRPC", "1.0"),
    ("GRPC", "0.3"),
    ("GRPC", "1.1"),
]


def client_of(url: str, way: tuple[Any, Any]) -> Client:
    binding, version = way
    return connect(url, binding=binding, version=version, previews=["1.1"])


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_a_large_file_goes_by_address_both_ways(way: tuple[str, str]) -> None:
    """It is uploaded by itself, comes back as an address that works, and stays one file."""
    data = pattern(5 * MB)
    app = agent_of(auth=False).app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        assert (client.binding, client.version) == way
        said = await client.send(File(data, name="a.bin"), skill="size")
        assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()} a.bin")
        [back] = (await client.send(File(data, name="a.bin"), skill="echo")).files
        assert back.url.startswith(f"{url}/files/")
        assert await back.read() == data


@pytest.mark.parametrize("megabytes", [0.1, 1, 6])
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_a_file_that_grows_is_one_file_in_the_end(
    way: tuple[str, str], megabytes: float
) -> None:
    """For who waits, who reads the stream, and who asks for the task: the same
    name and the same bytes, whether its pieces came as bytes or as addresses.
    """
    agent = Agent("Writer")
    data = pattern(int(megabytes * MB))

    @agent.skill
    async def grow(text: str, ctx: Context) -> str:
        """Write a file in pieces of many sizes."""
        at, size = 0, 1000
        async with ctx.file("film.bin", media_type="video/mp4") as f:
            while at < len(data):
                await f.write(data[at : at + size])
                at, size = at + size, size * 2
        return "done"

    app = agent.app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        sent = await client.send("now")
        stream = client.stream("now")
        async for _ in stream:
            pass
        fetched = await client.wait(sent.task_id)
        for reply in (sent, stream.reply, fetched):
            [film] = reply.files
            assert (film.name, film.media_type) == ("film.bin", "video/mp4")
            assert await film.read() == data


@pytest.mark.parametrize("way", [way for way in WAYS if way[0] == "GRPC"], ids=" ".join)
async def test_over_grpc_bytes_are_bytes_up_to_the_limit_of_messages(way: tuple[str, str]) -> None:
    app = agent_of(auth=False).app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        [small] = (await client.send(File(pattern(MB), name="a.bin"), skill="echo")).files
        assert (small.url, small.data) == ("", pattern(MB))


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
async def test_a_message_that_is_too_large_is_told_of_the_upload(way: tuple[str, str]) -> None:
    """In the words of every binding: where files are taken, and what to do with the answer."""
    app = agent_of(auth=False).app(grpc_port=0, previews=["1.1"])
    async with app.serving() as url, client_of(url, way) as client:
        with pytest.raises(BodyTooLarge, match=r"upload large files first, with POST to /files"):
            await client.send(base64.b64encode(pattern(5 * MB)).decode())


def files_agent(name: str) -> Agent:
    agent = Agent(name, description="Takes and gives files.")

    @agent.skill
    async def echo(file: File) -> File:
        """Give the file back."""
        return file

    return agent


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_an_agent_beside_others_may_be_called_files(binding: Any) -> None:
    """Each has files below its own address; the directory at the root has none."""
    app = files_agent("Files").app(beside=[files_agent("Other")], grpc_port=0)
    data = pattern(5 * MB)
    async with app.serving() as url:
        for path in ("files", "other"):
            async with connect(f"{url}/{path}", binding=binding) as client:
                [back] = (await client.send(File(data, name="a.bin"))).files
                assert back.url.startswith(f"{url}/{path}/files/")
                assert await back.read() == data
        status, _, body = await fetch(f"{url}/.well-known/agent-card.json")
        assert (status, b"urn:accord:files" in body) == (200, False)
        async with connect(url, binding=binding, tenant="other") as client:
            [back] = (await client.send(File(pattern(400_000), name="a.bin"))).files
            assert await back.read() == pattern(400_000)


async def test_the_files_of_the_agent_at_the_root_are_not_hidden_by_another() -> None:
    app = files_agent("Root").app()
    with pytest.raises(ValueError, match="the path /files is taken"):
        await app.add(files_agent("Files"))
    await app.add(files_agent("Files"), "archive")
    await app.close()
