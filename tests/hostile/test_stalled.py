"""Readers that stop reading (promise S3): they cost little, hold nobody up, and are cut so that it can't look like an end."""

import asyncio
import contextlib
import json
import socket
import time
from urllib.parse import urlsplit

from tests.drive import say, state_of
from tests.limits.process import Line, head, served
from tests.reliability.harness import report, size

READERS = 50
LENGTH = 2_000
MIB = 1 << 20
END = b"0\r\n\r\n"  # the closing chunk: a stream that ended as it should


def subscription(task_id):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}).encode()


def request(task_id):
    body = subscription(task_id)
    return head("POST", "/", b"content-length: %d\r\n" % len(body)) + body


class Healthy:
    """Reads to the end, and counts instead of keeping."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.events = 0
        self.end = b""

    async def read(self) -> None:
        kept = b""
        while piece := await self._line.reader.read(1 << 16):
            self.events += (kept + piece).count(b'"artifactUpdate"') - kept.count(b'"artifactUpdate"')
            kept = (kept + piece)[-400:]
            if kept.endswith(END):
                break
        self.end = kept
        await self._line.hang_up()


async def stalled(url, task_id):
    """Ask for the stream and read nothing of it."""
    line = socket.socket()
    line.setblocking(False)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(line, (urlsplit(url).hostname, urlsplit(url).port))
    await loop.sock_sendall(line, request(task_id))
    return line


async def what_came(line):
    """Everything that reached a stalled reader, now that it looks."""
    loop = asyncio.get_running_loop()
    pieces = []
    with contextlib.closing(line), contextlib.suppress(ConnectionError):
        while piece := await loop.sock_recv(line, 1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


async def test_stalled_readers_cost_little_and_are_cut(tmp_path):
    """50 of them beside 50 that read; at most 2 MiB each (a2a-sdk: 2,759 MB for one), and 0 clean ends without a terminal state."""
    count = size(2_500, 5_000)  # more than the system itself would hold for a reader
    async with served(tmp_path, stalled_s=2.0) as server:
        client = server.door()
        task = (await client.send(say(f"{count} {LENGTH}", metadata={"skill": "talk"})))["task"]
        silent = [await stalled(server.url, task["id"]) for _ in range(READERS)]
        readers = []
        for _ in range(READERS):
            line = await server.dial()
            await line.say(request(task["id"]))
            await line.reader.readuntil(b"\n\n")  # the task as it is: from here on every event counts
            readers.append(Healthy(line))
        reading = [asyncio.ensure_future(reader.read()) for reader in readers]
        before = server.memory
        server.forget_peak()
        await client.send(say("yes", taskId=task["id"], configuration={"returnImmediately": True}))
        started = time.monotonic()
        async with asyncio.timeout(180):
            await asyncio.gather(*reading)
        took_s = time.monotonic() - started
        async with asyncio.timeout(30):
            while server.connections > 2:  # until the server has cut the silent ones
                await client.list(pageSize=1)
        grown = server.peak - before
        heard = [await what_came(line) for line in silent]
        cut = sum(not data.endswith(END) for data in heard)
        clean = sum(data.endswith(END) and b"TASK_STATE_COMPLETED" not in data for data in heard)
        report(
            "S3",
            events=count,
            readers=f"{READERS} healthy, {READERS} stalled",
            grown_by_MiB_each=round(grown / READERS / MIB, 2),
            cut=cut,
            clean_ends_without_a_terminal_state=clean,
            healthy_done_after_s=round(took_s, 1),
        )
        assert {reader.events for reader in readers} == {count}
        assert all(reader.end.endswith(END) and b"TASK_STATE_COMPLETED" in reader.end for reader in readers)
        assert grown <= 2 * MIB * READERS
        assert (cut, clean) == (READERS, 0)
        assert state_of(await client.get(task["id"], historyLength=0)) == "completed"
