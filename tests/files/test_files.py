"""Files of tasks: they lie outside of the log, and go out as bytes or by address."""

import asyncio
import base64
import contextlib
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord import Agent, Context, File
from accord import connect as client_of
from accord.auth import ApiKeys
from accord.cli.files import save_files
from accord.client import Retry
from accord.files import Files
from accord.files.local import LocalFiles
from accord.model import A2AError, FileReference, InvalidParams, Limits, Part, Unavailable
from accord.store import CommitFailed, Namespace
from accord.store.file_index import MemoryFileIndex
from tests.drive import serving, serving_asgi
from tests.postgres import schema_url

MIA, BOB = {"X-API-Key": "mia-" + "0" * 30}, {"X-API-Key": "bob-" + "0" * 30}
MB = 1 << 20
SERVERS = {"own": serving, "uvicorn": serving_asgi}


def agent_of(auth: bool = True) -> Agent:
    keys = {MIA["X-API-Key"]: "mia", BOB["X-API-Key"]: "bob"}
    agent = Agent(
        "Files", description="Takes and gives files.", auth=ApiKeys(keys=keys) if auth else None
    )

    @agent.skill
    async def size(file: File, ctx: Context) -> str:
        """Say what came."""
        digest, count = hashlib.sha256(), 0
        async for chunk in file:
            digest.update(chunk)
            count += len(chunk)
        return f"{count} {digest.hexdigest()} {file.name} {file.media_type}"

    @agent.skill
    async def echo(file: File) -> File:
        """Give the file back."""
        return file

    @agent.skill
    async def chunks(count: int) -> AsyncIterator[bytes]:
        """Give a file piece by piece."""
        for n in range(count):
            yield bytes([n]) * 50_000

    @agent.skill
    def plain(file: File) -> str:
        """Read the bytes in a thread."""
        return f"{len(file.data or b'')} bytes"

    @agent.skill
    async def report(kilobytes: int, ctx: Context) -> File:
        """Give a file on the disk, which is gone at once."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "report.csv")
            write(place, b"a,b\n" * 256 * kilobytes)
            ctx.artifact(File.path(place), name="early")
        return File(b"small", name="small.txt")

    @agent.skill
    async def table(rows: int, ctx: Context) -> str:
        """Write a file row by row."""
        async with ctx.file("table.csv") as f:
            for n in range(rows):
                await f.write(f"{n},{n * n}\n")
        return "done"

    return agent


@asynccontextmanager
async def served(
    agent: Agent, server: str = "own", **options: Any
) -> AsyncIterator[tuple[Any, str]]:
    app = agent.app(**options)
    async with serving_of(server)(app, app.close) as url:
        yield app, url


def serving_of(server: str) -> Any:
    return SERVERS[server]


def write(place: Path, data: bytes) -> None:
    place.write_bytes(data)


def names_in(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.rglob("*") if place.is_file())


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


async def fetch(
    url: str, headers: dict[str, str] | None = None, verb: str = "GET", data: Any = None
) -> tuple[int, dict[str, str], bytes]:
    async with (
        aiohttp.ClientSession(trust_env=False) as http,
        http.request(verb, url, headers=headers, data=io.BytesIO(data) if data else data) as answer,
    ):
        found = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, found, await answer.read()


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110  the caller bounds it
        await asyncio.sleep(0.01)


# Through the client


@pytest.mark.parametrize("server", SERVERS)
async def test_a_large_file_is_uploaded_and_comes_back_by_address(
    server: str, tmp_path: Path
) -> None:
    """`File.path` goes up by itself; what comes back has the same digest."""
    data = pattern(10 * MB + 3)
    place = tmp_path / "film.mp4"
    place.write_bytes(data)
    async with (
        served(agent_of(), server) as (_, url),
        client_of(url, headers=MIA) as client,
    ):
        said = await client.send(File.path(place), skill="size")
        assert said.text == f"{len(data)} {hashlib.sha256(data).hexdigest()} film.mp4 video/mp4"
        back = (await client.send(File.path(place), skill="echo")).files[0]
        assert back.url.startswith(f"{url}/files/")
        assert (await back.save(tmp_path / "back.mp4")).read_bytes() == data
        assert names_in(tmp_path) == ["back.mp4", "film.mp4"]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_file_of_a_message_is_not_sent_back_with_the_history(version: str) -> None:
    """It is in the history by its address, in every version; small ones are bytes as ever."""
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        reply = await client.send(
            [File(pattern(MB), name="a.bin"), File(b"small", name="b.txt")], skill="plain"
        )
        assert reply.text == f"{MB} bytes"
        assert reply.task is not None
        large, small = reply.task.history[0].parts
        assert isinstance(large.url, str)
        assert small.raw == b"small"
        assert (await fetch(large.url, MIA))[2] == pattern(MB)
        status, _, body = await fetch(
            url,
            {**MIA, "A2A-Version": version, "Content-Type": "application/json"},
            "POST",
            _get(version, reply.task_id),
        )
        assert status == 200
        assert len(body) < 10_000
        assert large.url.encode() in body


def _get(version: str, task_id: str) -> bytes:
    method = "GetTask" if version == "1.0" else "tasks/get"
    return b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"id":"%b"}}' % (
        method.encode(),
        task_id.encode(),
    )


async def test_chunks_of_bytes_are_one_file() -> None:
    """As chunks of text are one text; a stream shows each."""
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        seen = [
            part.raw
            async for event in client.stream("7", skill="chunks")
            if hasattr(event, "artifact")
            for part in event.artifact.parts
        ]
        whole = b"".join(bytes([n]) * 50_000 for n in range(7))
        assert b"".join(piece for piece in seen if isinstance(piece, bytes)) == whole
        reply = await client.send("7", skill="chunks")
        assert len(reply.files) == 1
        assert await reply.files[0].read() == whole


@pytest.mark.parametrize("rows", [0, 3, 50_000])
async def test_a_file_is_written_piece_by_piece(rows: int) -> None:
    """`ctx.file`: one artifact, named, of any size."""
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        reply = await client.send(str(rows), skill="table")
        assert reply.text == "done"
        (file,) = reply.files
        assert (file.name, file.media_type) == ("table.csv", "text/csv")
        assert await file.read() == b"".join(b"%d,%d\n" % (n, n * n) for n in range(rows))


async def test_a_file_on_the_disk_is_read_though_its_maker_deletes_it() -> None:
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        reply = await client.send("500", skill="report")
        first, second = reply.files
        assert await first.read() == b"a,b\n" * 256 * 500
        assert first.name == "report.csv"
        assert second.data == b"small"


@pytest.mark.parametrize("later", [b"a" * 150, b"a" * 10], ids=["longer", "shorter"])
async def test_a_file_on_the_disk_is_as_long_as_it_was_when_it_was_given(
    later: bytes, tmp_path: Path
) -> None:
    """What comes behind it has its place by then."""
    files = Files(MemoryFileIndex(), LocalFiles(), Limits())
    await files.open()
    place = tmp_path / "log.txt"
    write(place, b"a" * 100)
    grown = files.grow(Namespace("agent", "", "mia"), "log.txt", "text/plain")
    first, second = grown.add_file(place.open("rb")), grown.add(b"tail")
    write(place, later)
    await grown.flush()
    assert await files.load(first) == later[:100].ljust(100, b"\0")
    assert await files.load(second) == b"tail"
    assert grown.use().length == 104
    await files.close()


async def test_a_name_with_a_null_in_it_is_stored_in_postgres_too() -> None:
    """PostgreSQL has no such text."""
    file = File(pattern(MB >> 3), name="a\0b.bin")
    with schema_url() as store:
        async with served(agent_of(auth=False), store=store) as (_, url), client_of(url) as client:
            assert (await client.send(file, skill="size")).text.startswith(f"{MB >> 3} ")


async def test_a_restart_finds_the_files(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with served(agent_of(), store=store) as (_, url), client_of(url, headers=MIA) as client:
        reply = await client.send(File(pattern(MB), name="a.bin"), skill="echo")
        task_id = reply.task_id
    assert len(names_in(Path(f"{tmp_path}/tasks.db-files"))) == 2, "what came, and what was made"
    async with served(agent_of(), store=store) as (_, url), client_of(url, headers=MIA) as client:
        task = await client.get(task_id)
        (part,) = task.artifacts[0].parts
        assert isinstance(part.url, str)
        assert (await fetch(part.url, MIA))[2] == pattern(MB)


# Who may read what


async def test_the_file_of_somebody_else_is_not_found_byte_for_byte() -> None:
    """As one that does not exist: to read it, to go on with it, to delete it or to send it."""
    async with (
        served(agent_of()) as (_, url),
        client_of(url, headers=MIA) as mia,
        client_of(url, headers=BOB) as bob,
    ):
        theirs = (await mia.send(File(pattern(MB), name="a.bin"), skill="echo")).files[0].url
        nothing = f"{url}/files/{'x' * 22}"
        for verb in ("GET", "HEAD", "PATCH", "DELETE"):
            more = {**BOB, "Upload-Offset": "0"}
            found = [await fetch(place, more, verb) for place in (theirs, nothing)]
            assert found[0][0] == 404
            assert found[0][2] == found[1][2]
            assert found[0][1].keys() == found[1][1].keys()
        errors = []
        for place in (theirs, nothing):
            with pytest.raises(InvalidParams) as refused:
                await bob.send(File(url=place), skill="size")
            errors.append(str(refused.value).replace(place, "URL"))
        assert errors[0] == errors[1]
        assert (await fetch(theirs, MIA))[0] == 200, "it is still there"
        assert (await fetch(theirs))[0] == 401


async def test_what_looks_like_a_reference_is_none() -> None:
    """A caller that writes our own scheme into a part, or into JSON, gets nobody's file by it."""
    async with (
        served(agent_of()) as (_, url),
        client_of(url, headers=MIA) as mia,
        client_of(url, headers=BOB) as bob,
    ):
        theirs = (await mia.send(File(b"s" * 100_000), skill="echo")).files[0]
        assert theirs.data == b"s" * 100_000, "it was sent as bytes"
        uploaded = await upload(url, MIA, b"s" * 100_000)
        marker = f"accord-file:{uploaded.rpartition('/')[2]}/0/100000"
        with pytest.raises(InvalidParams, match="no file"):
            await bob.send(File(url=marker), skill="size")
        reply = await bob.send([File(b"x"), {"url": marker}], skill="size")
        assert reply.task is not None
        assert reply.task.history[0].parts[1].data == {"url": marker}


