"""docs/survives.md promises nothing that no test shows."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "survives.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def names_in(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not path.exists():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, functions)}


def test_every_test_named_on_the_page_exists() -> None:
    """A promise whose proof was renamed or removed is a promise without one."""
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 40
    missing = [
        f"{file}::{test}" for file, test in named if test and test not in names_in(ROOT / file)
    ]
    assert missing == []


def test_every_promise_on_the_page_names_its_proof() -> None:
    """Every row below the overview ends with at least one test."""
    _, _, rest = PAGE.read_text().partition("## Nothing acknowledged is lost")
    rows = [
        line
        for line in rest.splitlines()
        if line.startswith("| ") and not line.startswith(("| promise", "| what"))
    ]
    assert [row for row in rows if not NAMED.search(row.split("|")[-2])] == []


def test_every_test_of_this_folder_is_a_promise_on_the_page_or_serves_one() -> None:
    """What is proved here and promised nowhere is either a promise forgotten, or named below with
    what it is for.
    """
    serving = {
        "test_page.py",  # this file
        "test_a_reply_that_leaves_too_early_is_seen",  # a check of the check
        "test_a_database_that_can_not_be_read_is_said_to_be_unavailable",
        "test_an_answer_to_a_function_that_can_no_longer_be_called_is_refused_and_nothing_is_stuck",
        "test_durable_work_that_can_no_longer_be_called_has_failed_and_says_why",
        "test_a_broken_upkeep_goes_on",
        "test_only_the_command_line_of_a_test_arms_a_point",
    }
    promised = {test for _, test in NAMED.findall(PAGE.read_text())}
    here = Path(__file__).parent
    written = {
        test
        for path in here.glob("test_*.py")
        if path.name not in serving
        for test in names_in(path)
        if test.startswith("test_")
    }
    assert written - promised - serving == set()
