"""Files that the entries of a log refer to, and those that are still being written."""

from collections.abc import Callable, Iterable

from ...store import FileUse

__all__ = ["PendingFiles"]


class PendingFiles:
    """References to be stored with the next commit of a log, which waits until the files they name
    are written. Commits of other logs go on.
    """

    __slots__ = ("_is_left_out", "_uses", "_writing", "waiting_bytes")

    def __init__(self) -> None:
        self._uses: dict[str, FileUse | Callable[[], FileUse]] = {}
        self._writing = 0
        self._is_left_out = False  # the writer has come by, and has to come again
        self.waiting_bytes = 0  # of files that are being written

    def holds_up(self) -> bool:
        """Return whether the log has to be left out of a commit now. When the files are written,
        `end` says that it has to be added again.
        """
        self._is_left_out = self._writing > 0
        return self._is_left_out

    def refer(self, uses: Iterable[FileUse]) -> None:
        """Store references with what has been appended."""
        for use in uses:
            self._uses.setdefault(use.id, use)

    def refer_to(self, id: str, use: Callable[[], FileUse]) -> None:
        """Store a reference to a file that is being written, as it is when it is written."""
        self._uses[id] = use

    def take(self) -> tuple[FileUse, ...]:
        """Return the references to be stored, each once."""
        uses, self._uses = self._uses, {}
        return tuple(use if isinstance(use, FileUse) else use() for use in uses.values())

    def begin(self, size: int) -> None:
        """Note that a file is being written: the log is left out of commits from now on."""
        self._writing += 1
        self.waiting_bytes += size

    def end(self, size: int) -> bool:
        """Note that the file is written. Return whether the log was left out of a commit and may
        be stored now.
        """
        self._writing -= 1
        self.waiting_bytes -= size
        if self._writing or not self._is_left_out:
            return False
        self._is_left_out = False
        return True
