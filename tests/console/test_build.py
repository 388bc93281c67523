"""The page is in what `pip install .` makes of a clone: it was only in wheels that `make` built."""

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from accord.protocol import SPOKEN
from tests.console.browser import STATIC
from tests.processes import run_sync

ROOT = Path(__file__).parents[2]
PAGE = "accord/console/static/index.html"
EXACT = re.compile(r"=?\d+\.\d+\.\d+[\w.+-]*")
FILES = ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "console/build.py")


def built(root: Path, to: Path, **env: str) -> tuple[list[str], str]:
    """Build a wheel as pip does. Returns what is in it, and what was said."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(to))
    done = run_sync(*command, cwd=root, env=env)
    assert done.code == 0, done.err
    [wheel] = to.glob("*.whl")
    with zipfile.ZipFile(wheel) as inside:
        return inside.namelist(), done.out + done.err


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no Node.js here")
def test_a_clone_is_installed_with_the_page(tmp_path: Path) -> None:
    files, _ = built(ROOT, tmp_path)
    assert PAGE in files
    assert (STATIC / "index.html").exists()


def test_without_node_it_is_installed_and_the_page_is_said_to_be_missing(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / "console").mkdir(parents=True)
    for name in FILES:
        shutil.copy(ROOT / name, clone / name)
    ignored = shutil.ignore_patterns("static", "__pycache__")
    shutil.copytree(ROOT / "src", clone / "src", ignore=ignored)
    nothing = tmp_path / "bin"
    nothing.mkdir()
    files, said = built(clone, tmp_path, PATH=str(nothing))
    assert PAGE not in files
    assert "accord/agent.py" in files
    assert "no Node.js here" in said


def test_a_page_that_is_current_is_not_built_again(tmp_path: Path) -> None:
    """Every environment that the tests set up installs the clone."""
    (tmp_path / "console" / "src").mkdir(parents=True)
    script = tmp_path / "console" / "build.py"
    shutil.copy(ROOT / "console" / "build.py", script)
    for name in ("package.json", "index.html", "vite.config.ts", "src/main.tsx"):
        (tmp_path / "console" / name).touch()
    page = tmp_path / "src" / PAGE
    page.parent.mkdir(parents=True)
    page.touch()
    os.utime(page, (2**31, 2**31))
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho called; exit 1\n")
    npm.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert run_sync(sys.executable, str(script), env=env).code == 0
    os.utime(page, (1, 1))
    done = run_sync(sys.executable, str(script), env=env)
    assert (done.code, "npm install failed\ncalled" in done.err) == (1, True)


def test_a_release_is_the_same_twice() -> None:
    """Whatever the page is made of, and made with, has one version: there is no lock file."""
    package = json.loads((ROOT / "console" / "package.json").read_text())
    pinned = package["overrides"]
    for name, version in (package["dependencies"] | package["devDependencies"] | pinned).items():
        assert EXACT.fullmatch(version), name
    modules = ROOT / "console" / "node_modules"
    if not modules.exists():
        pytest.skip("the packages of the page are not installed")
    wanted, known = [*package["dependencies"], "vite"], set[str]()
    while wanted:
        known.add(name := wanted.pop())
        found = json.loads((modules / name / "package.json").read_text())
        for other, version in found.get("dependencies", {}).items():
            assert EXACT.fullmatch(version) or other in pinned, f"{name} asks for {other} {version}"
            wanted += [other] if other not in known else []


def test_the_page_names_no_version_of_the_protocol() -> None:
    """The server says which there are: one that is removed or added is not looked for here."""
    numbers = "|".join(map(re.escape, SPOKEN))
    number = re.compile(rf"""(["'`])(?:{numbers})\1|startsWith\(["']\d\.""")
    sources = sorted((ROOT / "console" / "src").rglob("*.ts*"))
    assert len(sources) > 50
    assert [path.name for path in sources if number.search(path.read_text())] == []
