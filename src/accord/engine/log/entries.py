"""The entries of a task's log, and the format in which they are written. Only this file knows it.

An entry is written as one line: a letter that says which it is, and JSON. Two things are left out
of it that every line would repeat, and are put back when it is read: the ids of the task, and the
numbers of the entry (they follow from its place). What belongs to an entry and is nobody's business
outside (the turns a status answers, the step that wrote an artifact) stands before the JSON, as a
list and a tab: no JSON text has one.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from ...auth import ANONYMOUS, Caller
from ...model import ArtifactUpdate, Message, Part, StatusUpdate, Task, TaskState
from ...observe import NO_TRACE, Trace
from ...protocol import Snapshot
from ...protocol.v1 import codec as v1
from ...store import Row

__all__ = [
    "ENCODE",
    "FORMAT",
    "NOBODY",
    "STATE_NUMBER",
    "About",
    "Answered",
    "ArtifactChanged",
    "AskExpired",
    "AskLeft",
    "Asked",
    "Attempt",
    "Created",
    "Delegated",
    "Entry",
    "Event",
    "Ids",
    "MessageAdded",
    "Mismatched",
    "Noted",
    "Numbered",
    "Patched",
    "PostRefused",
    "Raised",
    "Released",
    "RunStarted",
    "Sender",
    "SleepLeft",
    "Slept",
    "StateLoaded",
    "StatusChanged",
    "StepEnded",
    "StepLeft",
    "Unknown",
    "Visible",
    "Woke",
    "Worked",
    "about_of",
    "artifact_written",
    "encode_about",
    "entries_of",
    "entry_of",
    "event_of",
    "events_of",
    "lines_of",
    "parts_of",
    "state_of",
]

# raised with every new kind of entry: a process never takes up a task with entries it does not know
FORMAT = 6

_STATES = list(TaskState)
# The proto's: what stores keep.
STATE_NUMBER = {state: number for number, state in enumerate(_STATES)}


def state_of(number: int) -> TaskState:
    return _STATES[number]


class Sender(msgspec.Struct, omit_defaults=True, frozen=True):
    """Who sent a message, the extensions that were activated with it, and the trace it belongs to.
    Of the request's headers those a skill may see.
    """

    caller: Caller = ANONYMOUS
    extensions: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    trace: Trace = NO_TRACE


NOBODY = Sender()


class About(msgspec.Struct, omit_defaults=True, frozen=True):
    """What is fixed when a task is made and shown to nobody: the version of the protocol it came
    by, and who sent its first message.
    """

    origin: str = ""
    sender: Sender = NOBODY
    private: str = ""  # of the skill: what it needs to know of the task later, as JSON
    # the task that this one is a fork of: it keeps the state of the conversation for itself
    fork_of: str = ""
    fork_at: int = 0  # and how many of its events were that one's


about_of = msgspec.json.Decoder(About).decode


@functools.lru_cache(maxsize=256)
def encode_about(about: About) -> bytes:
    return v1.encode(about)


# Visible entries: what a stream shows


class Created(msgspec.Struct, gc=False):
    """The task as it was made. Its message is turn 1."""

    task: Task
    modes: tuple[str, ...] = ()  # media types the sender can take, if it said so


class StatusChanged(msgspec.Struct, gc=False):
    """A new status, and which turns end with it. The position of a message in the log is the number
    of its turn.
    """

    update: StatusUpdate
    answers: tuple[int, ...] = ()  # turns whose sender gets the task as it stands here
    refuses: tuple[int, ...] = ()  # turns that will never come, mostly because the task ended first
    branch: str = ""  # of the function that said it, see Asked
    step: str = ""  # within which it was said: its name and number
    reasons: tuple[
        tuple[int, str, str], ...
    ] = ()  # of refused turns, if there are others: class and text of an error
    # of a bridge: where the other side's events stand behind this one, "" if it numbers none; None
    # if the function said it by itself
    cursor: str | None = None
    keeps_waiting: bool = False  # of a question: a message that came before it may answer it


class ArtifactChanged(msgspec.Struct, gc=False):
    """An artifact, or a chunk of one."""

    update: ArtifactUpdate
    branch: str = ""
    step: str = ""
    cursor: str | None = None  # see StatusChanged


# Messages


class MessageAdded(msgspec.Struct, gc=False):
    """A message of the user, accepted. It is in the task's history from here on."""

    message: Message
    modes: tuple[str, ...] = ()
    post: int = 0  # the id of the post that brought it, 0 if it came directly
    # if it is not the sender of the first message, word for word: a caller may come back with other
    # scopes
    sender: Sender | None = None


