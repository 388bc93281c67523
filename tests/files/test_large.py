"""Files of any size on a server of its own: its memory and CPU time, cuts and kills, neighbours.

`make soak PART=tests/files/test_large.py` has 1 GiB, 20 cuts and 5 kills, and prints the figures;
other runs have less.
"""

import asyncio
import contextlib
import hashlib
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from accord import File, connect
from tests.cli.shell import accord, found
from tests.files.conftest import new_bucket
from tests.files.test_files import fetch
from tests.files.test_operations import let_a_day_pass, stats
from tests.postgres import execute, schema_url
from tests.processes import Process, free_port, start

pytestmark = pytest.mark.alone

MB = 1 << 20
IS_SOAK = bool(os.environ.get("ACCORD_SOAK"))
SERVE = Path(__file__).parent / "serve.py"
PATIENCE_S = 60.0


class Server:
    """A server of its own process, on a store that stays."""

    def __init__(
        self, store: str, behind: str = "", files: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self.files = files
        self.behind = behind
        self.env = env
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: Process | None = None

    async def start(self) -> None:
        words = (str(self.port), self.store, self.files, self.behind)
        self.process = start(sys.executable, SERVE, *words, env=self.env)
        assert await self.process.line(PATIENCE_S) == self.url

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait_sync()
        self.process.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class HubServer(Server):
    """A hub of its own process, called at the address of the agent that is behind it."""

    def __init__(self, folder: Path, behind: str) -> None:
        super().__init__("", behind)
        self.folder = folder

    async def start(self) -> None:
        words = ("hub", "--port", str(self.port), "--no-console")
        self.process = start(sys.executable, "-m", "accord", *words, cwd=self.folder)
        hub = found(r"http\S+", await self.process.line(PATIENCE_S)).rstrip("/")
        added = accord("hub", "add", self.behind, "--hub", hub, cwd=self.folder)
        assert added.code == 0, added.err
        self.url = f"{hub}/agents/files"


@contextlib.asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    await server.start()
    try:
        yield server
    finally:
        server.kill()


def written(path: Path, megabytes: int) -> str:
    """Write a file that can't be compressed; return its digest."""
    found = hashlib.sha256()
    with path.open("wb") as out:
        for _ in range(megabytes):
            piece = os.urandom(MB)
            found.update(piece)
            out.write(piece)
    return found.hexdigest()


def size_of(path: Path) -> int:
    return path.stat().st_size


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def stored_in(kind: str, folder: Path) -> Iterator[str]:
    if kind == "postgres":
        with schema_url() as url:
            yield url
    else:
        yield "memory://" if kind == "memory" else f"sqlite:///{folder}/tasks.db"


async def there_and_back(server: Server, path: Path, digest: str) -> float:
    """Send a file, have it sent back and get it; return the server's CPU seconds."""
    size = size_of(path)
    begin = server.cpu_s()
    async with connect(server.url) as client:
        said = await client.send(File.path(path), skill="digest")
        assert said.text == f"{size} {digest}"
        back = (await client.send(File.path(path), skill="back")).files[0]
        place = await back.save(path.with_name("back.bin"))
    assert digest_of(place) == digest
    place.unlink()
    return server.cpu_s() - begin


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "memory", "relay", "hub"])
async def test_memory_stays_and_cpu_time_is_linear(kind: str, tmp_path: Path) -> None:
    """In and out over HTTP: memory grows by less than 64 MiB, 80 MB cost 9 times 10 MB at most.
    Behind a relay or a hub that holds for the agent too.
    """
    sizes = [10, 80, 1024] if IS_SOAK else [5, 40]
    async with contextlib.AsyncExitStack() as stack:
        store = f"sqlite:///{tmp_path}/tasks.db"
        if kind in ("postgres", "memory"):
            store = stack.enter_context(stored_in(kind, tmp_path))
        servers = [await stack.enter_async_context(running(Server(store)))]
        if kind == "relay":
            relay = Server(f"sqlite:///{tmp_path}/relay.db", servers[0].url)
            servers.append(await stack.enter_async_context(running(relay)))
        elif kind == "hub":
            hub = HubServer(tmp_path, servers[0].url)
            servers.append(await stack.enter_async_context(running(hub)))
        path = tmp_path / "film.bin"
        await there_and_back(servers[-1], path, written(path, 1))  # everything is imported
        before = [server.peak_mb() for server in servers]
        figures = []
        for megabytes in sizes:
            figures.append(await there_and_back(servers[-1], path, written(path, megabytes)))
            more = [one.peak_mb() - mb for one, mb in zip(servers, before, strict=True)]
            memory = ", ".join(f"+{mb:.0f} MB" for mb in more)
            print(f"{kind}: {megabytes} MB: CPU {figures[-1]:.2f} s, memory {memory}")
            assert max(more) < 64
        assert figures[1] <= 9 * max(figures[0], 0.2)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "s3"])
