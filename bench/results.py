"""What was measured: kept as JSON, row by row, so that a run of some rows renews only those."""

import dataclasses
import datetime
import json
import os
import platform
import statistics
import sysconfig
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["BASE", "Install", "Measured", "Ratio", "Results", "interpreter", "is_optimised"]

BASE = "sdk"


class Ratio(NamedTuple):
    """How many times cheaper than the base; formed within each round."""

    median: float
    low: float
    high: float


@dataclass
class Measured:
    """One row: the cost in each round, by column."""

    title: str
    unit: str
    date: str
    rounds: dict[str, list[float]]
    error: str = ""


@dataclass
class Install:
    """What `pip install` brings into an empty environment."""

    packages: int
    mb: float
    date: str


@dataclass
class Results:
    """All rows, and the machine they were measured on."""

    machine: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Measured] = field(default_factory=dict)
    install: dict[str, Install] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Return the stored results, or none at all if there are none or they are of another
        machine.
        """
        found = cls(machine=machine())
        if not path.exists():
            return found
        raw: dict[str, Any] = json.loads(path.read_text())
        if raw["machine"] != found.machine:
            return found
        found.rows = {id_: Measured(**row) for id_, row in raw["rows"].items()}
        found.install = {id_: Install(**one) for id_, one in raw["install"].items()}
        return found

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n")

    def cost(self, row: str, column: str) -> float | None:
        """The cost of a row in a column: the median round; of seconds that pass, the lowest, as a
        busy machine only adds.
        """
        measured = self.rows.get(row)
        values = (
            measured.rounds.get(column) if measured is not None and not measured.error else None
        )
        if not values or measured is None:
            return None
        return min(values) if measured.unit == "s" else statistics.median(values)

    def ratio(self, row: str, column: str) -> Ratio | None:
        """How many times cheaper a column is than the base."""
        measured = self.rows.get(row)
        if measured is None or measured.error:
            return None
        base, values = measured.rounds.get(BASE, []), measured.rounds.get(column, [])
        ratios = [b / value for b, value in zip(base, values, strict=False) if value > 0]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def machine() -> dict[str, str]:
    """The facts that figures depend on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "python": interpreter(),
        "a2a-sdk": version("a2a-sdk"),
        "uvicorn": version("uvicorn"),
        "uvloop": version("uvloop"),
    }


def interpreter() -> str:
    """The interpreter that runs this, and the servers; one built without PGO is named as such."""
    name = f"{platform.python_implementation()} {platform.python_version()}"
    said = [sysconfig.get_config_var(name) or "" for name in ("CONFIG_ARGS", "PY_CORE_CFLAGS")]
    if any(said) and not is_optimised(*said):
        return f"{name} (not optimised: built without PGO, about a fifth slower)"
    return name


def is_optimised(arguments: str, flags: str) -> bool:
    """Whether a Python was built with PGO, by the arguments of its configure and the flags of its
    compiler. Those of Debian and Ubuntu are, and show it in neither: they are known by their place.
    """
    return (
        "--enable-optimizations" in arguments
        or "-fprofile-use" in flags
        or "'--prefix=/usr'" in arguments
    )


def today() -> str:
    return datetime.date.today().isoformat()
