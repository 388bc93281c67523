"""The wheel has everything in it. `make release-check` also tries it in empty environments."""

import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import run

ROOT = Path(__file__).parents[2]


async def test_the_wheel_has_all_it_needs_and_works(tmp_path):
    if not (ROOT / "src/accord/console/static/index.html").exists():
        pytest.skip("the console is not built: there is no Node.js here")
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    done = await run(sys.executable, *build)
    assert done.code == 0, done.err
    [wheel] = tmp_path.glob("*.whl")
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as inside:
        inside.extractall(target)
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/accord").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert source - packed == set()
    others = [one for one in packed - source if not one.startswith("accord/console/static/")]
    assert {one.split("/")[0] for one in others} == {wheel.name.split("-py")[0] + ".dist-info"}
    here = str(ROOT).encode()
    assert [name for name in packed if here in (target / name).read_bytes()] == []
    smoke = ROOT / "tests/release/smoke.py"
    done = await run(sys.executable, smoke, cwd=tmp_path, env={"PYTHONPATH": str(target)})
    assert (done.code, done.out) == (0, "works\n"), done.err
