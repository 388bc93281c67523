"""How a task came about: its messages, statuses and artifacts, by the numbers of its events."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from ...model import TaskStatus, TimelineEntry
from ...protocol import Snapshot, Timeline
from ...store import Row
from ..log import Created, Ids, MessageAdded, StatusChanged, artifact_written, entry_of, lines_of

__all__ = ["TimelineScan"]


class _MessageId(msgspec.Struct, rename="camel"):
    message_id: str


class _History(msgspec.Struct):
    history: list[_MessageId] = []


_decode_history = msgspec.json.Decoder(_History).decode


class _Line(NamedTuple):
    """A line of the log: which one, the number of the last event, and the text."""

    n: int
    seq: int
    text: bytes


class TimelineScan:
    """Goes through the log of a task, up to a snapshot, for its timeline.

    That has the messages that the snapshot's history has, which may have been shortened to a
    length, and no more statuses than that length; the current one always. Nothing else is decoded.
    """

    def __init__(self, ids: Ids, snapshot: Snapshot, history_length: int | None) -> None:
        self._ids = ids
        self._until_seq = snapshot.seq
        self._shown = {message.message_id for message in _decode_history(snapshot.head).history}
        most = None if history_length is None else max(1, history_length)
        self._messages = deque[_Line](maxlen=history_length)
        self._statuses = deque[_Line](maxlen=most)
        self._artifacts: dict[str, tuple[int, int]] = {}
        self._written = ("", b"\n")  # the artifact written last, and how lines about it begin
        self._count = 0
        self._seq = 0  # of the last line
        self.is_done = False

    def take(self, rows: Iterable[Row]) -> None:
        """Go through the next rows of the log."""
        for row in rows:
            if not self._continues(row):
                self._take_lines(row)
            if self.is_done:
                return

    def _continues(self, row: Row) -> bool:
        """Return whether a row only adds to the artifact that was written last: with many pieces,
        those are most rows, and are not looked at one by one.
        """
        id_, beginning = self._written
        count = row.data.count(b"\n")
        if (
            not row.data.startswith(beginning)
            or row.data.count(b"\n" + beginning) != count
            or row.seq > self._until_seq
        ):
            return False
        self._artifacts[id_] = (self._artifacts[id_][0], row.seq)
        self._count += count + 1
        self._seq = row.seq
        return True

    def _take_lines(self, row: Row) -> None:
        for seq, text in lines_of([row]):
            if seq > self._until_seq:
                self.is_done = True
                return
            tag, line = text[:1], _Line(self._count, seq, text)
            self._count += 1
            self._seq = seq
            if tag == b"a":
                if not text.startswith(self._written[1]):
                    self._written = artifact_written(text)
                id_ = self._written[0]
                self._artifacts[id_] = (self._artifacts.get(id_, (seq, seq))[0], seq)
            if tag in (b"m", b"c"):
                self._messages.append(line)
            if tag in (b"w", b"c"):
                self._statuses.append(line)

    @property
    def is_whole(self) -> bool:
        """Return whether the log had all events up to the snapshot: it may be purged meanwhile."""
        return self.is_done or self._seq == self._until_seq

    @property
    def size(self) -> int:
        """Return how many bytes of the log the timeline is made of."""
        return sum(len(line.text) for lines in (self._messages, self._statuses) for line in lines)

    def timeline(self) -> Timeline:
        """Return the timeline of what was gone through."""
        found = [(line.n, entry) for line in self._messages for entry in self._said(line)]
        found += [(line.n, self._status(line)) for line in self._statuses]
        found.sort(key=lambda one: one[0])  # a message before the status of the same line
        return Timeline([entry for _, entry in found], self._artifacts)

    def _said(self, line: _Line) -> Iterator[TimelineEntry]:
        entry = entry_of(line.text, self._ids)
        assert isinstance(entry, Created | MessageAdded)  # the tag says so
        said = entry.task.history if isinstance(entry, Created) else [entry.message]
        for message in said:
            if message.message_id in self._shown:
                yield TimelineEntry(generation=line.seq, message=message)

    def _status(self, line: _Line) -> TimelineEntry:
        """Return a status, without its message if the history does not show that, and it is not
        the current one.
        """
        entry = entry_of(line.text, self._ids)
        assert isinstance(entry, Created | StatusChanged)  # the tag says so
        status: TaskStatus = (
            entry.task.status if isinstance(entry, Created) else entry.update.status
        )
        said, is_current = status.message, line is self._statuses[-1]
        if said is not None and not is_current and said.message_id not in self._shown:
            status = msgspec.structs.replace(status, message=None)
        return TimelineEntry(generation=line.seq, status=status)
