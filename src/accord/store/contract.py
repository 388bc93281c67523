"""The contract of a store.

A task is a log of entries, numbered from 1 by their position. A store sees the log as rows: one per
task and commit, each holding the entries of that commit as bytes it does not look into. Some
entries are visible to clients and have a second number, `seq`, which counts only them.

A task has one owner at a time: the replica (process) that runs its function. Only the owner
appends. Everybody else reads, and sends the owner posts: a message or a cancel, which the owner
answers in its log.

Beside the log stands a snapshot: the task as JSON in two pieces, `head` (all but the artifacts) and
`artifacts`, so that a list needs no decoding. A task without a snapshot is its log.
"""

import enum
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from .clock import FOREVER_MS, StoreClock
from .file_index import FileIndex, FileUse
from .keys import KeyStore
from .logins import LoginStore
from .namespace import Namespace
from .push import Push, PushStore
from .samples import SampleStore

__all__ = [
    "Ages",
    "Append",
    "Can",
    "CommitFailed",
    "ConversationState",
    "Create",
    "Ended",
    "Fenced",
    "Idempotency",
    "Item",
    "Leaves",
    "LogEnd",
    "Namespace",
    "Owned",
    "Page",
    "Post",
    "PostKind",
    "Query",
    "ReceivedPost",
    "Record",
    "Replaced",
    "Row",
    "StateWrite",
    "Stats",
    "Store",
    "StoredLog",
    "Wake",
]

ANY_FORMAT = (1 << 15) - 1  # the highest a row has room for
MAX_POSTS = 64  # that wait for one owner; the next is refused


class CommitFailed(Exception):
    """Nothing of the batch was stored; the same batch may be tried again.

    `summary` says why to anybody who asks: it names no address, no user and no file.
    """

    def __init__(self, text: str, summary: str = "") -> None:
        super().__init__(text)
        self.summary = summary


class Fenced(CommitFailed):
    """This replica was declared dead and others may own its tasks: nothing it writes counts any
    more.
    """


class Replaced(Fenced):
    """Another process has the store for itself: this one can't use it any more, under no number."""


class Leaves(enum.IntEnum):
    """Whether the owner gives the task up with this commit."""

    STAY = 0
    IDLE = 1  # it waits for its client: the owner leaves if no post is unread, else it stays
    END = 2  # the task has ended: the owner leaves, and posts nobody read are deleted


class PostKind(enum.IntEnum):
    MESSAGE = 1
    CANCEL = 2
    REOPEN = 3  # a message that begins a task anew if that has ended


class Idempotency(msgspec.Struct, gc=False):
    """An idempotency key and what it stands for: a turn of a task, or the bytes of a reply without
    a task.

    As an item of its own it stores a reply. Beside a Create, an Append or a Post it is stored with
    them or not at all.
    """

    namespace: Namespace
    key: str
    digest: bytes
    kept_ms: int = FOREVER_MS  # one that is older may be replaced; any one, if this is -1
    task_id: str = ""
    turn: int = 0  # the position of the message in the log; 0 for a message that was posted
    post: int = 0  # the id of the post that carried it, if one did
    reply: bytes = b""
    at_ms: int = 0  # when it was stored: the store says so


class ConversationState(msgspec.Struct, frozen=True, gc=False):
    """Hold what an agent remembers of a conversation: JSON, as the skill left it."""

    number: int  # how often it was written
    data: bytes


class StateWrite(msgspec.Struct, frozen=True, gc=False):
    """The new state of a conversation, stored with an item of one of its tasks.

    It replaces the whole of what is there. If that is not what the writer had read, nor its own
    earlier write, another turn is overwritten, which the store logs.
    """

    context_id: str
    read: int  # the number of the state that was read; 0 if there was none
    data: bytes


class Create(msgspec.Struct, gc=False):
    """A new task and its first entries. Refused if its id or its idempotency key is taken."""

    key: int
    namespace: Namespace
    id: str
    context_id: str
    skill: str
    about: bytes  # private to the engine
    state: int  # the proto's number
    at_ms: int  # of the status: what lists sort by
    pos: int  # how many entries there are
    seq: int  # how many of them are visible
    format: int  # the newest kind of entry among them
    data: bytes  # the entries
    leaves: Leaves = Leaves.STAY
    head: bytes | None = None  # a snapshot, if one is due
    artifacts: bytes = b""
    idempotency: Idempotency | None = None
    last_status: int = 0  # the last number that is the task or a status, not an artifact
    pushes: tuple[Push, ...] = ()  # webhooks that are registered with it
    conversation: StateWrite | None = None
    due_ms: int | None = None  # see Record; None: as it was
    files: tuple[FileUse, ...] = ()  # that its entries refer to


