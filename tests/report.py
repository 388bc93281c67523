"""What `make test` says at its very end: what was retried, and what could not be tested here.

As a plugin (`-p tests.report`) it collects that from each run of pytest in the file REPORT.
`python -m tests.report` prints it.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

REPORT = Path(".cache/test-report")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the process that started this one writes it
    if report.failed:
        _write("retried", report.nodeid)
    elif report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _write("not tested", report.longrepr[2].removeprefix("Skipped: "))


def _write(kind: str, what: str) -> None:
    REPORT.parent.mkdir(exist_ok=True)
    with REPORT.open("a") as file:
        file.write(f"{kind}\t{' '.join(what.split())}\n")


def summary(text: str) -> list[str]:
    """Return the lines to print for what the runs wrote."""
    counted = Counter(line for line in text.splitlines() if line)
    retried = sorted({line.partition("\t")[2] for line in counted if line.startswith("retried\t")})
    skipped = {line.partition("\t")[2]: n for line, n in counted.items() if "not tested\t" in line}
    lines = []
    if retried:
        lines += ["Failed once and passed when run again, alone:", *(f"  {one}" for one in retried)]
    if skipped:
        lines.append("Not tested here:")
        lines += [f"  {n} x {why}" for why, n in sorted(skipped.items())]
    return lines or ["Everything was tested, and nothing was retried."]


if __name__ == "__main__":
    sys.stdout.write("\n".join(summary(REPORT.read_text() if REPORT.exists() else "")) + "\n")