async def upload(url: str, headers: dict[str, str], data: bytes, name: str = "a.bin") -> str:
    """Upload in one request; return the address."""
    more = {"Content-Type": "application/octet-stream"}
    if name:
        more["Content-Disposition"] = f'attachment; filename="{name}"'
    status, found, body = await fetch(f"{url}/files", headers | more, "POST", data)
    assert status == 201, body
    return found["location"]


async def test_signed_addresses_work_for_a_while_for_this_file_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent without auth gives nothing else."""
    async with served(agent_of(auth=False)) as (app, url), client_of(url) as client:
        files = [
            (await client.send(File(pattern(MB + n)), skill="echo")).files[0].url for n in (0, 1)
        ]
        assert (await fetch(files[0]))[2] == pattern(MB)
        bare = files[0].partition("?")[0]
        other = f"{bare}?{files[1].partition('?')[2]}"
        missing = await fetch(f"{url}/files/{'x' * 22}")
        for place in (bare, other, bare + "?key=AAAA", bare + "?key=", bare + "?key=%00%ff"):
            assert (await fetch(place))[::2] == missing[::2], place
        id_ = bare.rpartition("/")[2]
        giver = app.root.service.giver
        assert not giver.is_signed(id_, giver.sign(id_, for_s=-1))
        assert giver.is_signed(id_, giver.sign(id_, for_s=5))


async def test_a_file_never_runs_in_a_browser() -> None:
    """Names and types are strangers' texts: they can't add headers, nor lead elsewhere."""
    async with served(agent_of()) as (_, url):
        script = b"<script>alert(1)</script>" * 5_000
        headers = MIA | {
            "Content-Type": "text/html",
            "Content-Disposition": "attachment; filename*=UTF-8''..%2F..%2Fetc%2Fpass"
            "%0D%0ASet-Cookie%3A%20a%3Db%22.html",
        }
        status, found, _ = await fetch(f"{url}/files", headers, "POST", script)
        assert status == 201
        status, given, body = await fetch(found["location"], MIA)
        assert (status, body) == (200, script)
        assert given["content-disposition"].startswith("attachment; filename*=UTF-8''pass")
        assert "set-cookie" not in given
        assert given["x-content-type-options"] == "nosniff"
        assert given["content-security-policy"] == "sandbox; default-src 'none'"
        odd = MIA | {"Content-Type": "text/html, text/plain"}
        _, found, _ = await fetch(f"{url}/files", odd, "POST", b"x")
        given = (await fetch(found["location"], MIA))[1]
        assert given["content-type"] == "application/octet-stream"


NAMES = [
    ("", 'attachment; filename="a\\"b.txt"', 'a"b.txt'),
    ("", 'attachment; filename="..\\\\..\\\\a.txt"', "a.txt"),
    ("", "attachment; filename=a.txt", "a.txt"),
    ("?name=..%2F..%2Fetc%2Fpass%0D%0A%00%E2%80%AEgpj.exe", "", "passgpj.exe"),
]


@pytest.mark.parametrize(("query", "disposition", "name"), NAMES)
async def test_the_name_of_an_upload(query: str, disposition: str, name: str) -> None:
    """Wherever it is said: without folders, and without characters that hide something."""
    async with served(agent_of()) as (_, url):
        headers = MIA | {"Content-Disposition": disposition}
        status, _, body = await fetch(f"{url}/files{query}", headers, "POST", b"x")
        assert (status, json.loads(body)["filename"]) == (201, name)


async def test_json_that_names_bytes_that_are_not_there_spoils_no_answer() -> None:
    """A file of the caller's own, and more of it than there is."""
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        place = await upload(url, MIA, b"tiny")
        marker = f"accord-file:{place.rpartition('/')[2]}/0/1000"
        reply = await client.send([File(b"x"), {"url": marker}], skill="size")
        assert reply.text.startswith("1 ")
        found = (await client.get(reply.task_id)).history[0].parts[1].data
        assert found == {"url": f"{place}?range=0-1000"}