class Append(msgspec.Struct, gc=False):
    """More entries of a task we own. Refused if another replica owns it, its log is longer than
    `before`, or the key is taken.
    """

    key: int
    namespace: Namespace
    before: int  # how many entries there were
    pos: int
    seq: int
    was: int  # the state before
    state: int
    at_ms: int
    format: int
    data: bytes
    posts_read: int = 0  # posts dealt with, up to and with this number
    leaves: Leaves = Leaves.STAY
    head: bytes | None = None
    artifacts: bytes = b""
    idempotency: Idempotency | None = None
    last_status: int = 0
    pushes: tuple[Push, ...] = ()
    conversation: StateWrite | None = None
    due_ms: int | None = None  # see Record; None: as it was
    files: tuple[FileUse, ...] = ()


class Post(msgspec.Struct, gc=False):
    """Something for the owner of a task. Refused if it has no living owner, too many posts wait, or
    the key is taken.
    """

    task: int
    id: int  # made by the sender, as keys of tasks are
    kind: PostKind
    body: bytes
    idempotency: Idempotency | None = None


Item: TypeAlias = Create | Append | Post | Idempotency


class ReceivedPost(NamedTuple):
    """A post as its owner gets it."""

    task: int
    n: int  # the n-th post to this task
    id: int
    kind: PostKind
    body: bytes


class Row(msgspec.Struct, frozen=True, gc=False):
    """Hold what one commit added to one log."""

    task: int
    pos: int  # of its first entry
    seq: int  # the last visible number after it
    at_ms: int  # when it was committed
    data: bytes
    # When the row before it was committed, if this is the first that `read` returns of a task;
    # 0: not known. A reader notices by it that the store has lost commits, with a failover.
    before_ms: int = 0

    @property
    def end(self) -> int:
        """Return the position of its last entry."""
        return self.pos + self.data.count(b"\n")


class LogEnd(NamedTuple):
    """How many entries a log has, and when the last of them was committed."""

    pos: int
    at_ms: int


class Record(msgspec.Struct, gc=False):
    """A task as stored. Readers must not change it."""

    key: int
    namespace: Namespace
    id: str
    context_id: str
    skill: str
    about: bytes
    state: int
    at_ms: int
    pos: int
    seq: int
    format: int
    owner: int  # the replica that runs it; 0 if none does
    posts: int  # ever sent to it
    posts_read: int  # of these, dealt with
    snap: int  # the position the snapshot was made at; 0 if there is none
    head: bytes
    artifacts: bytes
    rows: list[Row] = []  # of the log after the snapshot
    committed_ms: int = 0  # when its newest row was
    died_ms: int = 0  # when its dead owner was last seen: only what was taken from one has it
    # Its owner was declared dead because it was silent, and may still be at work.
    may_live: bool = False
    due_ms: int = 0  # when `due` gives it to somebody, if nobody owns it then; 0: never
    created_ms: int = 0  # when its first message came

    @property
    def is_stale(self) -> bool:
        """Return whether the log has gone on since the snapshot."""
        return self.pos > self.snap

    @property
    def size(self) -> int:
        """Return how many bytes there are to read."""
        size = len(self.head) + len(self.artifacts)
        return size + sum(len(row.data) for row in self.rows) if self.rows else size


class Ended(NamedTuple):
    """Tasks that ended in one state within a minute, and took about equally long."""

    minute_ms: int
    state: int
    took_ms: int  # rounded down to seven binary digits: `rules.rough_ms`
    tasks: int  # how many
    longest_ms: int  # how long one of them took that took longest
    at_ms: int  # when that one ended
    key: int


class Query(msgspec.Struct, frozen=True):
    """Select the tasks of a page: those of a namespace. Without one it is the operator's list, with
    the tasks of all.
    """

    namespace: Namespace | None
    limit: int
    agent: str = ""  # of the operator's list; empty: of all agents
    context_id: str = ""
    state: int = 0
    since_ms: int | None = None
    before: tuple[int, int] | None = None  # (at_ms, key) of the last task of the page before
    size: int = sys.maxsize  # bytes a page may hold, if it is more than one task
    has_artifacts: bool = True  # else they need not be read: an empty list may stand in their place
    oldest_first: bool = False


class Page(msgspec.Struct):
    """Tasks newest first, or oldest first if asked for, each with its rows after the snapshot;
    `next` continues after the last of them, None at the end.

    It ends before the task that would make it larger than asked for. `total` counts all that match,
    on every page; where counting them would take too long it is what was counted by then, and not
    `is_exact`.
    """

    tasks: list[Record]
    total: int
    next: tuple[int, int] | None
    is_exact: bool = True


