"""A version is a codec and its rows: taken away, it is gone, and nothing else notices."""

import ast
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

import accord
from accord.operations.table import OPERATIONS, VERSIONS, served_versions
from tests.legacy.wire import echo, say_0_1, say_0_3, say_1_0, say_rest, talking_to
from tests.processes import run_sync

SOURCE = Path(accord.__file__).parent
ROOT = SOURCE.parent.parent

FOLDERS = {"V0_3": "v03", "V0_1": "v01", "V1_1": "v11"}

# What is left answers, what was deleted is unknown.
PROBE = """
import asyncio
from tests.legacy.wire import echo, say_0_1, say_0_3, say_1_0, say_rest, talking_to
import accord

async def main():
    async with talking_to(echo) as client:
        answers = [
            await client.rpc("SendMessage", say_1_0()),
            await client.rpc("message/send", say_0_3()),
            await client.rpc("tasks/send", say_0_1("t")),
        ]
        status, _ = await client.rest("GET", "/v1/tasks")
        print(accord.__file__, [answer.get("error", {}).get("code", 0) for answer in answers], status)

asyncio.run(main())
"""  # noqa: E501


@pytest.mark.parametrize(
    ("name", "codes"), [("V0_3", "[0, -32601, 0]"), ("V0_1", "[0, 0, -32601]")]
)
def test_deleting_a_codec_and_its_rows_removes_the_version(name, codes, tmp_path):
    """No other file of the server knows the version: it starts, and answers the others as
    before.
    """
    package = tmp_path / "accord"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(package / "protocol" / FOLDERS[name])
    table = package / "operations" / "table.py"
    table.write_text(_without(name, table.read_text()))
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = run_sync(sys.executable, "-c", PROBE, env=path)
    assert str(package) in done.out, done.err
    assert codes in done.out


CLIENT_PROBE = """
import asyncio
import accord

agent = accord.Agent("Echo")

@agent.skill
async def echo(text: str) -> str:
    return text

async def main():
    async with accord.connect(agent) as client:
        print(accord.__file__, (await client.send("hi")).text, client.version)

asyncio.run(main())
"""


def test_deleting_the_preview_removes_it_from_server_and_client(tmp_path):
    """A folder, and a row in both tables."""
    package = tmp_path / "accord"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(package / "protocol" / FOLDERS["V1_1"])
    for file, row in (("operations/table.py", "V1_1"), ("protocol/spoken.py", "_V1_1")):
        (package / file).write_text(_without(row, (package / file).read_text()))
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = run_sync(sys.executable, "-c", CLIENT_PROBE, env=path)
    assert done.out == f"{package / '__init__.py'} hi 1.0\n", done.err
    done = run_sync(sys.executable, "-c", PROBE, env=path)
    assert "[0, 0, 0]" in done.out, done.err


def _without(name: str, source: str) -> str:
    """The table without a version: its row, its place among the versions, and the import of its
    codecs.
    """
    tree = ast.parse(source)
    gone = FOLDERS[name.lstrip("_")]
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.Assign) and _target(node) == name)
        and not (isinstance(node, ast.ImportFrom) and (node.module or "").endswith(gone))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple):
            node.elts = [
                item for item in node.elts if not (isinstance(item, ast.Name) and item.id == name)
            ]
    return ast.unparse(tree)


def _target(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


@pytest.mark.parametrize("room", ["model", "store", "engine", "ops", "wire"])
def test_nothing_but_codecs_and_the_table_names_an_old_version(room):
    """A version check elsewhere would outlive the version (design, rule 16)."""
    for path in (SOURCE / room).rglob("*.py"):
        if path.name != "table.py":
            code = re.sub(r'"""(?s:.)*?"""|#.*', "", path.read_text())
            assert not re.search(r"\bv0[13]|\"0\.[123]\"", code), path


@pytest.mark.parametrize(
    "wanted", [["1.0"], ["0.3"], ["0.2"], ["0.1"], ["1.0", "0.3"], ["0.3", "0.1"]]
)
async def test_only_the_versions_asked_for_are_answered(wanted):
    """`versions` limits what is served; naming another in the header is refused."""
    async with talking_to(echo, versions=wanted) as client:
        for version, method, params in (
            ("1.0", "SendMessage", say_1_0()),
            ("0.3", "message/send", say_0_3()),
            ("0.1", "tasks/send", say_0_1("t")),
        ):
            is_served = bool({version, "0.2" if version == "0.3" else version} & set(wanted))
            answer = await client.rpc(method, params)
            assert ("result" in answer) is is_served
            if not is_served:
                assert answer["error"]["code"] == -32601
                assert (await client.error(method, params, headers={"A2A-Version": version}))[
                    "code"
                ] == -32009
        status, _ = await client.rest("POST", "/v1/message:send", say_rest())
        assert (status == 200) is bool({"0.2", "0.3"} & set(wanted))


@pytest.mark.parametrize("wanted", [["2.0"], [], ["1.0", "latest"]])
def test_versions_that_do_not_exist_are_refused_at_start(wanted):
    """A typing mistake is told by name, not found out by clients."""
    with pytest.raises(ValueError, match=r"choose from 0\.1, 0\.2, 0\.3, 1\.0"):
        served_versions(wanted)


def test_rows_name_operations_that_exist():
    """A row of the table can't point nowhere, and no version has two rows for one request."""
    for version in VERSIONS:
        assert set(version.rpc.values()) <= set(OPERATIONS)
        routes = [(route.verb, route.path) for route in version.rest]
        assert len(routes) == len(set(routes))
        assert {route.operation for route in version.rest} <= set(OPERATIONS)


def test_the_page_of_versions_is_current():
    """docs/versions.md is made from the table; `python docs/versions.py` makes it anew."""
    made = run_sync(sys.executable, ROOT / "docs" / "versions.py", "--print")
    assert made == (0, (ROOT / "docs" / "versions.md").read_text(), "")
