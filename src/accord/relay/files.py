"""Files of relayed tasks: what the other agent has is brought here, and what is here taken there.

A file goes through the disk, never through the memory as a whole. It is brought with the event that
names it, so that callers need no way to the other agent, and can read it while that is away.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from typing import IO, Any

from msgspec.structs import replace

from ..client import Client
from ..engine.runs import Run
from ..files import CopiedFiles, Files, file_too_large
from ..model import (
    ArtifactUpdate,
    FileReference,
    Message,
    OpenPart,
    Part,
    StatusUpdate,
    Task,
    chunk_offset,
)
from ..net import FileTooLarge

__all__ = ["RelayedFiles"]

_IN_MEMORY = 1 << 20  # of a file on its way; the rest is on the disk


class RelayedFiles:
    """The files of one relayed task."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._brought: dict[str, Part] = {}  # by address
        self._copies = CopiedFiles(run.runs.tasks.files, run.log.namespace)
        self.client: Client | None = None  # whose files are brought

    @property
    def _files(self) -> Files | None:
        return self._run.runs.tasks.files

    # From the other agent

    async def brought(self, event: Any) -> Any:
        """Return an event with references to files of ours instead of addresses there."""
        match event:
            case ArtifactUpdate() if _is_piece(event):
                return await self._piece(event)
            case ArtifactUpdate():
                parts = await self._bring(event.artifact.parts)
                if parts is not event.artifact.parts:
                    return replace(event, artifact=replace(event.artifact, parts=parts))
            case StatusUpdate() if event.status.message is not None:
                message = await self.brought(event.status.message)
                return replace(event, status=replace(event.status, message=message))
            case Message():
                parts = await self._bring(event.parts)
                if parts is not event.parts:
                    return replace(event, parts=parts)
            case Task():
                return await self._task(event)
        return event

    async def _task(self, task: Task) -> Task:
        artifacts = [replace(one, parts=await self._bring(one.parts)) for one in task.artifacts]
        status = task.status
        if status.message is not None:
            status = replace(status, message=await self.brought(status.message))
        return replace(task, artifacts=artifacts, status=status)

    async def _bring(self, parts: list[Part]) -> list[Part]:
        if self._files is None or self.client is None:
            return parts
        made: list[Part] | None = None
        for n, part in enumerate(parts):
            if not isinstance(part.url, str) or not self.client.has_file(part.url):
                continue
            made = list(parts) if made is None else made
            made[n] = await self._fetched(self._files, self.client, part)
        return parts if made is None else made

    async def _fetched(self, files: Files, client: Client, part: Part) -> Part:
        assert isinstance(part.url, str)  # whoever calls this has looked
        place = _without_key(part.url)
        if (known := self._brought.get(place)) is not None:
            return known
        file = files.grow(self._run.log.namespace, part.filename, part.media_type)
        reference = file.add_file(await _opened(files, client, part.url))
        file.is_finished = True
        await file.flush()
        self._run.log.refer_to(file.id, file.use)
        made = replace(part, url=reference.url)
        self._brought[place] = made
        return made

    async def _piece(self, event: ArtifactUpdate) -> ArtifactUpdate:
        """Return a piece of a file that grows, as one that our own file grows by."""
        files, client, (part,) = self._files, self.client, event.artifact.parts
        if files is None or client is None:
            return event
        if isinstance(part.url, str):
            if not client.has_file(part.url):
                return event
            part = _with_file(part, await _opened(files, client, part.url))
        offset = chunk_offset(part.metadata)
        artifact = event.artifact
        if offset is None or self._run.output.grows_at(artifact.artifact_id, offset):
            return replace(event, artifact=replace(artifact, parts=[part]))
        return await self._begun_again(files, event, part, offset)

    async def _begun_again(
        self, files: Files, event: ArtifactUpdate, part: Part, offset: int
    ) -> ArtifactUpdate:
        """Return a piece together with what is before it: nobody can add to that file any more,
        for example since a restart.
        """
        id_ = event.artifact.artifact_id
        artifacts = [] if self._run.is_pending else self._run.log.snapshot().task.artifacts
        known = next((one for one in artifacts if one.artifact_id == id_), None)
        before = FileReference.parse(known.parts[-1].url) if known and known.parts else None
        if known is None or before is None or before.start or before.length < offset:
            return replace(event, artifact=replace(event.artifact, parts=[part]))
        whole = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  who stores it closes it
        async for data in files.read(before.id, 0, offset):
            await asyncio.to_thread(whole.write, data)
        if isinstance(part, OpenPart):
            with part.file:
                await asyncio.to_thread(shutil.copyfileobj, part.file, whole)
        elif isinstance(part.raw, bytes):
            whole.write(part.raw)
        parts = [*known.parts[:-1], _with_file(known.parts[-1], whole)]
        return replace(event, append=False, artifact=replace(known, parts=parts))

    # To the other agent

    async def taken_along(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts of a message with the content of files instead of references to them."""
        return await self._copies.parts(parts)

    def close(self) -> None:
        """Delete what was on the disk."""
        self._copies.close()


async def _opened(files: Files, client: Client, url: str) -> IO[bytes]:
    """Fetch a file of the other agent, up to the size that files may have here."""
    limit = files.limits.file_size
    try:
        return await client.open_file(url, limit)
    except FileTooLarge:
        raise file_too_large(limit) from None


def _with_file(part: Part, file: Any) -> OpenPart:
    return OpenPart(
        url="file:",
        file=file,
        metadata=part.metadata,
        filename=part.filename,
        media_type=part.media_type,
    )


def _is_piece(event: ArtifactUpdate) -> bool:
    """Whether an event is a piece of a file that comes in several."""
    if len(event.artifact.parts) != 1:
        return False
    (part,) = event.artifact.parts
    if event.append and chunk_offset(part.metadata) is not None:
        return isinstance(part.raw, bytes) or isinstance(part.url, str)
    is_begun = not event.append and not event.last_chunk
    return is_begun and isinstance(part.url, str) and "range=" in part.url.partition("?")[2]


def _without_key(url: str) -> str:
    """An address as it is in every answer: a signed one has another key each time."""
    place, _, query = url.partition("?")
    return "&".join([place, *(one for one in query.split("&") if not one.startswith("key="))])
