"""How many bytes of files a caller may have, whoever made them."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest

from accord import File, Limits, TooManyRequests, connect
from tests.files.test_files import BOB, MIA, agent_of, fetch, served

LIMITS = Limits(files_per_caller=500_000, uploads_per_caller=2)


@pytest.mark.parametrize("headers", [None, MIA], ids=["guests", "mia"])
async def test_bytes_are_bounded_for_guests_too(headers: dict[str, str] | None) -> None:
    """Guests are one caller: what one of them uploads counts for all. A message is refused with
    the limit's name, as an upload is.
    """
    async with served(agent_of(auth=headers is not None), limits=LIMITS) as (_, url):
        assert (await fetch(f"{url}/files", headers, "POST", b"x" * 400_000))[0] == 201
        status, _, body = await fetch(f"{url}/files", headers, "POST", b"x" * 200_000)
        assert (status, b"files_per_caller" in body) == (429, True)
        async with connect(url, headers=headers) as client:
            with pytest.raises(TooManyRequests, match="files_per_caller"):
                await client.send(File(b"x" * 200_000), skill="plain")
            assert (await client.send(File(b"x" * 90_000), skill="plain")).ok
        if headers:
            assert (await fetch(f"{url}/files", BOB, "POST", b"x" * 400_000))[0] == 201


async def test_unfinished_uploads_of_guests_are_bounded() -> None:
    begin = {"Upload-Complete": "?0"}
    async with served(agent_of(auth=False), limits=LIMITS) as (_, url):
        places = [await fetch(f"{url}/files", begin, "POST", b"") for _ in range(2)]
        status, _, body = await fetch(f"{url}/files", begin, "POST", b"")
        assert (status, b"finish or cancel one" in body) == (429, True)
        assert (await fetch(places[0][1]["location"], None, "DELETE"))[0] == 204
        assert (await fetch(f"{url}/files", begin, "POST", b""))[0] == 201


async def test_an_upload_that_fails_when_it_begins_leaves_nothing() -> None:
    """Its sender does not know its address, and could not cancel it: a few such would be all the
    uploads a caller may have, for a day.
    """
    wrong = {"Upload-Length": "5"}, {"Upload-Length": "500", "Upload-Complete": "?1"}
    async with served(agent_of(auth=False), limits=LIMITS) as (app, url):
        index = app.engine.tasks.files.index
        for headers in wrong * 3:
            status, _, body = await fetch(f"{url}/files", headers, "POST", b"0123456789")
            assert (status, b"announced" in body, b"file_size" in body) == (400, True, False)
            assert await index.sums() == (0, 0)
        host, port = urlsplit(url).hostname, urlsplit(url).port
        for end in ("Content-Length: 300000", "Content-Length: 300000\r\nUpload-Complete: ?0"):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(f"POST /files HTTP/1.1\r\nHost: {host}:{port}\r\n{end}\r\n\r\n".encode())
            writer.write(b"x" * 100_000)
            await writer.drain()
            await _counts(index, 1)
            writer.transport.abort()
            await _counts(index, 0)
        assert (await fetch(f"{url}/files", None, "POST", b"x" * 400_000))[0] == 201


async def _counts(index: Any, count: int) -> None:
    """Wait until there are so many files."""
    async with asyncio.timeout(20):
        while (await index.sums())[0] != count:  # noqa: ASYNC110  bounded above
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("headers", [None, MIA], ids=["guests", "mia"])
async def test_what_an_agent_makes_counts_for_the_caller_of_its_task(
    headers: dict[str, str] | None,
) -> None:
    """Its task fails with the reason; other callers have their own."""
    async with served(agent_of(auth=headers is not None), limits=LIMITS) as (app, url):
        async with connect(url, headers=headers) as client:
            assert (await client.send("8", skill="chunks")).ok
            assert (await client.send("1", skill="report")).ok, "what is small enough has space"
            for skill, size in (("chunks", "8"), ("report", "400")):
                failed = await client.send(size, skill=skill)
                assert not failed.ok
                assert failed.task.status.message is not None
                assert "limit files_per_caller" in failed.task.status.message.text
        files = app.engine.tasks.files
        assert (await files.index.sums())[1] <= LIMITS.files_per_caller
        if headers:
            async with connect(url, headers=BOB) as client:
                assert (await client.send("8", skill="chunks")).ok
