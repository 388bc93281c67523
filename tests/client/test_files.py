"""Files at URLs are fetched when they are read: through the guard, up to a limit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pydantic
import pytest
from aiohttp import web

from accord import Agent, File, InvalidParams, Reply, connect
from accord.client import connect_sync
from accord.net import BadAnswer

MIB = 1 << 20


@asynccontextmanager
async def file_server() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/small":
                return web.Response(body=b"pears")
            case "/moved":
                raise web.HTTPFound("/small")
            case "/away":
                raise web.HTTPFound("http://127.0.0.2:9/")
            case "/round":
                raise web.HTTPFound("/round")
            case "/large":
                return web.Response(body=b"x" * (2 * MIB))
            case "/endless":  # says no length
                response = web.StreamResponse()
                await response.prepare(request)
                for _ in range(30):
                    await response.write(b"x" * MIB)
                return response
        return web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def reader() -> Agent:
    agent = Agent("Reader")

    @agent.skill(default=True)
    async def size(file: File) -> str:
        return str(len(await file.read()))

    @agent.skill
    async def sizes(files: list[File]) -> Reply:
        return Reply(str([len(await file.read()) for file in files]))

    @agent.skill
    async def spilled(file: File) -> str:
        async with file.open() as content:
            is_on_disk = getattr(content, "_rolled", None)  # the standard library has no other way
            return f"{is_on_disk} {len(content.read())}"

    @agent.skill
    async def give(url: str) -> File:
        return File(url=url, name="pears.txt")

    return agent


@pytest.fixture
async def files() -> AsyncIterator[str]:
    async with file_server() as url:
        yield url


async def test_a_link_is_fetched_when_it_is_read(files):
    app = reader().app(allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        assert (await client.send(File(url=f"{files}/small"))).text == "5"
        assert (await client.send(File(url=f"{files}/moved"))).text == "5"
        assert (await client.send(File(b"here"))).text == "4"
        two = [File(url=f"{files}/small"), File(b"here")]
        assert (await client.send(two, skill="sizes")).text == "[5, 4]"


async def test_what_is_large_is_on_the_disk(files):
    app = reader().app(allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        assert (await client.send(File(url=f"{files}/small"), skill="spilled")).text == "False 5"
        large = await client.send(File(url=f"{files}/large"), skill="spilled")
        assert large.text == f"True {2 * MIB}"


@pytest.mark.parametrize(("path", "what"), [
    ("/endless", "larger than 26214400 bytes, the most that is fetched"),
    ("/missing", "HTTP status 404"),
    ("/away", "127.0.0.2 is no public address"),
    ("/round", "redirects"),
])  # fmt: skip
async def test_what_can_t_be_fetched_is_told_to_the_sender(files, path, what):
    app = reader().app(allow_hosts=["127.0.0.1"])
    async with app.serving() as url, connect(url) as client:
        with pytest.raises(InvalidParams, match=what) as caught:
            await client.send(File(url=f"{files}{path}"))
        assert files in str(caught.value)


@pytest.mark.parametrize("skill", ["size", "sizes"])
async def test_private_addresses_are_not_fetched(files, skill):
    async with connect(reader()) as client:
        with pytest.raises(InvalidParams, match="can't be had"):
            await client.send(File(url=f"{files}/small"), skill=skill)


async def test_a_client_reads_the_files_of_an_answer(files):
    async with reader().app().serving() as url, connect(url) as client:
        [file] = (await client.send(f"{files}/small", skill="give")).files
        assert (file.url, await file.read()) == (f"{files}/small", b"pears")
        [endless] = (await client.send(f"{files}/endless", skill="give")).files
        with pytest.raises(BadAnswer, match="larger than 100 bytes"):
            await endless.read(limit=100)


def test_without_await_too():
    with connect_sync(reader()) as client:
        [file] = client.send("https://files.example/x", skill="give").files
        assert (file.name, file.url) == ("pears.txt", "https://files.example/x")
        assert client.send(File(b"pears"), skill="size").text == "5"


async def test_a_file_that_was_not_received_can_t_be_fetched():
    with pytest.raises(ValueError, match="is one to be sent"):
        await File(url="https://files.example/x").read()
    assert await File("pears").read() == b"pears"


class Crate(pydantic.BaseModel):
    fruit: str
    count: int = 1


async def test_pydantic_objects_go_in_and_out():
    agent = Agent("Store")

    @agent.skill
    async def double(crate: Crate) -> Crate:
        return Crate(fruit=crate.fruit, count=crate.count * 2)

    async with connect(agent) as client:
        reply = await client.send(Crate(fruit="pear", count=21))
        assert reply.as_(Crate) == Crate(fruit="pear", count=42)
        assert await client.call("double", returns=Crate, fruit="fig") == Crate(
            fruit="fig", count=2
        )
