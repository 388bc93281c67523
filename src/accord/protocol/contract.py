"""The interface of a protocol version: it decodes requests and encodes answers.

The model has the shapes of A2A 1.0. The codec of an older version converts its shapes to the model
and back. Where an older version also behaves differently, its codec says so with `Semantics`. So no
other package has to check versions.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..model import A2AError, Event, Message, Task, TaskState, TimelineEntry

__all__ = [
    "DEFAULT_SEMANTICS",
    "LARGE_HEAD_BYTES",
    "Codec",
    "CodecChoice",
    "RestCodec",
    "Semantics",
    "Snapshot",
    "TaskPage",
    "Timeline",
    "encoded_size",
]


# Slicing a snapshot's head copies it. Above this size, the copy costs more than a join.
LARGE_HEAD_BYTES = 8 << 10


class Semantics(msgspec.Struct, frozen=True):
    """How the handling of one request differs from A2A 1.0. The defaults are 1.0."""

    # Create a task with this id, or continue the task that has it.
    new_task_id: str = ""
    # A finished task accepts new messages.
    reopen: bool = False
    # A reply that is only a message is stored and returned as a task.
    always_task: bool = False
    # Canceling a task that is already canceled is an error.
    cancel_twice_fails: bool = False
    # Subscribing to a finished task returns the task and ends. In 1.0 it is an error.
    ends_with_snapshot: bool = False
    # A task may have one push config without an id. It is stored under the task's id.
    has_one_push_config: bool = False
    # Setting a push config without a URL deletes it. Getting one that doesn't exist returns one
    # without a URL.
    empty_url_removes_push: bool = False
    # Answer a GetTask when the task is beyond this generation, or after a while.
    current_generation: int | None = None
    # Take a message only if its task is at this generation.
    if_generation_match: int | None = None
    # Tasks in answers show how they came about.
    has_timeline: bool = False


DEFAULT_SEMANTICS = Semantics()


class Timeline(msgspec.Struct, gc=False):
    """How a task came about: what its log says, while that is kept."""

    entries: list[TimelineEntry]
    artifacts: dict[str, tuple[int, int]]  # by id: the first and the last event that wrote it


class Snapshot(msgspec.Struct, gc=False):
    """A task as it stood after event `seq`, encoded as JSON of A2A 1.0 in two parts."""

    seq: int
    state: TaskState
    head: bytes  # a JSON object: the task without its artifacts
    artifacts: bytes  # a JSON array
    timeline: Timeline | None = None  # for versions that show it

    @property
    def data(self) -> bytes:
        """The whole task as JSON."""
        if self.artifacts == b"[]":
            return self.head
        if len(self.head) > LARGE_HEAD_BYTES:
            return self.wrapped(b"", b"")
        return b'%b,"artifacts":%b}' % (self.head[:-1], self.artifacts)

    def wrapped(self, before: bytes, after: bytes) -> bytes:
        """Return the whole task as JSON between two other texts. Copies the task only once."""
        head, artifacts = self.head, self.artifacts
        if artifacts == b"[]":
            return b"%b%b%b" % (before, head, after)
        return b"".join((before, memoryview(head)[:-1], b',"artifacts":', artifacts, b"}", after))

    @property
    def task(self) -> Task:
        return _decode_task(self.data)

    @property
    def task_id(self) -> str:
        return _decode_id(self.head).id


class TaskPage(msgspec.Struct):
    """One page of a list of tasks, newest first. Each task is encoded as JSON of A2A 1.0."""

    tasks: list[bytes]
    next_page_token: str
    page_size: int
    total_size: int
    seqs: list[int] = []  # the number of each task's last event


def encoded_size(answer: Any) -> int:
    """Return the size in bytes of the encoded tasks in an answer.

    It is 0 for every other answer. Those are objects that other code may still change, so another
    thread must not encode them.
    """
    if isinstance(answer, Snapshot):
        return len(answer.head) + len(answer.artifacts)
    return sum(map(len, answer.tasks)) if isinstance(answer, TaskPage) else 0


class Codec(Protocol):
    """Converts between one version's JSON on one binding and the model."""

    # Stored with each task. It names the version that created the task, so that requests which
    # don't name a version get the right codec.
    origin: str
    # An error before the first event of a stream is sent as an event of that stream.
    errors_in_streams: bool

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        """Return the request in `params` and how to handle it.

        The caller has checked `params` with `text.check`.

        Raises:
            ParseError: `params` is not JSON.
            InvalidParams: It is not a request of this operation.
        """
        ...

    def result(self, operation: str, answer: Any) -> bytes:
        """Return the encoded answer of an operation.

        `answer` is a Snapshot, a Message, a TaskPage, a push config, a list of push configs, an
        agent card, or None.
        """
        ...

    def frames(
        self, event: Event | Message, *, seq: int, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        """Return the frames that carry one event of a stream, usually one.

        `seq` is the event's number, 0 for a message that is the whole answer. `index` takes an
        artifact's id and returns its position in the task.
        """
        ...

    def error(self, error: A2AError) -> dict[str, Any]:
        """Return the `error` object of a JSON-RPC answer."""
        ...


class RestCodec(Codec, Protocol):
    """A codec for HTTP+JSON: a request has a path, a query and a body, an answer has a status."""

    def join(
        self, operation: str, fields: dict[str, str], query: dict[str, list[str]], body: bytes
    ) -> bytes:
        """Return the request as one JSON object, for `decode`.

        Args:
            operation: Its name.
            fields: The parameters in the path.
            query: The parameters in the query.
            body: It may be empty.
        """
        ...

    def failure(self, error: A2AError) -> tuple[int, bytes]:
        """Return the status and the body of an error answer."""
        ...

    def answer_type(self, accept: bytes, sent: bytes) -> bytes:
        """Return the content type of the answer.

        Args:
            accept: The request's Accept header.
            sent: The request's Content-Type header.
        """
        ...


class CodecChoice(Protocol):
    """Chooses the codec of a request whose method name or path is used by several codecs."""

    def codec_or_task_id(self, operation: str, hint: str, params: bytes) -> Codec | str:
        """Return the codec of the request, or a task id if the request doesn't show it.

        With a task id, the caller looks up the task's origin and calls `for_origin`. `hint` is the
        version that the request names, or empty.
        """
        ...

    def for_origin(self, origin: str) -> Codec:
        """Return the codec of tasks with this origin. `origin` is empty if the task is unknown."""
        ...


class _HasId(msgspec.Struct):
    id: str


_decode_task = msgspec.json.Decoder(Task).decode
_decode_id = msgspec.json.Decoder(_HasId).decode