class PostRefused(msgspec.Struct, array_like=True, gc=False):
    """A post that was not accepted, and the error its sender gets."""

    post: int
    error: str  # the name of the error's class
    text: str
    detail: dict[str, str] = {}  # of the error, for the sender


# What a function did, for the next attempt. Branch "" is the function itself; members of
# `ctx.gather` have branches of their own.


class RunStarted(msgspec.Struct, array_like=True, gc=False):
    """The skill's function was called with the message of this turn."""

    turn: int


class StateLoaded(msgspec.Struct, array_like=True, gc=False):
    """The state of the conversation, as the function was given it."""

    number: int  # how often it had been written
    data: Raw


class StepEnded(msgspec.Struct, array_like=True, gc=False):
    """The n-th step of this name ended with a value, or with an exception of this type and text. A
    value that is a file is a part.
    """

    branch: str
    name: str
    n: int
    value: Raw = Raw(b"null")
    type: str = ""
    message: str = ""
    file: Part | None = None


class StepLeft(msgspec.Struct, array_like=True, gc=False):
    """The function stopped waiting for a step."""

    branch: str
    name: str
    n: int


class Delegated(msgspec.Struct, array_like=True, gc=False):
    """Another agent works on a part of this task, under this id. The end of it is a StepEnded."""

    branch: str
    name: str
    n: int
    agent: str
    task_id: str


class Asked(msgspec.Struct, array_like=True, gc=False):
    """The function waits in the n-th question of a branch."""

    branch: str
    n: int
    text: str  # what is asked, or the name that was given to the question
    type: str  # of the answer
    worked_s: float = 0.0
    is_watching: bool = False  # beside the client it waits for something of its own
    is_named: bool = False
    expires_ms: int = 0  # until when it may be answered, by the store's clock; 0: for ever


class Answered(msgspec.Struct, array_like=True, gc=False):
    """The message of this turn answered a question."""

    branch: str
    n: int
    turn: int


class AskLeft(msgspec.Struct, array_like=True, gc=False):
    """The function stopped waiting for an answer."""

    branch: str
    n: int
    expired_ms: int = 0  # the deadline, if another agent asked and its deadline had passed


class AskExpired(msgspec.Struct, array_like=True, gc=False):
    """Nobody answered a question before its deadline."""

    branch: str
    n: int


class Slept(msgspec.Struct, array_like=True, gc=False):
    """The function sleeps, for the n-th time in a branch, until then by the store's clock."""

    branch: str
    n: int
    due_ms: int


class Woke(msgspec.Struct, array_like=True, gc=False):
    """A sleep is over: its time has come."""

    branch: str
    n: int


class SleepLeft(msgspec.Struct, array_like=True, gc=False):
    """The function stopped sleeping before its time."""

    branch: str
    n: int


class Patched(msgspec.Struct, array_like=True, gc=False):
    """`ctx.patched` was True here."""

    branch: str
    name: str


class Noted(msgspec.Struct, array_like=True, gc=False):
    """A private record of the task, which takes the place of the one before."""

    value: str  # JSON


# How a run came and went


class Attempt(msgspec.Struct, array_like=True, gc=False):
    """A process died while this run worked; it is tried again. `count` is how often that happened
    with nothing new recorded.
    """

    count: int


class Released(msgspec.Struct, array_like=True, gc=False):
    """The run was given up in good order, to go on elsewhere."""

    worked_s: float


class Worked(msgspec.Struct, array_like=True, gc=False):
    """Record how long the function has worked in all, for its time limit."""

    worked_s: float


class Mismatched(msgspec.Struct, array_like=True, gc=False):
    """The function no longer does what the log says it did."""

    since_ms: int
    reason: str


class Raised(msgspec.Struct, array_like=True, gc=False):
    """Record what the function raised, which failed the task: for operators. The caller is shown
    the reference alone.
    """

    reference: str
    type: str
    message: str
    traceback: str


class Unknown(msgspec.Struct, gc=False):
    """An entry of a newer release."""

    tag: str


Visible: TypeAlias = Created | StatusChanged | ArtifactChanged
Private: TypeAlias = (
    PostRefused
    | RunStarted
    | StateLoaded
    | StepEnded
    | StepLeft
    | Delegated
    | Asked
    | Answered
    | AskLeft
    | AskExpired
    | Slept
    | Woke
    | SleepLeft
    | Patched
    | Noted
    | Attempt
    | Released
    | Worked
    | Mismatched
    | Raised
)
Entry: TypeAlias = Visible | MessageAdded | Private | Unknown


