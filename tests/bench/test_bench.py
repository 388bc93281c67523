"""The benchmark is a program like any other: it must run before anyone trusts its figures."""

import json
from pathlib import Path

import pytest

from bench import wire
from bench.load import Failure
from bench.picture import chart
from bench.report import page
from bench.results import Measured, Results, is_optimised
from bench.rows import EchoStream, Effort, Send
from bench.run import measure_all

pytestmark = pytest.mark.alone

TINY = Effort(rounds=1, seconds=0.02, warm_s=0.01, is_quick=True)


async def test_two_rows_run_end_to_end_on_all_servers(tmp_path: Path) -> None:
    """Every server starts, answers rightly and is measured; the figures survive being stored (issue
    3).
    """
    chosen = [
        Send("send", "send", connections=2, stage="test"),
        EchoStream("stream", "stream", connections=2, stage="test"),
    ]
    results = Results.load(tmp_path / "results.json")
    await measure_all(chosen, TINY, lambda text: None, results.rows.__setitem__)

    assert [row.error for row in results.rows.values()] == ["", ""]
    assert all(
        set(row.rounds) == {"sdk", "memory", "sqlite", "raw"} for row in results.rows.values()
    )
    results.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == results


def test_a_ratio_is_formed_within_a_round() -> None:
    """A minute in which the machine was slow for everyone must not favour anyone."""
    results = Results(
        rows={
            "send1": Measured(
                "send", "µs", "2026-01-01", {"sdk": [100, 300, 1000], "memory": [10, 15, 100]}
            )
        }
    )

    assert results.ratio("send1", "memory") == (10, 10, 20)
    assert results.ratio("send1", "sqlite") is None


def test_the_page_says_what_was_not_reached() -> None:
    """A target that is missed is written down, not left out."""
    results = Results(
        rows={
            "send32": Measured(
                "send", "µs", "2026-01-01", {"sdk": [1000], "memory": [10], "sqlite": [100]}
            )
        }
    )

    text = page(results)

    assert "| send, 32 connections: at least 30x on memory | 100.0x | reached |" in text
    assert "| send, 32 connections: at least 26x on sqlite | 10.0x | **not reached** |" in text
    assert chart(results).count("<rect") == 4  # two bars, two keys


@pytest.mark.parametrize(
    ("arguments", "flags", "is_it"),
    [
        ("'--prefix=/root/.pyenv/versions/3.11.7' '--libdir=/x'", "-O3 -Wall", False),
        ("'--prefix=/usr/local'", "-O3 -Wall", False),
        ("'--prefix=/usr/local' '--enable-optimizations' '--with-lto'", "-O3", True),
        ("'--prefix=/opt/python'", "-O3 -fprofile-use -fprofile-correction", True),
        ("'--enable-shared' '--prefix=/usr' '--enable-ipv6'", "-g -fwrapv -O2", True),  # Debian
    ],
)
def test_an_interpreter_without_pgo_is_known(arguments: str, flags: str, is_it: bool) -> None:
    """Figures of a slow build must say so; packaged builds must not be blamed."""
    assert is_optimised(arguments, flags) is is_it


def test_every_target_that_is_missed_has_its_reason() -> None:
    """The page tells where the time goes, and what was tried."""
    text = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()

    missed = {
        line.split()[1].strip(":,") for line in text.splitlines() if "**not reached**" in line
    }

    assert [name for name in sorted(missed) if f"\n- **{name}**: " not in text] == []


def test_a_wrong_answer_fails_the_row() -> None:
    """A fast error is no fast answer."""
    error = (
        b"HTTP/1.1 200 OK\r\n\r\n"
        + json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}).encode()
    )

    with pytest.raises(Failure, match="expected TASK_STATE_COMPLETED"):
        wire.check(wire.COMPLETED)(error)