async def test_a_file_of_a_moment_ago_has_no_more_bytes_than_it_has() -> None:
    """It is in memory still, and answers as the file store does."""
    files = Files(MemoryFileIndex(), LocalFiles(), Limits())
    await files.open()
    file = await files.put(Namespace("agent", "", "mia"), b"x" * 100)
    assert await files.load(FileReference(file.id, 90, 10)) == b"x" * 10
    for start, length in ((90, 11), (200, 1)):
        with pytest.raises(A2AError, match="not in the file store"):
            await files.load(FileReference(file.id, start, length))
    await files.close()


RANGES = [
    ("bytes=0-9", 206, slice(0, 10)),
    ("bytes=5-", 206, slice(5, None)),
    ("bytes=-7", 206, slice(-7, None)),
    ("bytes=-99999999", 206, slice(0, None)),
    ("bytes=0-999999999999999999", 206, slice(0, None)),
    ("bytes=300000-300001", 416, None),
    ("bytes=999999999999999999-", 416, None),
    *((f"bytes={n * '9'}-", 416, None) for n in (17, 18, 19, 20, 28, 5000)),
    *((f"bytes={n * '9'}-{n * '9'}", 416, None) for n in (18, 19, 5000)),
    *((f"bytes=5-{n * '9'}", 206, slice(5, None)) for n in (18, 19, 20, 28, 5000)),
    *((f"bytes=-{n * '9'}", 206, slice(0, None)) for n in (18, 19, 20, 28, 5000)),
    (f"bytes={30 * '0'}5-{30 * '0'}9", 206, slice(5, 10)),
    (f"bytes={20 * '9'}-{19 * '9'}", 200, slice(0, None)),
    (f"bytes=9-{30 * '0'}5", 200, slice(0, None)),
    ("Bytes=0-9", 206, slice(0, 10)),
    ("bytes=9-5", 200, slice(0, None)),
    ("bytes=-0", 416, None),
    ("bytes=-", 200, slice(0, None)),
    ("bytes=\u00b2-", 200, slice(0, None)),
    ("bytes=0-1,5-6", 200, slice(0, None)),
    ("lines=1-2", 200, slice(0, None)),
]