async def test_an_upload_survives_cuts_and_kills(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It goes on where it was; nothing is left over after a day, of which this one is short."""
    cuts, kills, megabytes = (20, 5, 200) if IS_SOAK else (4, 2, 20)
    path = tmp_path / "film.bin"
    digest = written(path, megabytes)
    data = path.read_bytes()
    step = len(data) // (cuts + 2)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(stored_in("sqlite" if kind == "s3" else kind, tmp_path))
        bucket = new_bucket(request.getfixturevalue("s3")) if kind == "s3" else None
        server = Server(store, files=bucket.url if bucket else "", env=bucket and bucket.variables)
        await server.start()
        try:
            place, left = [await _begun(server) for _ in range(2)]
            for n in range(cuts):
                await _cut(server, place, data, await _offset(place), step)
                if n < kills:
                    await _cut(server, left, data, await _offset(left), step, is_killed=True)
                    await server.start()
            status = 409  # as long as the server writes what came before the last cut
            while status == 409:
                offset = await _offset(place)
                assert cuts * step // 2 < offset < len(data)
                rest = {"Upload-Offset": str(offset), "Upload-Complete": "?1"}
                status, _, body = await fetch(place, rest, "PATCH", data[offset:])
            assert status == 201, body
            async with connect(server.url) as client:
                said = await client.send(File(url=place), skill="digest")
                assert said.text == f"{len(data)} {digest}"
        finally:
            server.kill()
        if bucket is None:
            let_a_day_pass(store)
            vacuumed = accord("db", "vacuum", "--store", store)
            assert "deleted 1 file that no task referred to" in vacuumed.out, vacuumed.err
            found_ = stats(store)
            assert (found_["count"], found_["size"], found_["unreferenced"]) == (1, len(data), 0)
            assert stored_bytes(store) == len(data)


def stored_bytes(store: str) -> int:
    """How many bytes a file store has, whatever its index says."""
    if not store.startswith("sqlite"):
        schema = found(r"schema=(\w+)", store)
        [[size]] = execute(f"SELECT sum(length(data)) FROM {schema}.file_bytes")
        return int(size)
    folder = Path(f"{store[10:]}-files")
    return sum(place.stat().st_size for place in folder.rglob("*") if place.is_file())


async def _begun(server: Server) -> str:
    """Begin an upload; return its address."""
    _, headers, _ = await fetch(f"{server.url}/files", {"Upload-Complete": "?0"}, "POST", b"")
    return headers["location"]


async def _offset(place: str) -> int:
    status, headers, _ = await fetch(place, None, "HEAD")
    assert status == 204
    return int(headers["upload-offset"])


async def _cut(
    server: Server, place: str, data: bytes, offset: int, count: int, *, is_killed: bool = False
) -> None:
    """Send so many bytes of a request that promises all, and break off when some are stored: the
    client, or the server, which is in the middle of it then.
    """
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    path = place.removeprefix(server.url)
    head = (
        f"PATCH {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpload-Offset: {offset}\r\n"
        f"Upload-Complete: ?1\r\nContent-Length: {len(data) - offset}\r\n\r\n"
    )
    writer.write(head.encode() + data[offset : offset + count])
    async with asyncio.timeout(PATIENCE_S):
        if is_killed:
            while await _offset(place) == offset:
                pass
            server.kill()
            writer.transport.abort()
            return
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort()
        before = -1
        while (now := await _offset(place)) != before or now == offset:  # until it has settled
            before = now
            await asyncio.sleep(0.05)


async def test_downloads_do_not_hold_up_neighbours(tmp_path: Path) -> None:
    """The p99 of small sends beside 20 downloads stays below 3 times what it is alone."""
    megabytes, downloads, sends = (200, 20, 400) if IS_SOAK else (20, 10, 100)
    path = tmp_path / "film.bin"
    digest = written(path, megabytes)
    store = f"sqlite:///{tmp_path}/tasks.db"
    async with running(Server(store)) as server, connect(server.url) as client:
        url = (await client.send(File.path(path), skill="back")).files[0].url
        alone = await _p99(client, sends)
        code = _DOWNLOAD.format(url=url, count=downloads)
        with start(sys.executable, "-c", code) as reader:
            beside = await _p99(client, sends)
            digests = set((await reader.line(600.0)).split())
        print(f"p99 alone {alone * 1e3:.1f} ms, beside {downloads} downloads {beside * 1e3:.1f} ms")
        assert digests == {digest}
        assert beside < (3 if IS_SOAK else 20) * max(alone, 0.01)


_DOWNLOAD = """
import asyncio, hashlib, aiohttp
async def get(http):
    found = hashlib.sha256()
    async with http.get({url!r}) as answer:
        async for chunk in answer.content.iter_chunked(1 << 18):
            found.update(chunk)
    return found.hexdigest()
async def main():
    async with aiohttp.ClientSession(trust_env=False) as http:
        print(*await asyncio.gather(*(get(http) for _ in range({count}))), flush=True)
asyncio.run(main())
"""


async def _p99(client: object, count: int) -> float:
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        assert (await client.send("x", skill="echo")).text == "x"  # type: ignore[attr-defined]
        took.append(time.perf_counter() - begin)
    return sorted(took)[int(count * 0.99) - 1]
