"""`python -m bench`: measure, show a table, renew the page and the picture."""

import argparse
import sys
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .clients import CLIENT_ROWS
from .grpc import GRPC_ROWS
from .hub import HUB_ROWS
from .install import measure_installs
from .picture import chart
from .replicas import REPLICA_ROWS
from .report import own_table, page, table
from .results import Measured, Results, interpreter
from .rows import ROWS as HTTP_ROWS
from .rows import Effort, Row
from .run import measure_all
from .server import pin_load
from .targets import TARGETS

ROWS = (*HTTP_ROWS, *GRPC_ROWS, *CLIENT_ROWS, *HUB_ROWS, *REPLICA_ROWS)
ROOT = Path(__file__).parent.parent
FULL = Effort(rounds=3, seconds=0.7, warm_s=0.2)
QUICK = Effort(rounds=2, seconds=0.25, warm_s=0.1, is_quick=True)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=130)
    rows = _chosen(options.rows, options.quick)
    out = Path(options.out) if options.out else ROOT
    stored = out / "bench" / "results.json"
    results = Results.load(stored)
    if options.install:
        console.print("installing into empty environments")
        results.install |= measure_installs()
    console.print(f"on {interpreter()}")
    pin_load()
    _measure(rows, QUICK if options.quick else FULL, results, console)
    ids = [row.id for row in rows]
    for found in (table(results, ids), own_table(results, ids)):
        if found.row_count:
            console.print(found)
    for id_ in ids:
        if results.rows[id_].error:
            console.print(f"{id_} failed: {results.rows[id_].error}", style="red", markup=False)
    _print_targets(results, console)
    if options.quick and not options.out:
        console.print("a quick run is a look, not a figure: the page is left as it is")
    else:
        _write(results, out, stored)
        console.print(
            f"wrote {out / 'docs/performance.md'}, {out / 'docs/performance.svg'}, {stored}"
        )
    return 1 if any(results.rows[id_].error for id_ in ids) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Accord beside a2a-sdk."
    )
    parser.add_argument(
        "--quick", action="store_true", help="about a minute: fewer rounds, no large stores"
    )
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help="rows to measure, all if none is named: " + ", ".join(row.id for row in ROWS),
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="measure the default install too (needs a package index)",
    )
    parser.add_argument(
        "--out",
        default="",
        help="write docs/ and bench/results.json below this folder instead of the project",
    )
    return parser.parse_args(arguments)


def _chosen(wanted: list[str], is_quick: bool) -> list[Row]:
    unknown = set(wanted) - {row.id for row in ROWS}
    if unknown:
        sys.exit(
            f"no row {', '.join(sorted(unknown))}; there are {', '.join(row.id for row in ROWS)}"
        )
    if wanted:
        return [row for row in ROWS if row.id in wanted]
    return [row for row in ROWS if not (is_quick and row.is_slow)]


def _measure(rows: list[Row], effort: Effort, results: Results, console: Console) -> None:
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(rows))

        def done(id_: str, measured: Measured) -> None:
            results.rows[id_] = measured
            progress.advance(bar)

        uvloop.run(
            measure_all(rows, effort, lambda text: progress.update(bar, description=text), done)
        )
    order = {row.id: n for n, row in enumerate(ROWS)}
    results.rows = {
        id_: row
        for id_, row in sorted(results.rows.items(), key=lambda item: order.get(item[0], 99))
        if id_ in order
    }


def _print_targets(results: Results, console: Console) -> None:
    verdicts = [(target.text, target.judge(results)) for target in TARGETS]
    missed = [
        f"{text} (measured {verdict.found})"
        for text, verdict in verdicts
        if verdict.is_reached is False
    ]
    reached = sum(verdict.is_reached is True for _, verdict in verdicts)
    console.print(
        f"targets: {reached} reached, {len(missed)} not reached, "
        f"{len(verdicts) - reached - len(missed)} not measured"
    )
    for text in missed:
        console.print(f"  not reached: {text}")


def _write(results: Results, out: Path, stored: Path) -> None:
    for folder in (out / "docs", stored.parent):
        folder.mkdir(parents=True, exist_ok=True)
    results.save(stored)
    (out / "docs" / "performance.md").write_text(page(results))
    (out / "docs" / "performance.svg").write_text(chart(results))


if __name__ == "__main__":
    sys.exit(main())
