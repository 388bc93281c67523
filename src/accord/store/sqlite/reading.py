"""The connection that reads."""

import sqlite3
from pathlib import Path
from typing import Any

from ...model import Unavailable
from ..faults import Faults

__all__ = ["Reading"]


class Reading:
    """Gives the connection that reads, and reports how that went. Entered for every read: a
    generator would cost as much as a small query.
    """

    db: sqlite3.Connection

    def __init__(self, path: Path, faults: Faults) -> None:
        self._name = f"reading {path}"
        self._faults = faults

    def __enter__(self) -> sqlite3.Connection:
        return self.db

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self._faults.works(self._name)
        elif isinstance(error, sqlite3.Error):
            raise self.failed(error) from error

    def failed(self, error: sqlite3.Error) -> Unavailable:
        """Return the error for the caller."""
        self._faults.failed(self._name, str(error))
        return Unavailable("the store can't be read now; try again later", retry_after_s=5)