async def test_ranges() -> None:
    """RFC 9110, section 14: what can't be met is 416, what is no range is ignored."""
    data = pattern(300_000)
    async with served(agent_of()) as (_, url):
        place = await upload(url, MIA, data)
        _, headers, body = await fetch(place, MIA)
        assert body == data
        assert headers["etag"] == f'"{hashlib.sha256(data).hexdigest()}"'
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert headers["repr-digest"] == f"sha-256=:{digest}:"
        for text, status, piece in RANGES:
            got = await fetch(place, MIA | {"Range": text})
            assert got[0] == status, text
            if piece is not None:
                assert got[2] == data[piece], text
        assert (await fetch(place, MIA | {"If-None-Match": headers["etag"]}))[0] == 304
        other = MIA | {"Range": "bytes=0-9", "If-Range": '"other"'}
        assert (await fetch(place, other))[0] == 200
        head = await fetch(place, MIA, "HEAD")
        assert (head[0], head[1]["content-length"], head[2]) == (200, "300000", b"")
        ranged = await fetch(place, MIA | {"Range": "bytes=0-9"}, "HEAD")
        assert (ranged[0], ranged[1]["content-length"]) == (200, "300000"), "only GET has ranges"


async def test_ranges_of_an_empty_file() -> None:
    """No byte can be asked for; its last five bytes are all of it, and that is no range."""
    async with served(agent_of()) as (_, url):
        place = await upload(url, MIA, b"")
        for text, status in (("0-", 416), ("0-0", 416), ("-0", 416), ("-5", 200)):
            got = await fetch(place, MIA | {"Range": f"bytes={text}"})
            assert (got[0], got[2]) == (status, b""), text


