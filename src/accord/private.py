"""Files that hold tasks, keys or logins: for the user who runs the program, and nobody else."""

import logging
import os
from pathlib import Path

__all__ = ["private_file", "private_folder", "private_opener"]

log_ = logging.getLogger("accord")

_OTHERS = 0o077  # what the group and everybody else may do


def private_folder(path: Path) -> None:
    """Make a folder and its parents, if they do not exist. Existing ones stay as they are."""
    if not path.parent.is_dir() and path.parent != path:
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def private_file(path: Path) -> None:
    """Make an empty file, if there is none. If others can use one that exists, warn in the log and
    leave it: it may be meant.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if os.name == "posix" and path.stat().st_mode & _OTHERS:
            log_.warning(
                "%s can be used by other users of this machine; keep it to yourself with: "
                "chmod 600 %s*",
                *(path, path),
            )


def private_opener(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=private_opener)`. A new one is for its user alone, and so
    is one that is written anew: what is in it then is a new secret.
    """
    file = os.open(path, flags, 0o600)
    if flags & os.O_TRUNC and os.name == "posix":
        os.fchmod(file, 0o600)
    return file
