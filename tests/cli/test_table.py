"""Lists: a table that fits the terminal for people, JSON for programs."""

import json
import math
from datetime import UTC, datetime

import pytest

from accord.cli.amount import read_duration, read_size
from accord.cli.table import moment, table
from accord.cli.terminal import Styled
from tests.cli.shell import accord

ROWS = [
    {"name": "hr", "state": "completed", "description": "Knows who\nworks here. " * 10},
    {"name": "差旅规划助手", "state": "failed", "description": None},
]


def lines_of(width: int) -> list[str]:
    return [
        "".join(piece.text if isinstance(piece, Styled) else piece for piece in line)
        for line in table(ROWS, "name", "state", "description", width=width)
    ]


def test_a_table_fits_the_terminal_and_its_columns_stand_below_each_other():
    """A Chinese character takes two columns."""
    head, first, second = lines_of(60)
    assert head.split() == ["NAME", "STATE", "DESCRIPTION"]
    assert len(first) == 60
    assert first.endswith("…")
    assert second == "差旅规划助手  failed     -"
    assert first.index("completed") == head.index("STATE") == 14


def test_without_a_terminal_nothing_is_cut():
    assert "…" not in lines_of(10_000)[1]


def test_what_other_commands_take_is_never_cut():
    """A task is asked for by its id, so half of one is of no use on a narrow terminal."""
    id_ = "01a1eeda-08fb-7233-8c5e-ec600c617b97"
    row = {"task": id_, "state": "input-required", "changed": "13:30:29", "message": "How many?"}
    for width in (40, 60, 80):
        lines = table([row], "task", "state", "changed", "message", width=width)
        assert lines[1][0] == id_


def test_a_time_of_today_is_local_and_short():
    now = datetime.now().astimezone()
    assert moment(f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}") == f"{now:%H:%M:%S}"


@pytest.mark.parametrize(
    ("time", "shown"), [("2026-03-01T12:00:00Z", "2026-03-01"), ("yesterday", "yesterday")]
)
def test_another_time_has_its_date_or_stays_as_it_is(time, shown):
    assert moment(time).startswith(shown)


def test_a_state_has_its_colour():
    cells = [piece for line in table(ROWS, "state") for piece in line]
    assert [(cell.text, cell.look["fg"]) for cell in cells if isinstance(cell, Styled)] == [
        ("completed", "green"),
        ("failed", "red"),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("1m30s", 90), ("12h", 43_200), ("90d", 7_776_000), ("2w", 1_209_600)],
)
def test_durations_have_units(text, seconds):
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "1x", "²s", "-1s", "1 d", "9" * 5000 + "s"])
def test_what_is_no_duration_is_refused(text):
    assert math.isnan(read_duration(text))


@pytest.mark.parametrize(("text", "size"), [("500", 500), ("8MiB", 8 << 20), ("1.5k", 1500)])
def test_sizes_may_have_units(text, size):
    assert read_size(text) == size


def test_a_misspelt_command_is_an_error_that_names_the_right_one():
    assert "Did you mean 'task'?" in accord("tsk").err
    assert "Did you mean 'send'" in accord("sned").err


def test_doctor_prints_json(tmp_path):
    found = json.loads(accord("doctor", "-o", "json", cwd=tmp_path).out)
    assert {one["verdict"] for one in found} <= {"ok", "note", "bad"}