class Event(msgspec.Struct, gc=False):
    """A visible entry as readers get it: encoded once, shared by all of them."""

    seq: int
    pos: int
    data: bytes  # a StreamResponse of 1.0
    state: TaskState | None  # None for an artifact
    answers: tuple[int, ...] = ()
    refuses: tuple[int, ...] = ()
    reasons: tuple[tuple[int, str, str], ...] = ()
    snapshot: Snapshot | None = None  # the task as it stands here, where somebody waits for it
    # the same event as other versions write it, made when first asked for
    shapes: dict[Any, list[bytes]] | None = None


class Numbered(NamedTuple):
    """An entry in its place."""

    pos: int
    seq: int  # the last visible number up to and with it
    at_ms: int  # when it was committed
    entry: Entry


class Ids(NamedTuple):
    """Hold the ids that every line would repeat."""

    task_id: str
    context_id: str


# Answered, refused, why.
Turns: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, str, str], ...]]

_TAB = b"\t"
_PRIVATE: dict[type, bytes] = {
    PostRefused: b"x",
    RunStarted: b"r",
    StateLoaded: b"j",
    StepEnded: b"s",
    StepLeft: b"l",
    Delegated: b"d",
    Asked: b"q",
    Answered: b"t",
    AskLeft: b"u",
    AskExpired: b"y",
    Slept: b"z",
    Woke: b"g",
    SleepLeft: b"h",
    Patched: b"p",
    Noted: b"o",
    Attempt: b"n",
    Released: b"f",
    Worked: b"k",
    Mismatched: b"e",
    Raised: b"b",
}
_DECODE: dict[bytes, Any] = {
    tag: msgspec.json.Decoder(type_).decode for type_, tag in _PRIVATE.items()
}
_decode_list = msgspec.json.Decoder(list[Any]).decode


def _encode_artifact(entry: ArtifactChanged) -> tuple[bytes, bytes]:
    frame = v1.encode_event(entry.update)
    if entry.cursor is not None:
        head = _head(entry.branch, entry.step, entry.cursor)
    else:
        head = _head(entry.branch, entry.step) if entry.branch or entry.step else b""
    return b"a%b%b" % (head, frame[frame.index(b',"artifact":') :]), frame


def _encode_status(entry: StatusChanged) -> tuple[bytes, bytes]:
    frame = v1.encode_event(entry.update)
    values = (entry.answers, entry.refuses, entry.branch, entry.step, entry.reasons)
    if entry.keeps_waiting:
        head = _head(*values, entry.cursor, True)
    elif entry.cursor is not None:
        head = _head(*values, entry.cursor)
    else:
        head = _head(*values) if any(values) else b""
    return b"w%b%b" % (head, frame[frame.index(b',"status":') :]), frame


def _encode_created(entry: Created) -> tuple[bytes, bytes]:
    frame = v1.encode_event(entry.task)
    return b"c%b%b" % (_head(entry.modes) if entry.modes else b"", frame), frame


def _encode_message(entry: MessageAdded) -> tuple[bytes, bytes]:
    head = b""
    if entry.sender is not None:
        head = _head(entry.modes, entry.post, entry.sender)
    elif entry.modes or entry.post:
        head = _head(entry.modes, entry.post)
    return b"m%b%b" % (head, v1.encode(entry.message)), b""


def _encode_private(entry: Private) -> tuple[bytes, bytes]:
    return _PRIVATE[type(entry)] + v1.encode(entry), b""


def _head(*values: Any) -> bytes:
    """Return the part of a line before the JSON."""
    return v1.encode(values) + _TAB


# By type, how an entry becomes a line of the log and, if it is visible, what a stream shows of it.
ENCODE: dict[type, Callable[[Any], tuple[bytes, bytes]]] = {
    **dict.fromkeys(_PRIVATE, _encode_private),
    ArtifactChanged: _encode_artifact,
    StatusChanged: _encode_status,
    Created: _encode_created,
    MessageAdded: _encode_message,
}


def parts_of(entry: Entry) -> list[Part]:
    """Return the parts in an entry: of messages and artifacts, and the file a step ended with."""
    match entry:
        case Created(task=task):
            return [part for message in task.history for part in message.parts]
        case MessageAdded(message=message):
            return message.parts
        case ArtifactChanged(update=update):
            return update.artifact.parts
        case StatusChanged(update=update) if update.status.message is not None:
            return update.status.message.parts
        case StepEnded(file=Part() as part):
            return [part]
    return []


