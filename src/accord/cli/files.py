"""Saving what an agent made to disk, under names that stay in their folder."""

import functools
import json
import mimetypes
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TypeAlias

from msgspec import UNSET

from ..client import Client
from ..model import Artifact, Part, Task, fitted_name
from .progress import transfer_line

__all__ = ["Fetched", "fetch_files", "save_files", "save_task"]

Fetched: TypeAlias = Mapping[str, IO[bytes]]  # files in the agent's own file store, by address

# Control characters and those that turn the direction of writing: the name is printed, too.
_UNFIT = re.compile(r'[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069<>:"|?*\\/]')


async def fetch_files(agent: Client, parts: Iterable[Part]) -> Fetched:
    """Fetch the files among parts that are in the agent's own file store. Large ones are on the
    disk, and what breaks off is gone on with. A person who watches sees how far it is.
    """
    show = transfer_line("fetching")
    fetched: dict[str, IO[bytes]] = {}
    for part in parts:
        if isinstance(part.url, str) and agent.has_file(part.url):
            shown = functools.partial(show, part.filename or "file") if show is not None else None
            fetched[part.url] = await agent.open_file(part.url, on_fetched=shown)
    return fetched


def save_files(parts: list[Part], folder: Path, fetched: Fetched) -> list[Path]:
    """Save the files among parts; return where."""
    return [
        _save(folder, part.filename or "file", part.media_type, content)
        for part in parts
        if (content := _content_of(part, fetched)) is not None
    ]


def _content_of(part: Part, fetched: Fetched) -> bytes | IO[bytes] | None:
    if isinstance(part.url, str):
        return fetched.get(part.url)
    return part.raw if isinstance(part.raw, bytes) else None


def save_task(
    task: Task, folder: Path, only: tuple[str, ...], fetched: Fetched, *, overwrites: bool
) -> tuple[list[Path], list[str]]:
    """Save the artifacts of a task; return the files, and the addresses of parts that are
    elsewhere.
    """
    saved: list[Path] = []
    elsewhere: list[str] = []
    taken: set[Path] = set()
    for artifact in task.artifacts:
        if only and artifact.artifact_id not in only:
            continue
        for part in artifact.parts:
            if isinstance(part.url, str) and part.url not in fetched:
                elsewhere.append(part.url)
                continue
            path = _save(
                folder, *_named(artifact, part, fetched), overwrites=overwrites, taken=taken
            )
            taken.add(path)
            saved.append(path)
    return saved, elsewhere


def _named(artifact: Artifact, part: Part, fetched: Fetched) -> tuple[str, str, bytes | IO[bytes]]:
    name = part.filename or artifact.name or artifact.artifact_id
    if (content := _content_of(part, fetched)) is not None:
        return name, part.media_type, content
    if part.data is not UNSET:
        text = json.dumps(part.data, indent=2, ensure_ascii=False)
        return name, part.media_type or "application/json", text.encode()
    assert isinstance(part.text, str)  # the only kind that is left
    return name, part.media_type or "text/plain", part.text.encode()


def _save(
    folder: Path,
    name: str,
    media_type: str,
    content: bytes | IO[bytes],
    *,
    overwrites: bool = False,
    taken: set[Path] | frozenset[Path] = frozenset(),
) -> Path:
    """Write a file under its own name, or with a number if that is taken. Links are not followed:
    the name is a stranger's.
    """
    name = _UNFIT.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(". ")
    name = fitted_name(name, 150) or "file"
    if not Path(name).suffix:
        name += mimetypes.guess_extension(media_type.partition(";")[0]) or ""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        stem, suffix = Path(name).stem, Path(name).suffix
        path = folder / (f"{stem} ({number}){suffix}" if number else name)
        number += 1
        if overwrites and path not in taken:
            path.unlink(missing_ok=True)
        try:
            with path.open("xb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    with content:
                        shutil.copyfileobj(content, file)
            return path
        except FileExistsError:
            continue
