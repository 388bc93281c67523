"""accord check: what it prints, and how it exits."""

import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tests.cli.shell import accord, served

ECHO = '''
from accord import Agent
agent = Agent("Echo", description="Echoes.")

@agent.skill
async def echo(request: str) -> str:
    """Echo what is said."""
    return request
'''


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("check")
    (folder / "echo.py").write_text(ECHO)
    with served("echo.py", "--store", "memory", cwd=folder) as (_, url):
        yield url


def test_plain_lines_in_a_pipe(url):
    """One line per check, the score last, exit 0."""
    done = accord("check", url)
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert "  ok   reach.task        An unknown task is TaskNotFound" in lines
    assert lines[-1].startswith("Score: 100 of 100")
    assert "\x1b" not in done.out


def test_json(url):
    """Every result as JSON, of the interfaces that were chosen; also by the specification's name
    for it. (CONFORM_001)
    """
    done = accord("conformance", url, "-o", "json", "--transport", "rest", "--a2a-version", "1.0")
    report = json.loads(done.out)
    assert (done.code, report["score"], report["counts"]["fail"]) == (0, 100, 0)
    assert {r["interface"].split()[0] for r in report["results"] if r["interface"]} == {"HTTP+JSON"}


def test_junit(url):
    """XML with a suite per interface."""
    root = ElementTree.fromstring(accord("check", url, "-o", "junit").out)
    assert {suite.get("failures") for suite in root} == {"0"}
    assert "card.found" in {case.get("name") for case in root.iter("testcase")}


def test_failures_say_what_to_change(url, tmp_path):
    """A card without descriptions: exit 1, the reason and the sentence in the output."""
    card = json.loads(accord("card", "get", url, "-o", "json").out)
    card["skills"][0] |= {"description": "", "tags": []}
    (tmp_path / "card.json").write_text(json.dumps(card))
    done = accord("check", str(tmp_path / "card.json"), "--transport", "rest", "--verbose")
    assert done.code == 1
    assert "the skill 'echo' has no description and no tags" in done.out
    assert "Describe the agent and each skill" in done.out


def test_nobody_there():
    """Exit 3, and the report says so."""
    done = accord("check", "http://127.0.0.1:9", "-o", "json")
    report = json.loads(done.out)
    assert (done.code, report["category"], report["score"]) == (3, "REFUSED", 0)
