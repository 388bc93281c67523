"""How much a default install brings: counted in a fresh environment each."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .results import Install, today

__all__ = ["measure_installs"]

ROOT = Path(__file__).parent.parent
_INSTALLS = {
    "accord": [str(ROOT)],
    "a2a-sdk": ["a2a-sdk[http-server]", "uvicorn"],
}
_TOOLS = {"pip", "setuptools", "wheel"}


def measure_installs() -> dict[str, Install]:
    """Install each into an empty environment and weigh it. Needs a package index to install
    from.
    """
    return {name: _measure(what) for name, what in _INSTALLS.items()}


def _measure(what: list[str]) -> Install:
    with tempfile.TemporaryDirectory(prefix="accord-install-") as folder:
        _run([sys.executable, "-m", "venv", folder])
        python = f"{folder}/bin/python"
        site = next(Path(folder, "lib").glob("python*/site-packages"))
        before = _size(site)
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        _run([*pip, "install", "--quiet", "-c", str(ROOT / "constraints.txt"), *what])
        listed = _run([*pip, "list", "--format=json"])
        packages = {one["name"] for one in json.loads(listed)} - _TOOLS
        return Install(
            packages=len(packages), mb=round((_size(site) - before) / 1e6, 1), date=today()
        )


def _run(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def _size(folder: Path) -> int:
    return sum(
        file.stat().st_size
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    )