class Can(NamedTuple):
    """Name what this replica can take up: skills of its own agents, in a format it knows."""

    agents: Mapping[str, Collection[str]]  # by name: the skills it has
    format: int
    # Tasks that have waited longer for their client are taken up too, to be failed.
    unanswered_ms: int = FOREVER_MS
    # Tasks that are worked on and that nobody owns are taken up too. No process leaves one so; an
    # administrator's SQL may. Looking for them takes longer, so it is not asked for every second.
    unowned: bool = False


class Owned(NamedTuple):
    """A task that names this replica as its owner."""

    key: int
    namespace: Namespace
    id: str
    pos: int


class Ages(msgspec.Struct, frozen=True):
    """Set how old things may get, in milliseconds. What is older may be deleted."""

    tasks_ms: int = FOREVER_MS  # finished tasks
    events_ms: int = FOREVER_MS  # the log of finished tasks: the snapshot has what it said
    keys_ms: int = FOREVER_MS  # idempotency keys
    letters_ms: int = FOREVER_MS  # dead letters
    agent: str = ""  # whose tasks and logs; empty: those of all agents


class StoredLog(NamedTuple):
    """The log of a task, as an operator reads it beside the servers."""

    namespace: Namespace
    context_id: str
    state: int
    rows: list[Row]  # none of a log that was purged
    skill: str
    about: bytes  # private to the engine


class Stats(msgspec.Struct, frozen=True):
    """Count what a store holds."""

    tasks: dict[int, int]  # by state
    events: int  # rows of the log
    keys: int
    size: int  # bytes on the disk


Wake: TypeAlias = Callable[[Collection[int] | None], None]


