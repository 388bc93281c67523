"""A task as its events make it, one after the other."""

from msgspec import UNSET
from msgspec.structs import replace

from .limits import Limits
from .task import FINAL, ArtifactUpdate, Event, Part, Task

__all__ = ["Fold"]


class Fold:
    """A task that goes on. What may follow what is said by `Task.apply`; here text that comes in
    chunks becomes one part.

    Chunks are joined when somebody looks: joined one by one, a long text would cost the square of
    its length.
    """

    __slots__ = ("_chunks", "draft")

    def __init__(self, task: Task) -> None:
        self.draft = (
            task  # whose newest text may not be whole yet: all but its artifacts may be looked at
        )
        self._chunks: dict[
            str, tuple[str, list[str]]
        ] = {}  # by artifact: media type and texts to be added to its last part

    def apply(self, event: Event, limits: Limits) -> None:
        """Bring the task to where it stands once `event` has happened. Raises as
        `Task.apply` does.
        """
        if isinstance(event, ArtifactUpdate):
            if event.append and self._add_text(event):
                return
            self.joined()
        self.draft.apply(event, limits)

    def joined(self) -> Task:
        """Return the task, its text whole."""
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


def _is_plain(part: Part) -> bool:
    return part.text is not UNSET and part.metadata is None and not part.filename
