"""`make image`: build the image of deploy/Dockerfile without Docker, and see whether it is ready.

Uses buildah, which is a package of Debian, as root. Where the base image can't be pulled, a small
Debian with Python stands in for it (mmdebstrap, a package too). pip's settings of this machine are
lent to the build, so that it finds packages where this machine does.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests.processes import free_port, run_sync, start, until_sync

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.12-slim"
IMAGE = "localhost/accord-clerk"
LENT = ["/etc/pip.conf", "/etc/ssl/certs", "/opt"]
ENVIRONMENT = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
PATIENCE_S = 900


def main() -> int:
    need("buildah")
    if not list((ROOT / "dist").glob("accord-*.whl")):
        raise SystemExit("there is no wheel in dist/; type: make release")
    if buildah("inspect", BASE, fails=True) and buildah("pull", BASE, fails=True):
        print(f"{BASE} can't be pulled: a Debian with Python stands in for it", flush=True)
        make_base()
    lent = [f"--volume={path}:{path}:ro" for path in LENT if Path(path).exists()]
    how = ["--pull-never", "--network=host", "--format=docker", *lent]
    buildah("build", *how, "--tag", IMAGE, "--file", "deploy/Dockerfile", ".")
    print(f"built {IMAGE}", flush=True)
    container = said(buildah("from", "--pull-never", IMAGE))
    try:
        # On a busy machine buildah may end before what the program printed was read.
        user = until_sync(lambda: buildah("run", container, "--", "id", "-u").strip())
        print(f"it runs as user {user}, and answers {answer(container)}")
    finally:
        buildah("rm", container)
    return 0


def need(program: str) -> None:
    """Raise if a program is not installed."""
    if shutil.which(program) is None:
        raise SystemExit(f"there is no {program}; install it, as root: apt install {program}")


def make_base() -> None:
    """Make an image of Debian's own Python."""
    need("mmdebstrap")
    with tempfile.TemporaryDirectory() as folder:
        system = f"{folder}/base.tar"
        packages = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates"
        command = ["mmdebstrap", "--variant=minbase", f"--include={packages}", "bookworm", system]
        check(run_sync(*command, seconds=PATIENCE_S))
        container = said(buildah("from", "scratch"))
        buildah("add", container, system, "/")
        buildah("commit", "--rm", container, BASE)


def answer(container: str) -> str:
    """Start the image's command in a container, and return what it says of itself."""
    port = free_port()
    words = ["accord", "serve", "agent.py:agent", "--host", "127.0.0.1", "--port", str(port)]
    store = ["--store", "sqlite:////data/tasks.db"]
    command = ["buildah", "run", "--network=host", container, "--", *words, *store]
    with start(*command, env=ENVIRONMENT) as process:

        def ready() -> str:
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{port}/readyz"
                return str(urllib.request.urlopen(url, timeout=2).read().decode())
            return ""

        found: str = until_sync(ready)
        process.stop_sync()
        return found


def buildah(*words: str, fails: bool = False) -> str:
    """Run buildah and return what it prints; with `fails`, something only if it fails."""
    done = run_sync("buildah", *words, cwd=ROOT, env=ENVIRONMENT, seconds=PATIENCE_S)
    if fails:
        return done.err if done.code else ""
    check(done)
    return done.out


def said(text: str) -> str:
    return text.split()[-1]


def check(done: object) -> None:
    code, out, err = getattr(done, "code", 0), getattr(done, "out", ""), getattr(done, "err", "")
    if code:
        raise SystemExit(f"failed:\n{out[-3000:]}{err[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
