"""D2: what a reply tells of has been flushed to the disk, not only handed to the system. No kill
can show that: strace can.
"""

import itertools
import re
import shutil
from pathlib import Path

import pytest

from tests.processes import run_sync
from tests.reliability.harness import message, report, size
from tests.survive.host import Host

CALLS = "trace=pwrite64,write,writev,sendto,sendmsg,fsync,fdatasync"
LINE = re.compile(r"^(?P<thread>\d+) +(?P<call>\w+)\((?P<what>\d+<[^>]*>)?")
KINDS = ("new task", "question", "question", "answer", "cancel")
RESUMED = re.compile(r"^(?P<thread>\d+) +<\.\.\. (?P<call>\w+) resumed>.*= (?P<result>-?\d+)")


class Disk:
    """What a trace says of one file: written and not yet flushed, or flushed."""

    def __init__(self) -> None:
        self.is_dirty = False
        self.flushes = 0
        self._flushing: set[str] = set()  # threads in the middle of a flush

    def saw(self, line: str) -> bool:
        """Take one line; return whether it begins to send a reply."""
        if resumed := RESUMED.match(line):
            if resumed["thread"] in self._flushing and "sync" in resumed["call"]:
                self._flushing.remove(resumed["thread"])
                self._flushed(resumed["result"])
            return False
        begun = LINE.match(line)
        if begun is None or begun["what"] is None:
            return False
        if begun["call"] == "pwrite64" and "accord.db" in begun["what"]:
            self.is_dirty = True
        elif "sync" in begun["call"] and "accord.db" in begun["what"]:
            if "unfinished" in line:
                self._flushing.add(begun["thread"])
            else:
                self._flushed(line.rpartition("= ")[2])
        return "TCP:" in begun["what"] and "HTTP/1.1 200" in line

    def _flushed(self, result: str) -> None:
        assert int(result.split()[0]) == 0, "a flush failed"
        self.is_dirty = False
        self.flushes += 1


def tracer() -> str:
    """Where strace is, if it is there and may be used."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip(
            "strace is not installed (Debian: apt install strace), and nothing else shows "
            "the order of flushes"
        )
    if run_sync(strace, "-o", "/dev/null", "true").code:
        pytest.skip("the system does not let strace trace")
    return strace


def test_a_reply_that_leaves_too_early_is_seen() -> None:
    """The reader of traces is right only if it can say no."""
    write = '7 pwrite64(9</x/accord.db-wal>, "..."..., 4096, 0) = 4096'
    begun, ended = (
        "7 fdatasync(9</x/accord.db-wal> <unfinished ...>",
        "7 <... fdatasync resumed>) = 0",
    )
    reply = '8 write(12<TCP:[127.0.0.1:1->127.0.0.1:2]>, "HTTP/1.1 200 OK\\r\\n"..., 300) = 300'
    early, right = Disk(), Disk()
    assert [early.saw(line) for line in (write, begun, reply)] == [False, False, True]
    assert early.is_dirty
    assert [right.saw(line) for line in (write, begun, ended, reply)] == [False, False, False, True]
    assert (right.is_dirty, right.flushes) == (False, 1)


async def test_every_reply_follows_a_completed_flush_of_what_it_tells(tmp_path: Path) -> None:
    """D2: new tasks, questions, answers and cancels one after the other, with every system call of
    the server traced: when a reply leaves, all that was written to the database since the last
    reply has been flushed, and something was.
    """
    strace = tracer()
    writes, trace = size(1_000, 5_000), tmp_path / "trace"
    host = Host(tmp_path, beat_s=3600)
    host.is_forked = False
    host.command = [
        strace,
        "-D",
        "-f",
        "-yy",
        "-s",
        "16",
        "-e",
        CALLS,
        "-o",
        str(trace),
        *host.command,
    ]
    try:
        await host.start()
        client = host.client()
        for _ in range(writes // len(KINDS)):
            await client.send(message("hello", "echo"))
            asked = [(await client.send(message("hello", "talk")))["id"] for _ in range(2)]
            await client.send(message("bye", task_id=asked[0]))
            await client.cancel(asked[1])
        await host.kill()
    finally:
        await host.close()
    disk, replies = Disk(), []
    for line in trace.read_text(errors="replace").splitlines():
        if disk.saw(line):
            assert not disk.is_dirty, "a reply left before its data was flushed"
            replies.append(disk.flushes)
    told = replies[-writes:]  # before them: who answers
    assert len(told) == writes
    flushed = [after - before for before, after in itertools.pairwise(told)]
    assert min(flushed) >= 1, "a reply left without a flush of its own"
    report("D2", kinds=len(set(KINDS)), replies=len(told), flushes=told[-1] - told[0], early=0)
