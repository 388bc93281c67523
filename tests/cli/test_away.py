"""accord send over a restart of the server: it waits, says so, and when it gives up says what to
type.
"""

import shlex
import signal

import pytest

from tests.cli.bakery import Bakery
from tests.cli.shell import found
from tests.processes import until_sync

WAYS = pytest.mark.parametrize("way", [[], ["--stream"]], ids=["send", "stream"])


@pytest.fixture
def bakery(tmp_path):
    with Bakery(tmp_path) as bakery:
        yield bakery


@pytest.mark.parametrize(
    ("way", "how"),
    [([], signal.SIGKILL), (["--stream"], signal.SIGTERM)],
    ids=["send-killed", "stream-stopped"],
)
def test_a_restart_is_waited_for(bakery, way, how):
    """TASK_POLL_004: the answer comes from the next process, and the work is one task."""
    sending = bakery.sent(*way)
    bakery.stop(how)
    until_sync(lambda: "away, trying again" in sending.err.text, "the word that it waits")
    bakery.start()
    bakery.rise()
    assert sending.wait_sync() == 0
    assert sending.out.text.strip().endswith("bread")
    assert "completed" in sending.err.text
    assert bakery.tasks() == 1


def test_a_fork_goes_on_after_its_server_was_killed(bakery):
    """The forked task runs meanwhile, and goes on too."""
    sending = bakery.sent("--stream")
    begun = {path.name.removeprefix("begun-") for path in bakery.folder.glob("begun-*")}
    (task_id,) = begun
    forking = bakery.typed("task", "fork", bakery.url, task_id, "--at", "3", "--yes")
    bakery.until_begun(2)
    bakery.stop(signal.SIGKILL)
    bakery.start()
    bakery.rise()
    assert forking.wait_sync() == 0
    assert forking.out.text.strip() == "flour, bread"
    assert sending.wait_sync() == 0
    assert bakery.tasks() == 2


@WAYS
def test_what_to_type_after_giving_up(bakery, way):
    """The command it prints brings the answer of the work that was begun, and begins nothing."""
    sending = bakery.sent("--retry-max-time", "0.2", *way)
    bakery.stop(signal.SIGKILL)
    assert sending.wait_sync() == 3
    command = shlex.split(found(r"accord ((?:send|task) .*)", sending.err.text))
    assert command[:2] == ["task", "get"]
    bakery.start()
    bakery.rise()
    again = bakery.done(*command)
    assert (again.out.strip(), again.code) == ("flour, bread", 0)
    assert bakery.tasks() == 1


def test_what_to_type_after_ctrl_c(bakery):
    """TASK_POLL_002: the agent goes on; so can whoever asked."""
    sending = bakery.sent("--stream")
    assert sending.stop_sync(signal.SIGINT) == 130
    bakery.rise()
    command = shlex.split(found(r"accord (task get .*)", sending.err.text))
    assert bakery.done(*command).out.strip() == "flour, bread"


def test_a_task_can_be_looked_at_and_stopped(bakery):
    sending = bakery.sent("--stream")
    sending.stop_sync(signal.SIGINT)
    task_id = found(r"task get \S+ (\S+)", sending.err.text)
    assert "is working" in bakery.done("task", "get", bakery.url, task_id).err
    assert "is canceled" in bakery.done("task", "cancel", bakery.url, task_id).err
    assert (
        '"TASK_STATE_CANCELED"' in bakery.done("task", "get", bakery.url, task_id, "-o", "json").out
    )
    assert "accord task" in bakery.done("task", "--help").out