# Uploads


async def test_the_address_of_a_piece_is_that_of_a_file_of_its_own() -> None:
    """It has an ETag and ranges of its own, and no digest: that of the file is not its."""
    data = pattern(10_000)
    async with served(agent_of()) as (_, url):
        place = await upload(url, MIA, data)
        piece = f"{place}?range=3000-5000"
        status, found, body = await fetch(piece, MIA)
        assert (status, body) == (200, data[3000:5000])
        assert "repr-digest" not in found
        etag = found["etag"]
        assert (await fetch(piece, {**MIA, "If-None-Match": etag}))[0] == 304
        assert (await fetch(place, {**MIA, "If-None-Match": etag}))[0] == 200
        rest = {**MIA, "Range": "bytes=1500-", "If-Range": etag}
        status, found, body = await fetch(piece, rest)
        assert (status, body) == (206, data[4500:5000])
        assert found["content-range"] == "bytes 1500-1999/2000"
        assert (await fetch(piece, {**MIA, "Range": "bytes=2000-"}))[0] == 416
        for wrong in ("5000-3000", "0-10001", f"0-{16 * '9'}", f"{20 * '9'}-{5000 * '9'}"):
            assert (await fetch(f"{place}?range={wrong}", MIA))[0] == 416


@pytest.mark.parametrize("length", [10_001, 999_999_999_999_999])
async def test_a_link_of_a_stranger_changes_no_file(length: int) -> None:
    """A skill that gives back a link it was told may be told one in our own scheme."""
    agent, data = agent_of(), pattern(10_000)

    @agent.skill
    async def link(url: str) -> File:
        """Give a link."""
        return File(url=url)

    async with served(agent) as (_, url), client_of(url, headers=BOB) as bob:
        place = await upload(url, MIA, data)
        id_ = place.rpartition("/")[2]
        reply = await bob.send(f"accord-file:{id_}/0/{length}", skill="link")
        assert place not in repr(reply.task)
        assert (await fetch(place, MIA))[2] == data
        assert await upload(url, MIA, data)  # her files are as many bytes as they were


async def test_an_upload_goes_on_where_it_was_cut() -> None:
    """draft-ietf-httpbis-resumable-upload-05: HEAD says how much has come, PATCH goes on."""
    data = pattern(3 * MB)
    async with served(agent_of()) as (_, url):
        begun = MIA | {"Upload-Complete": "?0", "Upload-Length": str(len(data))}
        status, headers, _ = await fetch(f"{url}/files", begun, "POST", data[:MB])
        assert (status, headers["upload-offset"], headers["upload-complete"]) == (
            201,
            str(MB),
            "?0",
        )
        place = headers["location"]
        status, headers, _ = await fetch(place, MIA, "HEAD")
        assert (status, headers["upload-offset"]) == (204, str(MB))
        wrong = MIA | {"Upload-Offset": "5", "Upload-Complete": "?0"}
        status, headers, body = await fetch(place, wrong, "PATCH", b"x")
        assert (status, headers["upload-offset"]) == (409, str(MB))
        assert b"mismatching-upload-offset" in body
        rest = MIA | {"Upload-Offset": str(MB), "Upload-Complete": "?1"}
        status, headers, body = await fetch(place, rest, "PATCH", data[MB:])
        assert (status, headers["upload-complete"]) == (201, "?1")
        assert (await fetch(place, MIA))[2] == data
        async with client_of(url, headers=MIA) as client:
            said = await client.send(File(url=place), skill="size")
            assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()}")


