"""What a public repository has beside its code: its files are what their readers accept."""

import sys
from pathlib import Path

import pytest
import yaml

from tests.processes import run, run_sync
from tests.report import summary

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
GITHUB = ROOT / ".github"
SCHEMAS = {
    "vendor.github-workflows": [*GITHUB.glob("workflows/*.yml")],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [
        path for path in GITHUB.glob("ISSUE_TEMPLATE/*.yml") if path.stem != "config"
    ],
}


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_files_for_github_fit_their_schema(schema: str):
    assert SCHEMAS[schema]
    done = await run(BIN / "check-jsonschema", "--builtin-schema", schema, *SCHEMAS[schema])
    assert done.code == 0, done.out


async def test_pre_commit_takes_its_configuration():
    done = await run(BIN / "pre-commit", "validate-config", ROOT / ".pre-commit-config.yaml")
    assert done.code == 0, done


def test_workflows_call_targets_that_the_makefile_has():
    targets = run_sync("make", "--silent", "help", cwd=ROOT).out
    for path in SCHEMAS["vendor.github-workflows"]:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            called = [
                step["run"] for step in job["steps"] if step.get("run", "").startswith("make")
            ]
            for command in called:
                assert f"\n{command.split()[1]} " in f"\n{targets}", command


def test_no_conflict_of_a_merge_was_committed():
    """One stood in the table of settings, where a reader saw it before any test did."""
    marks = run_sync("git", "grep", "-lE", "^(<{7}|>{7}) ", "--", ".", cwd=ROOT).out
    assert marks == ""


def test_every_supported_python_is_tested():
    project = (ROOT / "pyproject.toml").read_text()
    workflow = yaml.safe_load((GITHUB / "workflows/test.yml").read_text())
    for version in workflow["jobs"]["unit"]["strategy"]["matrix"]["python"]:
        assert f"Python :: {version}" in project
    assert project.count('"Programming Language :: Python :: 3.') == 3


def test_the_report_names_what_was_retried_and_what_was_not_tested():
    """A green run that skipped half of the tests must not look like a whole one."""
    written = "not tested\tno nginx here\nretried\ttests/a.py::test_b\nnot tested\tno nginx here\n"
    assert summary(written) == [
        "Failed once and passed when run again, alone:",
        "  tests/a.py::test_b",
        "Not tested here:",
        "  2 x no nginx here",
    ]
    assert summary("") == ["Everything was tested, and nothing was retried."]
