"""accord hub, as a person types it."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.shell import accord, found, served
from tests.processes import Process, start

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@contextmanager
def hub_served(cwd: Path, *words: str) -> Iterator[tuple[Process, str]]:
    """`accord hub` on a free port while the block lasts: the process and its address."""
    command = (sys.executable, "-m", "accord", "hub", "--port", "0", *words)
    with start(*command, cwd=cwd) as process:
        yield process, found(r"http\S+", process.line_sync())


def test_one_command_starts_a_hub_and_three_more_fill_it(tmp_path):
    began = time.monotonic()
    with (
        hub_served(tmp_path) as (process, url),
        served(str(EXAMPLES / "echo.py"), cwd=tmp_path) as (_, echo),
        served(str(EXAMPLES / "trip.py"), cwd=tmp_path) as (_, trip),
    ):
        print(f"\nready after {time.monotonic() - began:.1f} s (three processes)")
        hub = ("--hub", url)
        lines = [process.line_sync() for _ in range(4)]
        assert any("/console/?key=" in line for line in lines)
        assert "echo is approved: 1 skill\n" in accord("hub", "add", echo, *hub, cwd=tmp_path).out
        assert accord("hub", "add", trip, *hub, cwd=tmp_path).code == 0
        listed = accord("hub", "list", *hub, cwd=tmp_path).out
        assert "echo" in listed
        assert "trip-planner" in listed
        shown = accord("hub", "show", "echo", *hub, cwd=tmp_path).out
        assert "skill      echo" in shown
        missing = accord("hub", "show", "nope", *hub, "-o", "json", cwd=tmp_path)
        assert missing.code == 1
        assert "no agent 'nope'" in json.loads(missing.out)["error"]["message"]
    away = accord("hub", "list", "--hub", url, cwd=tmp_path)
    assert away.code == 3
    assert "start one with:  accord hub" in away.err
