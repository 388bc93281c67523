"""Builds the page of the web console, where there is Node: `make console`, and `pip install` of a
clone.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "src" / "accord" / "console" / "static" / "index.html"
COMMANDS = (
    ["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
    ["run", "--silent", "build", "--", "--logLevel", "warn"],
)


def build() -> str:
    """Build the page, unless it is newer than all it is made of. Returns why it could not be."""
    if is_current():
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "no Node.js here: the web console is not built (it needs Node 20 or newer)"
    for words in COMMANDS:
        done = subprocess.run(
            [npm, *words], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            said = "\n".join(done.stdout.splitlines()[-10:])
            return f"no web console, it needs Node 20 or newer: npm {words[0]} failed\n{said}"
    PAGE.touch()  # what was written meanwhile counts as built
    return ""


def is_current() -> bool:
    if not PAGE.exists():
        return False
    sources = [HERE / name for name in ("package.json", "index.html", "vite.config.ts")]
    for folder in ("src", "public"):
        sources += (path for path in (HERE / folder).rglob("*") if path.is_file())
    return all(path.stat().st_mtime <= PAGE.stat().st_mtime for path in sources)


if __name__ == "__main__":
    why = build()
    if why:
        print(why, file=sys.stderr)
    sys.exit(1 if why and shutil.which("npm") else 0)
