"""`make release`: build the wheel and the sdist into dist/, and try the wheel where nothing is.

`make release-check` (`--extras`) also tries it with each extra alone.
"""

import shutil
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path

from tests.processes import run_sync

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
BESIDE_THE_CODE = {
    "CHANGELOG.md",
    "LICENSE",
    "PKG-INFO",
    "README.md",
    "hatch_build.py",
    "pyproject.toml",
    ".gitignore",
}
OURS_ALONE = {"dev", "docs", "fuzz"}  # for who works on Accord


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"]) - OURS_ALONE
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    [wheel] = DIST.glob("*.whl")
    [source] = DIST.glob("*.tar.gz")
    check(source, project["version"])
    with tempfile.TemporaryDirectory() as folder:
        for extra in ["", *(sorted(extras) if "--extras" in sys.argv else [])]:
            print(f"accord[{extra}]" if extra else "accord", end=": ", flush=True)
            print(try_extra(wheel, extra, Path(folder) / (extra or "alone")))
    for made in (wheel, source):
        print(f"dist/{made.name}: {made.stat().st_size / 1e6:.1f} MB")
    return 0


def check(source: Path, version: str) -> None:
    """Check that the sdist has nothing but our code, and the changelog an entry for the version."""
    with tarfile.open(source) as inside:
        found = {name.split("/", 1)[1] for name in inside.getnames()}
    extra = {name for name in found if not name.startswith("src/accord/")} - BESIDE_THE_CODE
    assert not extra, f"{source.name} has what it should not have: {sorted(extra)[:5]}"
    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text(), (
        f"the changelog has no entry for {version}"
    )


def try_extra(wheel: Path, extra: str, place: Path) -> str:
    """Install the wheel with one extra into an empty environment and use it. Return how it went."""
    venv.create(place, with_pip=True)
    python = place / "bin/python"
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what)
    packages = run(str(python), "-m", "pip", "list", "--format=freeze").splitlines()
    run(str(place / "bin/accord"), "--version")
    smoke = str(Path(__file__).parent / "smoke.py")
    told = run(str(python), smoke, extra).strip()
    return f"{told}, {len(packages) - 2} packages"  # without pip and setuptools


def run(*command: str) -> str:
    done = run_sync(*command, seconds=600)
    if done.code:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.out}{done.err}")
    return done.out


if __name__ == "__main__":
    sys.exit(main())
