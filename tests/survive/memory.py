"""How much memory a process has."""

from pathlib import Path

__all__ = ["Growth", "resident"]


def resident(pid: int, name: str = "VmRSS") -> int:
    """Bytes a process has; under `VmHWM` the most it has had."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(fields[name].split()[0]) << 10


class Growth:
    """How much more a process comes to need, from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._base = resident(pid)
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # let the peak count from now on

    @property
    def most(self) -> int:
        """Bytes, at the worst moment so far."""
        return resident(self._pid, "VmHWM") - self._base
