"""A task as its events make it, one after the other."""

from msgspec import UNSET
from msgspec.structs import replace

from .limits import Limits
from .reference import chunk_offset
from .task import FINAL, ArtifactUpdate, Event, Part, Task

__all__ = ["Fold", "join_files"]


class Fold:
    """A task that goes on. What may follow what is said by `Task.apply`; here text that comes in
    chunks becomes one part.

    Chunks are joined when somebody looks: joined one by one, a long text would cost the square of
    its length.
    """

    __slots__ = ("_bytes", "_chunks", "draft")

    def __init__(self, task: Task) -> None:
        self.draft = (
            task  # whose newest text may not be whole yet: all but its artifacts may be looked at
        )
        self._chunks: dict[
            str, tuple[str, list[str]]
        ] = {}  # by artifact: media type and texts to be added to its last part
        self._bytes: dict[str, list[bytes]] = {}  # the same of a file that comes in chunks

    def apply(self, event: Event, limits: Limits) -> None:
        """Apply an event to the task: its state, messages and artifacts. Raises as
        `Task.apply` does.
        """
        if isinstance(event, ArtifactUpdate):
            if event.append and (self._add_text(event) or self._add_bytes(event)):
                return
            self.joined()
        self.draft.apply(event, limits)

    def joined(self) -> Task:
        """Return the task, its text whole."""
        for artifact in self.draft.artifacts if self._bytes else ():
            if pieces := self._bytes.pop(artifact.artifact_id, None):
                artifact.parts[-1] = replace(artifact.parts[-1], raw=b"".join(pieces))
        for artifact in self.draft.artifacts if self._chunks else ():
            if chunks := self._chunks.pop(artifact.artifact_id, None):
                last = artifact.parts[-1]
                artifact.parts[-1] = replace(last, text=f"{last.text}{''.join(chunks[1])}")
        return self.draft

    def _add_text(self, event: ArtifactUpdate) -> bool:
        """Add a chunk to the text its artifact ends with. Return whether that is all there was to
        do.
        """
        chunk = event.artifact
        if self.draft.status.state in FINAL or not chunk.parts or not _is_plain(chunk.parts[0]):
            return False
        first, *others = chunk.parts
        is_all = not others and not chunk.name and not chunk.description and chunk.metadata is None
        chunks = self._chunks.get(chunk.artifact_id)
        if chunks is None:
            known = next(
                (
                    one
                    for one in reversed(self.draft.artifacts)
                    if one.artifact_id == chunk.artifact_id
                ),
                None,
            )
            if (
                known is None
                or not known.parts
                or not _is_plain(known.parts[-1])
                or known.parts[-1].media_type != first.media_type
            ):
                return False
            chunks = self._chunks[chunk.artifact_id] = (first.media_type, [])
        elif first.media_type != chunks[0]:
            return False
        assert isinstance(first.text, str)  # it is plain text
        chunks[1].append(first.text)
        if not is_all:
            self.joined().apply(replace(event, artifact=replace(chunk, parts=others)), Limits())
        return True

    def _add_bytes(self, event: ArtifactUpdate) -> bool:
        """Add a chunk to the file its artifact ends with. Return whether that is all there was to
        do.
        """
        chunk = event.artifact
        offset = chunk_offset(chunk.parts[0].metadata) if len(chunk.parts) == 1 else None
        if offset is None or self.draft.status.state in FINAL:
            return False
        known = next(
            (one for one in reversed(self.draft.artifacts) if one.artifact_id == chunk.artifact_id),
            None,
        )
        part = chunk.parts[0]
        if known is None or not known.parts:
            return False
        last = known.parts[-1]
        if not isinstance(last.url, str) and not isinstance(last.raw, bytes):
            return False
        if isinstance(part.url, str):  # it has become too large to be sent as bytes
            self._bytes.pop(chunk.artifact_id, None)
            known.parts[-1] = replace(last, raw=UNSET, url=_without_range(part.url))
            return True
        if isinstance(last.url, str):  # its address stands for all of it
            known.parts[-1] = replace(last, url=_without_range(last.url))
            return True
        if not isinstance(part.raw, bytes):
            return False
        assert isinstance(last.raw, bytes)  # else it has an address
        pieces = self._bytes.setdefault(chunk.artifact_id, [last.raw])
        pieces.append(part.raw)
        return True


def join_files(parts: list[Part]) -> list[Part]:
    """Return `parts` with the chunks of a file as one. If there is nothing to join, the list that
    is returned is the one given; the parts given are never changed.
    """
    joined: list[Part] = []
    chunks: list[bytes] = []  # to be added to the last part
    for part in parts:
        last = joined[-1] if joined else None
        if (
            last is None
            or chunk_offset(part.metadata) is None
            or not (isinstance(last.url, str) or isinstance(last.raw, bytes))
        ):
            _close(joined, chunks)
            joined.append(part)
        elif isinstance(last.url, str) or isinstance(part.url, str):
            chunks.clear()  # an address stands for all of it
            place = part.url if isinstance(part.url, str) else last.url
            assert isinstance(place, str)  # one of the two
            joined[-1] = replace(last, raw=UNSET, url=_without_range(place))
        elif isinstance(part.raw, bytes):
            chunks.append(part.raw)
    _close(joined, chunks)
    return joined if len(joined) < len(parts) else parts


def _close(joined: list[Part], chunks: list[bytes]) -> None:
    """Add chunks to the last part."""
    if chunks:
        first = joined[-1].raw
        assert isinstance(first, bytes)  # whoever collected them has looked
        joined[-1] = replace(joined[-1], raw=b"".join([first, *chunks]))
        chunks.clear()


def _without_range(url: str) -> str:
    """The address of a whole file, from that of a piece."""
    place, _, query = url.partition("?")
    options = [option for option in query.split("&") if option and not option.startswith("range=")]
    return f"{place}?{'&'.join(options)}" if options else place


def _is_plain(part: Part) -> bool:
    return part.text is not UNSET and part.metadata is None and not part.filename