def entries_of(rows: Iterable[Row], ids: Ids) -> Iterator[Numbered]:
    """Return the entries of rows that follow each other.

    Raises:
        ValueError: They are not what was written.
    """
    for row in rows:
        lines = row.data.split(b"\n")
        pos = row.pos
        seq = row.seq - sum(line[:1] in _VISIBLE for line in lines)
        for line in lines:
            entry = entry_of(line, ids)
            seq += isinstance(entry, Visible)
            yield Numbered(pos, seq, row.at_ms, entry)
            pos += 1


_VISIBLE = (b"c", b"w", b"a")


def lines_of(rows: Iterable[Row]) -> Iterator[tuple[int, bytes]]:
    """Return the entries of rows as they are written, each with the number of the last event."""
    for row in rows:
        lines = row.data.split(b"\n")
        seq = row.seq - sum(line[:1] in _VISIBLE for line in lines)
        for line in lines:
            seq += line[:1] in _VISIBLE
            yield seq, line


def artifact_written(line: bytes) -> tuple[str, bytes]:
    """Return the id of the artifact that the line of an ArtifactChanged is about, and how each line
    about it may begin.
    """
    found = _ARTIFACT.match(line)
    if found is None:
        raise ValueError("an entry about an artifact is not what was written")
    return msgspec.json.decode(found[1], type=str), found[0]


_ARTIFACT = re.compile(rb'a(?:\[[^\t]*\t)?,"artifact":\{"artifactId":("(?:[^"\\]|\\.)*")')


def events_of(rows: Iterable[Row], ids: Ids) -> Iterator[Event]:
    """Return the visible entries of rows, as readers get them."""
    for row in rows:
        lines = row.data.split(b"\n")
        visible = [(i, line) for i, line in enumerate(lines) if line[:1] in _VISIBLE]
        for n, (i, line) in enumerate(visible, row.seq - len(visible) + 1):
            head, frame = _parts(line, ids)
            state: TaskState | None = None
            turns: Turns = ((), (), ())
            if not line.startswith(b"a"):
                event = event_of(frame)
                assert not isinstance(event, ArtifactUpdate)  # the letter says so
                state = event.status.state
            if line.startswith(b"w") and head:
                turns = _turns(head)
            yield Event(n, row.pos + i, frame, state, *turns)


def _parts(line: bytes, ids: Ids) -> tuple[list[Any], bytes]:
    """Return the values before the JSON of a line, and the JSON. That of a visible entry is as a
    stream shows it.
    """
    tag, rest = line[:1], line[1:]
    head: list[Any] = []
    if rest.startswith(b"["):
        text, _, rest = rest.partition(_TAB)
        head = _decode_list(text)
    if tag == b"w":
        rest = b'{"statusUpdate":%b%b' % (_opening(ids), rest)
    elif tag == b"a":
        rest = b'{"artifactUpdate":%b%b' % (_opening(ids), rest)
    return head, rest


@functools.lru_cache(maxsize=1024)
def _opening(ids: Ids) -> bytes:
    return b'{"taskId":%b,"contextId":%b' % (v1.encode(ids.task_id), v1.encode(ids.context_id))


def entry_of(line: bytes, ids: Ids) -> Entry:
    """Return the entry that is written in a line."""
    tag = line[:1]
    if (decode := _DECODE.get(tag)) is not None:
        entry: Entry = decode(line[1:])
        return entry
    if tag == b"m":
        head, data = _parts(line, ids)
        message = v1.decode_message(data)
        if not head:
            return MessageAdded(message)
        sender = msgspec.convert(head[2], Sender) if len(head) > 2 else None
        return MessageAdded(message, tuple(head[0]), head[1], sender)
    if tag not in _VISIBLE:
        return Unknown(tag.decode("latin-1"))
    head, frame = _parts(line, ids)
    event = event_of(frame)
    if isinstance(event, Task):
        return Created(event, tuple(head[0]) if head else ())
    if isinstance(event, ArtifactUpdate):
        return ArtifactChanged(event, *head)
    if not head:
        return StatusChanged(event)
    answers, refuses, reasons = _turns(head)
    cursor = head[5] if len(head) > 5 else None
    keeps_waiting = len(head) > 6 and bool(head[6])
    return StatusChanged(event, answers, refuses, head[2], head[3], reasons, cursor, keeps_waiting)


def _turns(head: list[Any]) -> Turns:
    return (
        tuple(head[0]),
        tuple(head[1]),
        tuple((turn, error, text) for turn, error, text in head[4]),
    )


def event_of(frame: bytes) -> Task | StatusUpdate | ArtifactUpdate:
    """Return the event a stream's frame shows. Raises ValueError for one that is not what was
    written.
    """
    event = v1.decode_event(frame)
    assert not isinstance(event, Message)  # a message never enters a task's log as an event
    return event
