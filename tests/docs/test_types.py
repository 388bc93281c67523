"""The programs of the docs pass type checkers: what they use of Accord is typed.

Functions without annotations are the docs' choice, for short examples. Everything else is strict.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT, blocks
from tests.processes import run

BIN = Path(sys.executable).parent
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"),
]
# Written for a release of a2a-sdk that is not installed here, or wrong on purpose: the page shows
# what error they get.
LEFT_OUT = {"recipes__sdk03", "durable__called", "from_a2a_sdk__trip_sdk"}
MYPY = """[mypy]
strict = True
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
disallow_any_generics = False
check_untyped_defs = True
"""


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
