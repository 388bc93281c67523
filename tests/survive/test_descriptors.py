"""A process whose file descriptors are all in use says so once, and goes on when some are free
again.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S, start

resource = pytest.importorskip("resource", reason="Windows has no such limit")

SERVE = """
import sys
if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
from accord import Agent
agent = Agent("Few")

@agent.skill
async def echo(text: str) -> str:
    return text

def start(address):
    print(address.rpartition(":")[2], flush=True)

agent.run(port=0, store="memory://", on_start=start)
"""
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted there")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_exhausted_descriptors_are_logged_once(loop: str) -> None:
    """Who comes too late waits, and is served when others have left: nobody is turned away without
    a word.
    """
    with start(sys.executable, "-c", SERVE, loop) as process:
        port = int(await process.line())
        limit(process.pid)
        async with asyncio.timeout(PATIENCE_S):
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in clients:
                writer.write(GET)
            early = [await is_served(reader) for reader, _ in clients[:8]]
            assert early == [True] * 8
            late = asyncio.create_task(is_served(clients[-1][0]))
            await asyncio.wait([late], timeout=1)  # several tries of the server
            assert not late.done()
            for _, writer in clients[:-1]:
                writer.close()
            assert await late
            clients[-1][1].close()
        assert await process.stop() == 0
    lines = process.err.text.splitlines()
    assert len(lines) == 1, lines
    assert "file descriptors of this process are in use" in lines[0]
    assert "ulimit -n" in lines[0]


def limit(pid: int) -> None:
    """Leave a process ten more descriptors. It does not do that itself: what it needs for its
    report must be there already.
    """
    most = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 10
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))


async def is_served(reader: asyncio.StreamReader) -> bool:
    return (await reader.readline()).startswith(b"HTTP/1.1 200")
