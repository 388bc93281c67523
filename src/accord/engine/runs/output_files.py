"""Files that a run makes: what is large lies in the file store, and the log refers to it."""

from pathlib import Path

from msgspec.structs import replace

from ...files import Files, GrowingFile, is_large
from ...model import (
    A2AError,
    InvalidAgentResponse,
    Message,
    OpenPart,
    Part,
    PathPart,
    chunk_offset,
)
from ..durable import Send
from ..log import Log

__all__ = ["OutputFiles"]


class OutputFiles:
    """Puts the bytes of what one run says into the file store.

    - A part with many bytes becomes a reference to a file of its own.
    - Bytes that come in chunks are one file, as texts that come in chunks are one text.
    - The log waits for the bytes; the run does not, unless it is far ahead.
    """

    __slots__ = ("_files", "_growing", "_log")

    def __init__(self, files: Files, log: Log) -> None:
        self._files = files
        self._log = log
        self._growing: dict[str, GrowingFile] = {}  # by artifact

    def stored(self, send: Send, *, is_said: bool) -> Send:
        """Return what is sent with references instead of bytes. Of an event of another agent's,
        parts stay parts.
        """
        artifact, parts = send.artifact, send.artifact.parts
        is_chunk = send.append or not send.last_chunk
        if is_chunk and len(parts) == 1 and _has_bytes(parts[0]):
            part = parts[0]
            if is_said and send.append:
                part = self._continued(artifact.artifact_id, part)
            is_begun = not send.append and part.metadata is None
            if (is_begun or _is_plain(part)) and not (is_said and send.append and part is parts[0]):
                part = self._grown(artifact.artifact_id, part, send)
                return send._replace(artifact=replace(artifact, parts=[part]))
        if not send.append:
            self._growing.pop(artifact.artifact_id, None)
        made = self._parts(parts)
        return send if made is parts else send._replace(artifact=replace(artifact, parts=made))

    def _continued(self, artifact_id: str, part: Part) -> Part:
        """Return another agent's chunk: plain, if it says that it goes on where our file ends."""
        offset = chunk_offset(part.metadata)
        if offset is None or not self.grows_at(artifact_id, offset):
            return part
        return replace(part, metadata=None)

    def grows_at(self, artifact_id: str, offset: int) -> bool:
        """Return whether the file of an artifact can be added to, and has so many bytes."""
        file = self._growing.get(artifact_id)
        return file is not None and file.length == offset

    def message(self, message: Message) -> Message:
        """Return a message with references instead of many bytes."""
        made = self._parts(message.parts)
        return message if made is message.parts else replace(message, parts=made)

    def part(self, part: Part) -> Part:
        """Return a part with a reference instead of many bytes."""
        return self._parts([part])[0]

    def finish(self) -> None:
        """Add nothing to any file any more."""
        for file in self._growing.values():
            file.is_finished = True
            self._log.refer_to(file.id, file.use)
        self._growing.clear()

    def _parts(self, parts: list[Part]) -> list[Part]:
        made: list[Part] | None = None
        for n, part in enumerate(parts):
            if isinstance(part, PathPart | OpenPart) or is_large(part):
                made = list(parts) if made is None else made
                made[n] = self._whole(part)
        return parts if made is None else made

    def _whole(self, part: Part) -> Part:
        file = self._files.grow(self._log.namespace, part.filename, part.media_type)
        file.is_finished = True
        return self._added(file, part)

    def _grown(self, artifact_id: str, part: Part, send: Send) -> Part:
        file = self._growing.get(artifact_id) if send.append else None
        if file is None:
            file = self._files.grow(self._log.namespace, part.filename, part.media_type)
            self._growing[artifact_id] = file
        if send.last_chunk:
            file.is_finished = True
            del self._growing[artifact_id]
        return self._added(file, part)

    def _added(self, file: GrowingFile, part: Part) -> Part:
        try:
            if isinstance(part, PathPart):
                # Opened now: its maker may delete it as soon as it is said.
                reference = file.add_file(Path(part.path).open("rb"))  # noqa: SIM115
            elif isinstance(part, OpenPart):
                reference = file.add_file(part.file)
            else:
                assert isinstance(part.raw, bytes)  # whoever calls this has looked
                reference = file.add(part.raw)
        except A2AError as error:
            raise InvalidAgentResponse(str(error)) from None
        self._log.refer_to(file.id, file.use)
        self._log.write_file(reference.length, file.flush)
        return Part(
            url=reference.url,
            metadata=part.metadata,
            filename=part.filename,
            media_type=part.media_type,
        )


def _has_bytes(part: Part) -> bool:
    return isinstance(part.raw, bytes) or isinstance(part, OpenPart)


def _is_plain(part: Part) -> bool:
    """Return whether a part is bytes that say nothing of themselves but their media type."""
    return _has_bytes(part) and part.metadata is None and not part.filename