async def test_an_upload_whose_last_answer_is_lost_is_finished() -> None:
    """All of it is there: the client asks, and goes on with its message."""
    data, lost = pattern(9 * MB), []

    async def passed_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while piece := await source.read(MB):
            if b"201 Created" in piece and b"repr-digest" in piece.lower() and not lost:
                lost.append(piece)
                break
            to.write(piece)
            await to.drain()
        to.close()

    async with served(agent_of()) as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            to_server, server = await asyncio.open_connection(host, int(port))
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(passed_on(reader, server), passed_on(to_server, writer))

        front = await asyncio.start_server(connected, "127.0.0.1")
        place = f"http://127.0.0.1:{front.sockets[0].getsockname()[1]}"
        async with client_of(place, headers=MIA) as client:
            said = await client.send(File(data, name="a.bin"), skill="size")
        front.close()
    assert lost
    assert said.text.startswith(f"{len(data)} {hashlib.sha256(data).hexdigest()} a.bin")


async def test_the_state_of_a_finished_upload() -> None:
    async with served(agent_of()) as (_, url):
        status, found, _ = await fetch(await upload(url, MIA, b"abc"), MIA, "HEAD")
    assert (status, found["content-length"]) == (200, "3")
    assert (found["upload-offset"], found["upload-complete"]) == ("3", "?1")


async def test_an_unfinished_file_can_not_be_sent() -> None:
    async with served(agent_of()) as (_, url), client_of(url, headers=MIA) as client:
        begun = MIA | {"Upload-Complete": "?0"}
        _, headers, _ = await fetch(f"{url}/files", begun, "POST", b"x" * 100)
        with pytest.raises(InvalidParams, match="no file"):
            await client.send(File(url=headers["location"]), skill="size")
        assert (await fetch(headers["location"], MIA, "DELETE"))[0] == 204
        assert (await fetch(headers["location"], MIA, "HEAD"))[0] == 404


async def test_a_client_that_goes_away_leaves_what_has_come() -> None:
    """The connection breaks in the middle of a body."""
    async with served(agent_of()) as (app, url):
        begun = MIA | {"Upload-Complete": "?0"}
        _, headers, _ = await fetch(f"{url}/files", begun, "POST", b"")
        place = headers["location"]
        host, port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        path = place.removeprefix(url)
        writer.write(
            f"PATCH {path} HTTP/1.1\r\nHost: {host}:{port}\r\nX-API-Key: {MIA['X-API-Key']}\r\n"
            "Upload-Offset: 0\r\nUpload-Complete: ?1\r\nContent-Length: 1000000\r\n\r\n".encode()
            + b"a" * 100_000
        )
        await writer.drain()
        files = app.engine.tasks.files
        async with asyncio.timeout(10):
            await until(lambda: files.is_busy)
            writer.transport.abort()
            await until(lambda: not files.is_busy)
        got = await fetch(place, MIA, "HEAD")
        assert (got[0], got[1]["upload-complete"]) == (204, "?0")
        offset = int(got[1]["upload-offset"])
        assert 0 < offset <= 100_000
        rest = MIA | {"Upload-Offset": str(offset), "Upload-Complete": "?1"}
        assert (await fetch(place, rest, "PATCH", b"a" * (1_000_000 - offset)))[0] == 201
        assert (await fetch(place, MIA))[2] == b"a" * 1_000_000


async def test_an_upload_cancelled_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    """No bytes without a row: they would be there for ever, and counted for nobody."""
    going_on = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await going_on.wait()
        yield b"y" * 1000

    async with served(agent_of(), store=f"sqlite:///{tmp_path}/tasks.db") as (app, url):
        begun = MIA | {"Upload-Complete": "?0"}
        place = (await fetch(f"{url}/files", begun, "POST", b""))[1]["location"]
        files = app.engine.tasks.files
        async with aiohttp.ClientSession(trust_env=False) as http, asyncio.timeout(10):
            more = MIA | {"Upload-Offset": "0"}
            writing = asyncio.ensure_future(http.patch(place, headers=more, data=body()))
            await until(lambda: files.is_busy)
            assert (await fetch(place, MIA, "DELETE"))[0] == 204
            going_on.set()
            async with await writing as answer:
                assert answer.status == 400
                assert b"cancelled" in await answer.read()
        assert names_in(Path(f"{tmp_path}/tasks.db-files")) == []


class FailingIndex(MemoryFileIndex):
    """An index in which the next commit fails."""

    is_failing = False

    async def grow(self, *change: Any) -> bool:
        if self.is_failing:
            self.is_failing = False
            raise CommitFailed("the disk is full")
        return await super().grow(*change)


