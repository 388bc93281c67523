"""Two replicas that write one upload: one wins, and what is stored is what the winner sent."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from accord import File, connect
from tests.files.test_files import fetch
from tests.files.test_large import Server, _cut, _offset, stored_in

MB = 1 << 20
IS_SOAK = bool(os.environ.get("ACCORD_SOAK"))
ROUNDS = 200 if IS_SOAK else 12
KILLS = 10 if IS_SOAK else 2


@pytest.fixture(params=["postgres", "folder"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The store that two replicas share, and where they have the bytes of files."""
    with stored_in("postgres", tmp_path) as store:
        yield store, "" if request.param == "postgres" else f"file://{tmp_path}/shared"


@pytest.fixture
async def replicas(places: tuple[str, str]) -> AsyncIterator[tuple[Server, Server]]:
    store, files = places
    two = Server(store, files=files), Server(store, files=files)
    await asyncio.gather(*(one.start() for one in two))
    yield two
    for one in two:
        one.kill()


async def begun(server: Server) -> str:
    """Begin an upload; return the path of its address."""
    _, headers, _ = await fetch(f"{server.url}/files", {"Upload-Complete": "?0"}, "POST", b"")
    return headers["location"].removeprefix(server.url)


async def test_one_of_two_that_write_at_the_same_offset_wins(
    replicas: tuple[Server, Server],
) -> None:
    """The other is told the offset there is now, and nothing of its bytes is in the file."""
    path, whole = await begun(replicas[0]), b""
    for n in range(ROUNDS):
        # Pieces of several batches, and of other lengths: the loser's would cut or garble a file.
        pieces = [os.urandom(5 * MB >> (n % 5)), os.urandom(3 * MB >> (n % 3))]
        headers = {"Upload-Offset": str(len(whole)), "Upload-Complete": "?0"}
        answers = await asyncio.gather(
            *(
                fetch(one.url + path, headers, "PATCH", piece)
                for one, piece in zip(replicas, pieces, strict=True)
            )
        )
        lost = [status for status, _, _ in answers].count(409)
        assert sorted(status for status, _, _ in answers) == [204, 409], (answers, lost)
        winner = 0 if answers[0][0] == 204 else 1
        whole += pieces[winner]
        assert int(answers[winner][1]["upload-offset"]) == len(whole)
        told = int(answers[1 - winner][1]["upload-offset"])
        assert len(whole) - len(pieces[winner]) <= told <= len(whole)
    last = {"Upload-Offset": str(len(whole)), "Upload-Complete": "?1"}
    assert (await fetch(replicas[1].url + path, last, "PATCH", b"."))[0] == 201
    whole += b"."
    for one in replicas:
        async with connect(one.url) as client:
            said = await client.send(File(url=one.url + path), skill="digest")
            assert said.text == f"{len(whole)} {hashlib.sha256(whole).hexdigest()}"


async def test_a_replica_that_is_killed_while_it_writes_leaves_the_upload_to_the_other(
    replicas: tuple[Server, Server],
) -> None:
    """At once: nothing waits for what the dead one held."""
    data = os.urandom(12 * MB)
    path = await begun(replicas[0])
    for n in range(KILLS):
        dying, other = replicas[n % 2], replicas[1 - n % 2]
        before = await _offset(other.url + path)
        await _cut(dying, dying.url + path, data, before, 3 * MB)
        sending = asyncio.create_task(_lost(dying, path, data, before + 3 * MB))
        dying.kill()
        await sending
        offset = await _offset(other.url + path)
        assert before < offset < len(data)
        piece = data[offset : offset + MB]
        headers = {"Upload-Offset": str(offset), "Upload-Complete": "?0"}
        assert (await fetch(other.url + path, headers, "PATCH", piece))[0] == 204
        await dying.start()
    offset = await _offset(replicas[0].url + path)
    headers = {"Upload-Offset": str(offset), "Upload-Complete": "?1"}
    assert (await fetch(replicas[0].url + path, headers, "PATCH", data[offset:]))[0] == 201
    async with connect(replicas[1].url) as client:
        said = await client.send(File(url=replicas[1].url + path), skill="digest")
        assert said.text == f"{len(data)} {hashlib.sha256(data).hexdigest()}"


async def _lost(server: Server, path: str, data: bytes, offset: int) -> None:
    """Send what nobody answers any more."""
    headers = {"Upload-Offset": str(offset), "Upload-Complete": "?0"}
    with contextlib.suppress(OSError):
        await fetch(server.url + path, headers, "PATCH", data[offset : offset + 3 * MB])
