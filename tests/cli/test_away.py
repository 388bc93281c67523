"""accord send over a restart of the server: it waits, says so, and when it gives up says what to
type.
"""

import re
import shlex
import signal

import pytest

from tests.cli.bakery import Bakery

WAYS = pytest.mark.parametrize("way", [[], ["--stream"]], ids=["send", "stream"])


@pytest.fixture
def bakery(tmp_path):
    with Bakery(tmp_path) as bakery:
        yield bakery


@WAYS
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_restart_is_waited_for(bakery, way, how):
    """The answer comes from the server's next life, and the work is one task's."""
    sending = bakery.sent(*way)
    bakery.stop(how)
    assert "away, trying again" in sending.stderr.readline()
    bakery.start()
    bakery.rise()
    out, err = sending.communicate(timeout=60)
    assert (out.strip().endswith("bread"), "completed" in err, sending.returncode) == (
        True,
        True,
        0,
    )
    assert bakery.tasks() == 1


@WAYS
def test_what_to_type_after_giving_up(bakery, way):
    """The command it prints brings the answer of the work that was begun, and begins nothing."""
    sending = bakery.sent("--patience", "0.2", *way)
    bakery.stop(signal.SIGKILL)
    _, err = sending.communicate(timeout=60)
    assert sending.returncode == 1
    command = shlex.split(re.search(r"accord ((send|task) .*)", err)[1])
    assert command[:2] == (["task", "get"] if way else ["send", bakery.url])
    bakery.start()
    bakery.rise()
    again = bakery.done(*command)
    assert (again.stdout.strip(), again.returncode) == ("flour, bread", 0)
    assert bakery.tasks() == 1


def test_what_to_type_after_ctrl_c(bakery):
    """The agent goes on; so can whoever asked."""
    sending = bakery.sent("--stream")
    sending.send_signal(signal.SIGINT)
    _, err = sending.communicate(timeout=60)
    assert sending.returncode == 130
    bakery.rise()
    command = shlex.split(re.search(r"accord (task get .*)", err)[1])
    assert bakery.done(*command).stdout.strip() == "flour, bread"


def test_a_task_can_be_looked_at_and_stopped(bakery):
    sending = bakery.sent("--stream")
    sending.send_signal(signal.SIGINT)
    task_id = re.search(r"task get \S+ (\S+)", sending.communicate(timeout=60)[1])[1]
    assert "is working" in bakery.done("task", "get", bakery.url, task_id).stderr
    assert "is canceled" in bakery.done("task", "cancel", bakery.url, task_id).stderr
    assert (
        '"TASK_STATE_CANCELED"'
        in bakery.done("task", "get", bakery.url, task_id, "-o", "json").stdout
    )
    assert "accord task" in bakery.done("task", "--help").stdout