@pytest.mark.parametrize("size", [100, LocalFiles.batch])
async def test_a_commit_that_fails_does_not_spoil_the_digest(size: int, tmp_path: Path) -> None:
    """What was not stored comes again, and is in the digest once."""
    index = FailingIndex()
    files = Files(index, LocalFiles(tmp_path), Limits())
    begun = await files.create(Namespace("agent", "", "mia"), "a.bin", "", -1)

    async def pieces(data: bytes) -> AsyncIterator[bytes]:
        yield data

    file = await files.append(begun, pieces(b"head"), is_complete=False)
    index.is_failing = True
    with pytest.raises(Unavailable):
        await files.append(file, pieces(b"x" * size), is_complete=False)
    found = await index.find(begun.id)
    assert found == file
    file = await files.append(file, pieces(b"x" * size), is_complete=True)
    assert file.sha256 == hashlib.sha256(b"head" + b"x" * size).digest()


async def test_limits_of_uploads() -> None:
    """One file, all files of a caller, and uploads that are not finished."""
    limits = Limits(file_size=100_000, files_per_caller=250_000, uploads_per_caller=2)
    async with served(agent_of(), limits=limits) as (_, url):
        said = await fetch(f"{url}/files", MIA, "POST", b"x" * 100_001)
        assert (said[0], b"file_size" in said[2]) == (400, True)
        begun = MIA | {"Upload-Complete": "?0"}
        _, headers, _ = await fetch(f"{url}/files", begun, "POST", b"x" * 90_000)
        more = MIA | {"Upload-Offset": "90000", "Upload-Complete": "?1"}
        assert (await fetch(headers["location"], more, "PATCH", b"x" * 20_000))[0] == 400
        await upload(url, MIA, b"x" * 90_000)
        said = await fetch(f"{url}/files", MIA, "POST", b"x" * 90_000)
        assert (said[0], b"files_per_caller" in said[2] or b"250000" in said[2]) == (429, True)
        await fetch(f"{url}/files", begun, "POST", b"")
        said = await fetch(f"{url}/files", begun, "POST", b"")
        assert (said[0], b"not finished" in said[2]) == (429, True)
        await upload(url, BOB, b"x" * 90_000)  # another caller has limits of its own


async def test_limits_of_uploads_hold_for_many_at_once_and_for_what_is_not_there_yet() -> None:
    """Many that begin together, lengths that were announced, and a body without a length."""

    async def body() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x" * MB

    limits = Limits(files_per_caller=6 * MB, uploads_per_caller=3)
    async with served(agent_of(), limits=limits) as (_, url):
        begun = MIA | {"Upload-Complete": "?0"}
        found = await asyncio.gather(
            *(fetch(f"{url}/files", begun, "POST", b"") for _ in range(10))
        )
        assert sorted(status for status, _, _ in found) == [201] * 3 + [429] * 7
        for status, headers, _ in found:
            if status == 201:
                assert (await fetch(headers["location"], MIA, "DELETE"))[0] == 204
        announced = begun | {"Upload-Length": str(4 * MB)}
        first, second = [await fetch(f"{url}/files", announced, "POST", b"") for _ in range(2)]
        assert (first[0], second[0]) == (201, 429)
        assert (await fetch(first[1]["location"], MIA, "DELETE"))[0] == 204
        async with (
            aiohttp.ClientSession(trust_env=False) as http,
            http.post(f"{url}/files", headers=MIA, data=body()) as answer,
        ):
            assert (answer.status, b"beyond" in await answer.read()) == (429, True)


async def test_nobody_adds_to_a_file_that_an_agent_writes() -> None:
    """Its address is known while it grows. It is no upload, and takes the place of none."""
    agent, going_on = agent_of(), asyncio.Event()

    @agent.skill
    async def slow(ctx: Context) -> str:
        """Write half of a file, and wait."""
        async with ctx.file("slow.bin") as f:
            await f.write(b"a" * 300_000)
            await going_on.wait()
            await f.write(b"b" * 300_000)
        return "done"

    async with (
        served(agent, limits=Limits(uploads_per_caller=1)) as (_, url),
        client_of(url, headers=MIA) as client,
    ):
        async for event in client.stream("now", skill="slow"):
            if going_on.is_set() or not hasattr(event, "artifact"):
                continue
            place = str(event.artifact.parts[0].url).partition("?")[0]  # of all of it
            for verb in ("PATCH", "DELETE"):
                status, headers, _ = await fetch(
                    place, MIA | {"Upload-Offset": "300000"}, verb, b"evil"
                )
                assert (status, headers["allow"]) == (405, "GET, HEAD")
            await upload(url, MIA, b"x" * 1000)
            going_on.set()
        assert (await fetch(place, MIA))[2] == b"a" * 300_000 + b"b" * 300_000


