"""Attack targets, one after the other: `python -m tests.hostile.fuzz SEED http=8000 sse=2000`.

A line of JSON for each says how it went.

With `--guided` Atheris makes the tapes, by what they reach in our code; without it they are random.
Either way those in `corpus/` come first, and `--keep` adds to them what a guided run has found.
`--tape HEX` plays one tape. A fault ends the process.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.hostile.fuzz.run import Run, kept

TAPES = (8, 30, 100, 300)  # bytes


def play(name: str, runs: int, seed: int, folder: Path) -> None:
    from tests.hostile.fuzz.targets import TARGETS

    run, chance = Run(TARGETS[name](folder), runs), random.Random(seed)
    run.play_all(kept(name))
    while not run.is_over:
        run.play(chance.randbytes(chance.choice(TAPES)))
    say(run)


def guide(name: str, runs: int, seed: int, folder: Path, *, is_kept: bool) -> None:
    """Have Atheris make the tapes. What it is to follow must be imported under its eyes; and it
    knows no return.
    """
    import atheris  # type: ignore[import-untyped]

    with atheris.instrument_imports(include=["accord"]):
        from tests.hostile.fuzz.targets import TARGETS

        run = Run(TARGETS[name](folder), runs)
    found = folder / "tapes"
    found.mkdir()
    for number, tape in enumerate(kept(name)):
        (found / str(number)).write_bytes(tape)

    def one(tape: bytes) -> None:
        run.play(tape)
        if run.is_over:
            say(run)
            if is_kept:
                from tests.hostile.fuzz.keep import keep

                keep(name, [file.read_bytes() for file in found.iterdir()], folder)
            os._exit(0)

    flags = [
        f"-runs={runs + 1}",
        f"-seed={seed}",
        f"-max_len={max(TAPES)}",
        "-len_control=20",
        "-verbosity=0",
        "-rss_limit_mb=0",
    ]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={folder}/", str(found)], one)
    atheris.Fuzz()


def say(run: Run) -> None:
    print(json.dumps(run.result()), flush=True)


def part(text: str) -> tuple[str, int]:
    name, _, runs = text.partition("=")
    return name, int(runs or 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz")
    parser.add_argument("seed", type=int)
    parser.add_argument("parts", type=part, nargs="+", metavar="NAME=RUNS")
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--tape", type=bytes.fromhex, metavar="HEX")
    options: Any = parser.parse_args()
    for name, runs in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            if options.tape is not None:
                from tests.hostile.fuzz.targets import TARGETS

                Run(TARGETS[name](Path(folder)), 1).play(options.tape)
            elif options.guided:
                guide(name, runs, options.seed, Path(folder), is_kept=options.keep)
            else:
                play(name, runs, options.seed, Path(folder))


if __name__ == "__main__":
    main()