class Store(Protocol):
    """Durable storage of tasks. All calls are made from one event loop.

    - An item of a commit is stored whole or not at all, whatever becomes of the others. One that
      was refused changed nothing: why is found by asking again (`load`, `claim`, `idempotency`).
    - What `commit` has returned for survives a crash of the process. Reads see every commit that
      has returned.
    - What reads, claims or deletes raises `Unavailable` if the store can't be used now: then it
      may have been done or not, and is safe to repeat. What else a call raises stands with it.
    - What is to be compared with the present is given as an age or a pause, and compared by the
      store's own clock: a process whose clock is wrong harms nothing. Times that are only stored,
      as those of statuses, come from `now_ms`.
    """

    is_volatile: bool  # what it holds ends with the process
    replica: int  # the number of this process, never used again by another
    pushes: PushStore  # webhooks of its tasks
    files: FileIndex  # what is known of files; their bytes are elsewhere
    # where these are if nothing else is said: a file: or postgresql: URL; empty: nowhere for long
    files_url: str

    @property
    def is_sure(self) -> bool:
        """Return whether nobody can have taken this replica for dead."""
        ...

    @property
    def clock(self) -> StoreClock:
        """Return the one clock of all its processes: the store gives times of this clock."""
        ...

    def now_ms(self) -> int:
        """Return the time by the store's clock, in milliseconds since 1970."""
        ...

    @property
    def clock_ahead_s(self) -> float:
        """Return how far the clock of this process is ahead of the store's own, which all its
        processes share; 0 if the store has none.
        """
        ...

    @property
    def outlives_process(self) -> bool:
        """Return whether another process can go on with the tasks that this one leaves."""
        ...

    @property
    def is_shared(self) -> bool:
        """Return whether other processes may use it at the same time."""
        ...

    @property
    def living(self) -> int:
        """Return how many processes use it now, with this one, as far as this one knows. A process
        that was killed counts until it is declared dead.
        """
        ...

    @property
    def keys(self) -> KeyStore:
        """Return the API keys of the agent's callers. May be used before `open`."""
        ...

    @property
    def logins(self) -> LoginStore:
        """Return the browsers that are logged in at the console. May be used before `open`."""
        ...

    @property
    def samples(self) -> SampleStore:
        """Return counts of what was open at a time. Used only while the store is open."""
        ...

    async def open(self, wake: Wake) -> None:
        """Get ready. `wake` is called with the keys of tasks that have new rows or posts for us,
        None for all of them.

        Raises:
            RuntimeError: The store can't be used; says why, and what to do.
        """
        ...

    async def rejoin(self) -> None:
        """Take a new number, after this replica was taken for dead. What it owned is not ours any
        more, and nothing is watched.

        Raises:
            Replaced: Another process has the store for itself.
            Unavailable: Not now.
        """
        ...

    async def close(self) -> None:
        """Leave: what this replica still owns is an orphan from now on."""
        ...

    async def commit(self, items: Sequence[Item]) -> list[bool]:
        """Store items; say of each whether it was stored. A task occurs in no more than one Create
        or Append of a batch.

        Raises:
            CommitFailed: Nothing was stored; the same items may be given again.
            Fenced: Nothing was stored, and nothing of this replica will be.
            Replaced: Likewise, and there will be no new number.
        """
        ...

    async def claim(
        self,
        namespace: Namespace,
        task_id: str,
        *,
        reopen: bool = False,
        known: int = 0,
        format: int = ANY_FORMAT,
        watch: bool = False,
    ) -> Record | None:
        """Return a task, ours if nobody living owns it (`record.owner == replica`), else as it
        stands. With `watch`, one that another replica owns is watched, as `load` does.

        One that has ended is nobody's, unless it is to be reopened; nor is one with entries of a
        newer `format` than the caller can read. If its log has not grown since
        position `known`, the record may come without snapshot and rows: the caller has them.
        """
        ...

    async def unclaim(self, key: int, pos: int) -> None:
        """Give back a task of ours, if its log has not grown beyond `pos` and no post waits for
        us.
        """
        ...

    async def orphans(self, limit: int, can: Can) -> list[Record]:
        """Return tasks of dead owners that we can take up, ours from now on, oldest first.

        Those that wait for input have nothing to be taken up: they are left without an owner, and
        whoever gets their answer claims them. Tasks nobody has answered for `can.unanswered_ms`
        come too, unless they have a `due_ms`. With `can.unowned` so do those that are worked on and
        have neither an owner nor a `due_ms`.
        """
        ...

    async def due(self, limit: int, can: Can) -> list[Record]:
        """Return tasks that nobody owns and that are due by the store's clock, ours from now on,
        those first that are due longest.

        They keep their `due_ms` until a commit changes it: one whose new owner dies before that is
        due again, or an orphan.
        """
        ...

    async def owned(self) -> list[Owned]:
        """Return all tasks that name us as their owner, and change nothing.

        Some of them we may not know of: the answer to a claim can be lost.
        """
        ...

    async def load(
        self, namespace: Namespace, task_id: str, *, watch: bool = False
    ) -> Record | None:
        """Return a task as it stands, with its rows after the snapshot. With `watch`, we are woken
        when it changes elsewhere.
        """
        ...

    async def unwatch(self, tasks: Collection[int]) -> None: ...

    async def read(self, after: Mapping[int, int]) -> list[Row]:
        """Return the rows that hold entries after these positions (task: position), in order; a
        bounded piece for each task: if there is more, the piece is full (`is_full_piece`).

        A store that may lose commits (a database that fails over) says of the first row when the
        one before it was committed.
        """
        ...

    async def ends(self, tasks: Collection[int]) -> dict[int, LogEnd]:
        """Return where the logs of these tasks end. A task that is gone is missing."""
        ...

    async def locate(self, task: int, seq: int) -> int:
        """Return a position no later than the last entry with a visible number up to `seq`, as near
        to it as rows allow.
        """
        ...

    async def unread_posts(self, tasks: Collection[int] | None) -> list[ReceivedPost]:
        """Return unread posts to those of these tasks that we own, to all we own for None, in
        order.
        """
        ...

    async def page(self, query: Query) -> Page: ...

    async def idempotency(
        self, namespace: Namespace, key: str, kept_ms: int = FOREVER_MS
    ) -> Idempotency | None:
        """Return what a key stands for; None if it was not used, or is older than that."""
        ...

    async def conversation_state(
        self, namespace: Namespace, context_id: str
    ) -> ConversationState | None:
        """Return the state of a conversation; None if no turn has stored one. It goes with the last
        task of the conversation.
        """
        ...

    async def beat(self) -> None:
        """Show that this replica lives, and that the store can be written.

        Raises:
            CommitFailed: It can't.
            Fenced: This replica was declared dead.
        """
        ...

    async def purge(self, ages: Ages, limit: int) -> int:
        """Delete up to `limit` of each kind of what is older than it may get; return how much that
        was.

        Raises:
            CommitFailed: Nothing was deleted.
        """
        ...

    async def ended(self, agent: str, from_ms: int, to_ms: int) -> list[Ended]:
        """Return the tasks that ended from a time to before another, of an agent, or of all agents
        if it is empty: by minute, state and duration, in no order.
        """
        ...

    async def count_ended(self, agent: str, from_ms: int, to_ms: int) -> int:
        """Return how many tasks these are, for less than reading them costs."""
        ...

    async def stats(self) -> Stats: ...

    async def stored(self, agent: str, caller: str) -> int:
        """Return how many bytes the tasks of a caller take: snapshots, the log of those without
        one, and the states of conversations. May be inexact by what was committed a moment ago.
        """
        ...
