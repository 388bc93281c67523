"""What a store promises.

A task's log is kept as rows: one per task and commit, holding the lines that commit added. A line is one letter and
one JSON text: `v` an event a stream can show (these are numbered, from 1), `m` a message, or a private entry; what is not
numbered is stored under the number it follows. A row is found by the number of its first visible line, or by the number its
lines follow. A `v` may be written shorter (`short.py`), and is given back in full. A commit of private lines alone has a place of
its own, beside the rows.

The snapshot is the task as JSON in two pieces, `head` (all but the artifacts) and `artifacts`, so that a list needs no
decoding and a finished task is two slices of bytes. A task that was made, and of which nothing is told while it is worked on, needs
none yet: it is begun.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

__all__ = ["Ages", "CommitFailed", "Fenced", "Keep", "Note", "Page", "Query", "Record", "Scope", "Stats", "Store", "Write"]


class CommitFailed(Exception):
    """Nothing of the batch was stored; the same batch may be tried again."""


class Fenced(CommitFailed):
    """Another process has taken this one for dead and taken over its tasks: nothing it writes counts any more."""


class Scope(NamedTuple):
    """Whose tasks: everything is stored and found inside one scope."""

    tenant: str = ""
    owner: str = ""


# Lines of a commit that only added private ones, so that the task stands as it did: its key, the number they follow, and they.
Note: TypeAlias = tuple[int, int, bytes]


class Write(msgspec.Struct, gc=False):
    """What one commit adds to one task: lines to its log, and where it then stands."""

    key: int
    row: int  # the number this commit's lines are stored under
    lines: list[bytes]
    state: int  # the proto number, small and stable
    scope: Scope = Scope()
    was: int = 0  # the state before, 0 if there was no snapshot: counters move by the difference
    at_ms: int = 0  # of the status: what lists sort by
    seq: int = 0  # the last visible number after this commit
    pos: int = 0  # how many lines the task is the fold of after this commit: visible ones and messages
    has_moved: bool = True  # the state or its time differ from what is stored: only then has it another place in lists
    head: bytes | None = None  # a new snapshot, if one is due
    artifacts: bytes = b""
    is_new: bool = False  # nothing of it is stored yet; without a snapshot it is only begun, and its log all there is of it
    was_begun: bool = False  # and this is its first snapshot
    id: str = ""  # this and the rest never change, and are given with these two
    context_id: str = ""
    about: bytes = b""  # private


class Keep(msgspec.Struct, gc=False):
    """An idempotency key and what it stands for: a task and the id of the message sent to it, or the bytes of a reply."""

    scope: Scope
    key: str
    digest: bytes
    at_ms: int
    task_id: str = ""
    reply: bytes = b""


class Record(msgspec.Struct, gc=False):
    """A task as stored: a snapshot, and how far the log has gone since. Not to be changed by who reads it."""

    key: int
    scope: Scope
    id: str
    context_id: str
    state: int
    at_ms: int
    seq: int
    pos: int
    snap_pos: int  # `pos` when the snapshot was made; negative if that is not known, 0 if the task is only begun
    about: bytes
    head: bytes
    artifacts: bytes
    tail: list[bytes] = []  # the lines after the snapshot that change the task; filled by `load`, not by `page`

    @property
    def is_begun(self) -> bool:
        """It was made, and there is no snapshot of it yet."""
        return self.snap_pos == 0

    @property
    def is_stale(self) -> bool:
        """The log has gone on since the snapshot."""
        return self.pos > self.snap_pos


class Query(msgspec.Struct, frozen=True):
    scope: Scope
    limit: int
    context_id: str = ""
    state: int = 0
    since_ms: int | None = None
    before: tuple[int, int] | None = None  # (at_ms, key) of the last task of the page before
    size: int = sys.maxsize  # bytes a page may hold, if it is more than one task
    has_artifacts: bool = True  # else they need not be read: an empty list may stand in their place


class Page(msgspec.Struct):
    """Tasks newest first; `next` continues after the last of them, None at the end.

    It ends before the task that would make it larger than asked for: no more than that one is read in vain.
    """

    tasks: list[Record]
    total: int
    next: tuple[int, int] | None


class Ages(msgspec.Struct, frozen=True):
    """Times before which things may go, in milliseconds since 1970."""

    tasks_ms: int  # finished tasks
    events_ms: int  # the log of finished tasks: what it told is in the snapshot
    keys_ms: int


class Stats(msgspec.Struct, frozen=True):
    """How much a store holds."""

    tasks: dict[int, int]  # by state
    events: int  # rows of the log
    keys: int
    size: int  # bytes on the disk


class Store(Protocol):
    """Durable storage of tasks. All calls are made from one event loop.

    - `commit` is all or nothing, and what it has returned for survives a crash of the process.
    - Reads see every commit that has returned.
    """

    is_volatile: bool  # what it gives back is what it was given: no disk has been in between

    async def open(self) -> None:
        """Get ready. Raises with a plain reason if another process holds the store."""
        ...

    async def close(self) -> None: ...

    def new_key(self) -> int:
        """Return a number no task has had."""
        ...

    async def commit(self, writes: Sequence[Write], keeps: Sequence[Keep], notes: Sequence[Note] = ()) -> None:
        """Store all of it. Raises CommitFailed and stores nothing otherwise."""
        ...

    async def load(self, scope: Scope, task_id: str) -> Record | None: ...

    async def rows(self, key: int, after: int) -> list[tuple[int, bytes]]:
        """Return (row number, lines) in order, from the row that holds or precedes visible number `after + 1`.

        A bounded piece at a time: a caller that has seen all of it asks again, after the last number it saw.
        """
        ...

    async def notes(self, key: int) -> list[tuple[int, bytes]]:
        """Return (number they follow, lines) of the commits that only added private lines, in order."""
        ...

    async def page(self, query: Query) -> Page: ...

    async def kept(self, scope: Scope, key: str, since_ms: int) -> Keep | None: ...

    # Ownership: a process that is not heard of for a while is dead, and its number may not write again

    async def beat(self) -> None:
        """Say that this process lives. Raises Fenced if it was taken for dead."""
        ...

    async def take_over(self, lease_ms: int) -> list[Record]:
        """Fence every owner not heard of for `lease_ms`, and return its submitted, working and auth-required tasks, now ours."""
        ...

    # Upkeep: old things go, in small batches

    async def waiting(self, before_ms: int, limit: int) -> list[Record]:
        """Return tasks that have waited for the client since before then."""
        ...

    async def purge(self, ages: Ages, limit: int) -> int:
        """Delete up to `limit` of each kind of what is older than it may get; return how much that was."""
        ...

    async def stats(self) -> Stats: ...
