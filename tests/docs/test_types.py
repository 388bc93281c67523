"""The programs of the docs pass type checkers: what they use of Accord is typed.

Functions without annotations are the docs' choice, for short examples. Everything else is strict.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import get_args

import pytest

from accord import Agent
from accord.protocol import SPOKEN, BindingName, PreviewNumber, VersionNumber
from tests.client.conftest import DOORS
from tests.docs.page import ROOT, blocks
from tests.processes import run

BIN = Path(sys.executable).parent
# Chinese pages have the code of the English ones: test_site.py compares them.
PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name != "reference" and not page.name.endswith(".zh.md")
    ),
]
# Written for a release of a2a-sdk that is not installed here, or wrong on purpose: the page shows
# what error they get.
LEFT_OUT = {"recipes__sdk03", "recipes_zh__sdk03", "durable__called", "from_a2a_sdk__trip_sdk"}
MYPY = """[mypy]
strict = True
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
disallow_any_generics = False
check_untyped_defs = True
"""


# Each line has a value that its option does not take; what begins with `fits` has one that it does.
CHOICES = """from accord import Agent, connect, connect_sync

agent = Agent("Types")


async def calls() -> None:
    fits_1 = connect("x", binding="GRPC", version=["1.0", "0.3"])
    fits_2 = connect_sync("x", binding=["HTTP+JSON", "JSONRPC"], version="0.1", previews=["1.1"])
    fits_3 = agent.app(versions=["1.0"], previews=["1.1"])
    fits_4 = agent.run(log_level="debug", log_format="json")
    connect("x", binding="grcp")
    connect("x", version=["2.0"])
    connect("x", previews=["1.0"])
    connect_sync("x", binding="rest")
    connect_sync("x", version="0.9")
    agent.app(versions=["1"])
    agent.app(previews=["1.0"])
    agent.run(log_level="verbose")
    agent.run(log_format="xml")
    await agent.serve(versions=["1"])
    Agent("Types", card="private")
"""
REFUSED = [
    number
    for number, line in enumerate(CHOICES.splitlines(), 1)
    if line.startswith("    ") and "fits" not in line
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """Every program of every page in one folder, each with its page in its name."""
    folder = tmp_path_factory.mktemp("programs")
    for page in PAGES:
        prefix = re.sub(r"\W", "_", page.stem)
        named = [
            (match[1], text)
            for language, text in blocks(page)
            if language == "python" and (match := re.match(r"# (\w+)\.py\n", text))
        ]
        ours = "|".join(name for name, _ in named)
        for name, text in named:
            if f"{prefix}__{name}" not in LEFT_OUT:
                moved = re.sub(
                    rf"^from ({ours}) import", rf"from {prefix}__\1 import", text, flags=re.M
                )
                (folder / f"{prefix}__{name}.py").write_text(moved)
    (folder / "mypy.ini").write_text(MYPY)
    return folder


async def test_mypy_finds_nothing(programs):
    cache = ROOT / ".mypy_cache/docs"
    done = await run(BIN / "mypy", "--cache-dir", cache, ".", cwd=programs, seconds=300)
    assert done.code == 0, done.out


async def test_pyright_finds_nothing(programs):
    if shutil.which("node") is None:
        pytest.skip("no Node.js here, which pyright needs")
    (programs / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    done = await run(BIN / "pyright", "--pythonpath", sys.executable, cwd=programs, seconds=300)
    assert done.code == 0, done.out


@pytest.fixture
def choices(tmp_path) -> Path:
    (tmp_path / "choices.py").write_text(CHOICES)
    return tmp_path


async def test_mypy_refuses_a_value_that_an_option_does_not_take(choices):
    cache = ROOT / ".mypy_cache/docs"
    done = await run(BIN / "mypy", "--cache-dir", cache, "choices.py", cwd=choices, seconds=300)
    assert _lines(r"choices\.py:(\d+): error", done.out) == REFUSED, done.out


async def test_pyright_refuses_a_value_that_an_option_does_not_take(choices):
    if shutil.which("node") is None:
        pytest.skip("no Node.js here, which pyright needs")
    done = await run(
        BIN / "pyright", "--pythonpath", sys.executable, "choices.py", cwd=choices, seconds=300
    )
    assert _lines(r"choices\.py:(\d+):\d+ - error", done.out) == REFUSED, done.out


def _lines(pattern: str, text: str) -> list[int]:
    return sorted({int(number) for number in re.findall(pattern, text)})


def test_the_types_list_what_there_is():
    """The tables of versions and bindings decide; the types repeat them."""
    previews = {number for number, row in SPOKEN.items() if row.is_preview}
    assert set(get_args(PreviewNumber)) == previews
    assert set(get_args(VersionNumber)) == set(SPOKEN)
    assert set(get_args(BindingName)) == {binding for binding, _ in DOORS.values()}


def test_a_level_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="log_level is 'verbose'; give one of critical, error"):
        Agent("Types").run(log_level="verbose")  # type: ignore[arg-type]
