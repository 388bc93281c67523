"""What a version of the protocol is to the rest: requests in, answers out.

The model is 1.0's. A codec of an older version turns its shapes into that model and back; what the
old version *means* beyond shape it says with `Semantics`, so that no other room ever asks which
version it is talking to.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..model import A2AError, Event, Message, Task, TaskState

__all__ = [
    "NOW",
    "WORTH_JOINING",
    "Codec",
    "CodecChoice",
    "RestCodec",
    "Semantics",
    "Snapshot",
    "TaskPage",
    "weight",
]


WORTH_JOINING = 8 << 10  # bytes: a copy of less costs next to nothing


class Semantics(msgspec.Struct, frozen=True):
    """What a request asks for beyond 1.0."""

    new_task_id: str = ""  # make the task with this id, or continue the one that has it
    reopen: bool = False  # a finished task takes messages again
    always_task: bool = False  # a bare reply is kept and answered as a task
    cancel_twice_fails: bool = False  # cancelling a canceled task is an error
    ends_with_snapshot: bool = False  # subscribing to a finished task gives the task and ends
    has_one_push: bool = False  # a push config without an id is the task's one: it has the task's
    may_unset_push: bool = False  # and may be none: one without a URL takes it away


NOW = Semantics()


class Snapshot(msgspec.Struct, gc=False):
    """A task as it stood after event `seq`, encoded as 1.0 in two pieces: all but the artifacts,
    and those.
    """

    seq: int
    state: TaskState
    head: bytes
    artifacts: bytes

    @property
    def data(self) -> bytes:
        """The whole task as JSON."""
        if self.artifacts == b"[]":
            return self.head
        if len(self.head) > WORTH_JOINING:
            return self.within(b"", b"")
        return b'%b,"artifacts":%b}' % (self.head[:-1], self.artifacts)

    def within(self, before: bytes, after: bytes) -> bytes:
        """The whole task as JSON with something around it, in one copy."""
        head, artifacts = self.head, self.artifacts
        if artifacts == b"[]":
            return b"%b%b%b" % (before, head, after)
        return b"".join((before, memoryview(head)[:-1], b',"artifacts":', artifacts, b"}", after))

    @property
    def task(self) -> Task:
        return _decode_task(self.data)


class TaskPage(msgspec.Struct):
    """A page of encoded tasks, newest first."""

    tasks: list[bytes]
    next_page_token: str
    page_size: int
    total_size: int


def weight(answer: Any) -> int:
    """How many bytes an answer is made from; none if it is made from what others may still
    change.
    """
    if isinstance(answer, Snapshot):
        return len(answer.head) + len(answer.artifacts)
    return sum(map(len, answer.tasks)) if isinstance(answer, TaskPage) else 0


class Codec(Protocol):
    """One version's JSON on one binding.

    `answer` below is what an operation gives: Snapshot, Message, Tasks, a push config, a list of
    them, a card, or None.
    """

    origin: str  # stored with a task: the family of versions it was made by
    errors_in_streams: bool  # an error before a stream's first event is an event of the stream

    def decode(self, operation: str, params: bytes) -> tuple[Any, Semantics]:
        """Return the request in `params`, which `text.check` has passed. Raises ParseError or
        InvalidParams.
        """
        ...

    def result(self, operation: str, answer: Any) -> bytes: ...

    def frames(
        self, event: Event | Message, *, is_last: bool, index: Callable[[str], int]
    ) -> list[bytes]:
        """Return a stream's event: usually one frame. `index` gives an artifact's place among its
        task's.
        """
        ...

    def error(self, error: A2AError) -> dict[str, Any]:
        """Return the error member of an answer."""
        ...


class RestCodec(Codec, Protocol):
    """One version's JSON on HTTP+JSON, where a request comes in pieces and an answer has a
    status.
    """

    def join(
        self, operation: str, fields: dict[str, str], query: dict[str, list[str]], body: bytes
    ) -> bytes:
        """Return the request as one JSON object: `fields` of its path, its query, and a body, which
        may be empty.
        """
        ...

    def failure(self, error: A2AError) -> tuple[int, bytes]:
        """Return the status and the body that tell of an error."""
        ...

    def answer_type(self, accept: bytes, sent: bytes) -> bytes:
        """Return the content type of an answer to a request with these Accept and Content-Type
        headers.
        """
        ...


class CodecChoice(Protocol):
    """Several codecs for one name."""

    def codec_or_task_id(self, operation: str, hint: str, params: bytes) -> Codec | str:
        """Return the codec the request is in, or the id of the task that knows. `hint` is the
        version it names, if any.
        """
        ...

    def for_origin(self, origin: str) -> Codec:
        """Return the codec for a task of this origin; empty if there is no such task."""
        ...


_decode_task = msgspec.json.Decoder(Task).decode