async def test_what_nobody_refers_to_goes_after_a_day() -> None:
    """Also an upload that was never finished; a file that a task refers to stays."""
    async with served(agent_of()) as (app, url), client_of(url, headers=MIA) as client:
        await upload(url, MIA, b"u" * 100_000)
        await fetch(f"{url}/files", MIA | {"Upload-Complete": "?0"}, "POST", b"x" * 10)
        kept = await upload(url, MIA, pattern(MB))
        await client.send(File(url=kept), skill="size")
        files = app.engine.tasks.files
        assert await files.collect() == 0
        files.unused_s = -1.0
        assert await files.collect() == 2
        assert await files.index.sums() == (1, MB)
        assert (await fetch(kept, MIA))[2] == pattern(MB)


async def test_a_file_that_can_not_be_deleted_keeps_no_other_from_going(tmp_path: Path) -> None:
    async with served(agent_of(), files=f"file://{tmp_path}/files") as (app, url):
        for content in (b"a", b"b", b"c"):
            await upload(url, MIA, content * 100_000)
        files = app.engine.tasks.files
        files.unused_s = -1.0
        stuck = next((tmp_path / "files").glob("*/*"))
        stuck.unlink()
        stuck.mkdir()
        (stuck / "in the way").touch()
        assert await files.collect() == 2
        assert await files.index.sums() == (1, 100_000)
        (stuck / "in the way").unlink()
        stuck.rmdir()
        assert await files.collect() == 1


async def test_a_full_disk_refuses_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The sender is told, but not where that is, which is in the log; the next file is taken when
    there is space again.
    """
    monkeypatch.setattr("accord.files.contract._said_s", {})
    async with (
        served(agent_of(), files=f"file://{tmp_path}/files") as (app, url),
        client_of(url, headers=MIA, retry=Retry(attempts=1)) as client,
    ):
        with monkeypatch.context() as full:

            def write(file: int, data: Any) -> int:
                raise OSError(28, "No space left on device")

            full.setattr("accord.files.local.os.write", write)
            status, _, body = await fetch(f"{url}/files", MIA, "POST", b"x" * 100_000)
            assert (status, b"no space left" in body) == (503, True)
            assert str(tmp_path).encode() not in body
            for size in (100_000, 3 * MB):  # in the message, and uploaded
                with pytest.raises(Unavailable, match="no space left"):
                    await client.send(File(b"x" * size), skill="plain")
            told = [
                one for one in caplog.messages if f"no space left for files in {tmp_path}" in one
            ]
            assert len(told) == 1, "and not for each"
            assert (await app.engine.tasks.files.index.sums())[1] == 0, "nothing is counted"
        assert (await client.send("3", skill="chunks")).ok
        await upload(url, MIA, b"x" * 100_000)


async def test_a_file_store_that_fails_is_not_described_to_callers(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error names folders, hosts and accounts. These are in the log."""
    monkeypatch.setattr("accord.files.contract._said_s", {})
    (tmp_path / "files").touch()  # where a folder should be
    async with served(agent_of(), files=f"file://{tmp_path}/files") as (_, url):
        status, _, body = await fetch(f"{url}/files", MIA, "POST", b"x" * 100_000)
        assert (status, str(tmp_path).encode() in body) == (503, False)
    assert f"{tmp_path}/files" in caplog.text


async def test_a_body_that_is_too_large_names_the_upload() -> None:
    async with served(agent_of()) as (_, url):
        body = b'{"x":"' + b"y" * (5 * MB) + b'"}'
        headers = MIA | {"Content-Type": "application/json", "A2A-Version": "1.0"}
        status, _, said = await fetch(url, headers, "POST", body)
        assert (status, b"/files" in said) == (413, True)


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("报告" * 60 + ".pdf", ".pdf"),
        ("😀" * 200 + ".tar.gz", ".gz"),
        ("a" * 400, "a"),
        ("x." + "报" * 200, "报"),
        ("half\ud800.txt", "half?.txt"),
    ],
)
async def test_a_long_name_is_cut_where_the_disk_needs_it(
    name: str, saved: str, tmp_path: Path
) -> None:
    """A name of other letters than Latin has more bytes than letters."""
    place = await File(b"x", name=name).save(tmp_path)
    assert place.name.endswith(saved)
    assert len(place.name.encode()) <= 200
    (place,) = save_files([Part(raw=b"x", filename=name)], tmp_path, {})
    assert place.read_bytes() == b"x"
