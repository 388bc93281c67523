"""The list of rules is complete, and every claim in it can be followed to a test."""

import ast
import re
from pathlib import Path

import pytest

from tests.requirements import COUNTS, RULES

HERE = Path(__file__).parent
RULE = re.compile(r"\b[A-Z]{3}-\d+\b")


def places_in(folder: str) -> dict[str, str]:
    """Every test function below a folder, by its place, with its docstring."""
    return {
        f"{path.relative_to(HERE)}::{node.name}": ast.get_docstring(node) or ""
        for path in sorted((HERE / folder).rglob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


TESTS = places_in(".")


def test_every_rule_is_listed():
    """The groups have no holes: a rule can't be forgotten by leaving it out."""
    assert list(RULES) == [
        f"{group}-{n}" for group, count in COUNTS.items() for n in range(1, count + 1)
    ]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_test_or_a_reason(rule):
    """One of the two, and never nothing."""
    says, tests, because = RULES[rule]
    assert says
    assert bool(tests) != bool(because)


@pytest.mark.parametrize("rule", [rule for rule in RULES if RULES[rule].tests])
def test_the_tests_of_a_rule_exist_and_say_so(rule):
    """A test that proves a rule names it in its docstring, so that neither can be changed without
    the other.
    """
    for place in RULES[rule].tests:
        assert rule in RULE.findall(TESTS[place]), place


def test_a_rule_named_by_a_test_is_listed_with_it():
    """Whoever writes a test for a rule enters it in the list."""
    claimed = {
        (rule, place)
        for place, why in TESTS.items()
        for rule in RULE.findall(why)
        if rule.partition("-")[0] in COUNTS
    }
    listed = {(rule, place) for rule, entry in RULES.items() for place in entry.tests}
    assert {
        (rule, place)
        for rule, place in claimed - listed
        if place.startswith(("interaction/", "conformance/"))
    } == set()


def test_every_test_of_behaviour_says_why():
    """The docstring gives the reason: a rule, a promise of the design, or a plain sentence."""
    assert [
        place
        for place, why in (places_in("interaction") | places_in("conformance")).items()
        if not why
    ] == []
