"""The report on the command line is complete, and every claim in it can be followed to a test."""

import ast
import re
from pathlib import Path

import pytest

from tests.cli.compliance import PAGE, REPORT, REQUIREMENTS, page, report

TESTS = Path(__file__).parents[1]
# How many ids each area has.
AREAS = {
    "AUTH": 11, "OUT": 7, "SEND": 6, "CARD_GET": 5, "INTERACT": 5, "TX": 5, "TASK_POLL": 4,
    "VER": 3, "CLI": 2, "CONFIG": 2, "EXIT": 2, "PUSH": 2, "SKILL": 2, "TASK_SUBSCRIBE": 2,
    "CHAT": 1,
    "CONFORM": 1, "DEFAULT": 1, "DEMO_SERVER": 1, "DOWNLOAD": 1, "TASK_CANCEL": 1, "TASK_GET": 1,
    "TASK_LIST": 1,
}  # fmt: skip


def docstrings(file):
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse((TESTS / file).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_requirement_is_listed():
    ids = {f"{area}_{n:03}" for area, count in AREAS.items() for n in range(1, count + 1)}
    assert set(REQUIREMENTS) == ids
    tiers = [one.tier for one in REQUIREMENTS.values()]
    assert [tiers.count(tier) for tier in (1, 2, 3)] == [39, 15, 12]


@pytest.mark.parametrize("id_", REQUIREMENTS)
def test_a_claim_has_tests_that_name_it(id_):
    one = REQUIREMENTS[id_]
    assert one.tests or one.note
    assert (one.status == "pass") == (not one.note)
    for place in one.tests:
        file, _, name = place.partition("::")
        assert re.search(rf"\b{id_}\b", docstrings(file)[name]), place


def test_the_page_is_what_the_table_says():
    assert PAGE.read_text() == page(), "run: python -m tests.cli.compliance"
    assert REPORT.read_text() == report(), "run: python -m tests.cli.compliance"
