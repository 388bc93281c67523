"""A file store by its URL, or the one that belongs to a store."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..extras import install_command
from ..store import Store
from .contract import FileStore
from .local import LocalFiles

__all__ = ["open_files"]

_CLOUDS = ("s3", "gs", "az")


def open_files(url: str, store: Store) -> FileStore:
    """Return the file store that `url` names: `file:///var/lib/accord/files`, `postgresql://…`, or
    a bucket (`s3://bucket/prefix`, `gs://…`, `az://…`). Without a URL it is the one that belongs to
    the store of the tasks: a folder beside a SQLite file, the same PostgreSQL database, and for
    tasks in memory a temporary folder.

    Raises:
        ValueError: The URL names no file store we have.
        RuntimeError: What it needs is not installed.
    """
    scheme, _, rest = url.partition("://")
    if not url:
        return _beside(store)
    if scheme == "file" and rest.startswith("/"):
        return LocalFiles(Path(unquote(urlsplit(url).path)))
    if scheme in ("postgresql", "postgres") and rest:
        return _postgres(url)
    if scheme in _CLOUDS and rest:
        try:
            from .objects import ObjectFiles
        except ImportError as error:
            raise RuntimeError(
                f"files at {scheme}:// need obstore, which is not installed: "
                + install_command("files")
            ) from error
        return ObjectFiles(url)
    raise ValueError(
        f"no file store for {url!r}; use file:///var/lib/accord/files, s3://bucket/prefix, "
        "gs://bucket/prefix, az://container/prefix or postgresql://host/database"
    )


def _beside(store: Store) -> FileStore:
    url = store.files_url
    if url.startswith("file:"):
        return LocalFiles(Path(unquote(urlsplit(url).path)))
    return _postgres(url) if url else LocalFiles()


def _postgres(url: str) -> FileStore:
    try:
        from .postgres import PostgresFiles
    except ImportError as error:
        raise RuntimeError(
            "files in PostgreSQL need asyncpg, which is not installed: "
            + install_command("postgres")
        ) from error
    from ..store.postgres import parse

    return PostgresFiles(parse(url))
