"""Copies of a file: made while a server uses it, and put back while none does."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from ...private import private_file, private_folder, private_opener
from .files import check_file, files_folder, hold, reason

__all__ = ["backup", "restore"]


def backup(path: Path, file: Path) -> None:
    """Write all there is into a new file, as it stands at one moment; and the bytes of files, if
    they are in the folder beside it, into one beside the new file.

    Raises:
        RuntimeError: It can't be done; says why.
    """
    try:
        _copy(path, file)
        _add_files(path, file)  # later: so all that the copy names are there
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(files_folder(file), ignore_errors=True)
        raise RuntimeError(f"{path} could not be copied: {reason(file, error)}") from error


def restore(file: Path, path: Path, *, replace: bool = False) -> None:
    """Put a copy in the place of a file, whole or not at all. The bytes of files come first: until
    the database names them they do no harm.

    Raises:
        RuntimeError: A process uses the file, something is there already, or the copy is none of
          ours. Or it is restored, and files that came since could not be deleted: it says so.
    """
    if not check_file(file):
        raise RuntimeError(f"{file} is not a backup of a store")
    with contextlib.closing(hold(path)):
        if path.stat().st_size and not replace:
            raise RuntimeError(
                f"there is a database {path} already; move it away, or replace it with --replace"
            )
        new = path.with_name(f"{path.name}.new")
        try:
            new.unlink(missing_ok=True)
            private_file(new)
            _copy(file, new)
            with new.open("rb") as copied:
                os.fsync(copied.fileno())
            _add_files(file, path)
            _end_log(path)
            new.replace(path)
        except (OSError, sqlite3.Error) as error:
            raise RuntimeError(
                f"{path} could not be restored, and is as it was: {reason(path, error)}"
            ) from error
        finally:
            new.unlink(missing_ok=True)
        try:
            _remove_others(path)
        except (OSError, sqlite3.Error) as error:
            raise RuntimeError(
                f"{path} is restored, but files that it does not name are still in "
                f"{files_folder(path)}: {reason(path, error)}"
            ) from error


def _copy(path: Path, file: Path) -> None:
    source = f"{path.absolute().as_uri()}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(source, uri=True)) as now,
        contextlib.closing(sqlite3.connect(file)) as then,
    ):
        now.backup(then)
        ((said,),) = then.execute("PRAGMA quick_check(1)")
        if said != "ok":
            raise sqlite3.DatabaseError(f"{path} is damaged: {said}")


def _add_files(path: Path, file: Path) -> None:
    """Copy the bytes of files that are not there yet. A file only grows."""
    folder, to = files_folder(path), files_folder(file)
    for one in folder.glob("*/*"):
        new = to / one.relative_to(folder)
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            if new.exists() and new.stat().st_size >= one.stat().st_size:
                continue
            with one.open("rb") as old:
                private_folder(new.parent)
                with open(new, "wb", opener=private_opener) as out:
                    shutil.copyfileobj(old, out)
                    out.flush()
                    os.fsync(out.fileno())


def _remove_others(path: Path) -> None:
    """Delete the bytes of files that a restored database does not name: those that came since."""
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        named = {id_ for (id_,) in db.execute("SELECT id FROM files")}
    for one in files_folder(path).glob("*/*"):
        if one.name not in named:
            one.unlink(missing_ok=True)


def _end_log(path: Path) -> None:
    """Bring what is in the log beside a file into it, so that no log is left: SQLite would take it
    for that of the file which comes in its place.
    """
    with (
        contextlib.suppress(sqlite3.DatabaseError),  # what is damaged is replaced all the same
        contextlib.closing(sqlite3.connect(path)) as db,
    ):
        db.execute("PRAGMA journal_mode = DELETE")
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
