"""What the suites on reliability promise of an agent holds of one behind a relay too."""

import sys
from pathlib import Path

import pytest

from tests.processes import run
from tests.reliability.harness import size

SUITES = Path(__file__).parents[1] / "reliability"
# A relay's work is taken up after a crash, where that of a plain skill is given up.
LEFT_OUT = "test_an_interrupted_task_is_the_answer_to_its_key"


@pytest.mark.skipif(not size(0, 1), reason="takes minutes: ACCORD_SOAK=1")
async def test_streams_keys_and_commits():
    names = ("test_streams.py", "test_once.py", "test_first.py", "test_stored_first.py")
    done = await run(
        *(sys.executable, "-m", "pytest", "-q", "-n0", "-k", f"not {LEFT_OUT}"),
        *(str(SUITES / name) for name in names),
        env={"ACCORD_TEST_AGENT": "relayed", "ACCORD_SOAK": ""},
        seconds=900,
    )
    assert done.code == 0, done.out[-4000:]
