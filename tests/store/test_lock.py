"""One file, one process: who holds it is said, also when that is no longer the one who took it."""

import fcntl
import sys

import pytest

from accord.store.sqlite.files import hold
from tests.processes import start


def test_a_lock_that_outlives_its_process_is_not_blamed_on_it(tmp_path):
    """Stopping the process that is named would change nothing: it has ended, and a child of it
    holds the file.
    """
    with start(sys.executable, "-c", "") as ended:
        ended.wait_sync()
    with (tmp_path / "t.db-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(f"{ended.pid}\n")
        lock.flush()
        with pytest.raises(
            RuntimeError, match=f"in use by a child of process {ended.pid}, which has ended"
        ):
            hold(tmp_path / "t.db")
    hold(tmp_path / "t.db").close()
