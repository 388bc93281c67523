"""Numbers on the command line: what is no amount of time is refused before anything is done with
it.
"""

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from accord import Retention
from accord.cli import main
from accord.cli.amount import TIME
from accord.cli.structs import read_struct

URL = "http://127.0.0.1:9"  # where nobody is: who gets this far waits
NONE_TOO = {
    "--retry-max-time": ("send", URL, "hello"),
    "--grace": ("serve", "nowhere.py"),
    "--keep-days": ("serve", "nowhere.py"),
}
MORE = {"send": ("send", URL, "hello"), "task": ("task", "get", URL, "t")}


def refused(*args: str) -> str:
    done = CliRunner().invoke(main, args)
    assert (done.exit_code, done.exception.__class__) == (2, SystemExit)
    return done.output


@pytest.mark.parametrize("option", NONE_TOO)
@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "1e400", "-1", "-0.1", "soon", ""])
def test_a_time_that_is_none_is_refused_by_what_is_taken(option, value):
    """`nan` would end a wait at once or never, as the comparison falls; whoever typed it hears
    which option, and what to give.
    """
    unit = "days" if option == "--keep-days" else "seconds"
    said = refused(*NONE_TOO[option], option, value)
    assert f"'{option}': give a number of {unit}, 0 or more, like 30 or 2m30s; not {value}" in said


@pytest.mark.parametrize("verb", MORE)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "0", "-0.0", "soon"])
def test_a_timeout_in_which_nothing_can_happen_is_refused(verb, value):
    said = refused(*MORE[verb], "--timeout", value)
    assert (
        f"'--timeout': give a number of seconds, more than 0, like 30 or 2m30s; not {value}" in said
    )


@pytest.mark.parametrize("option", ["--port", "--grpc-port"])
@pytest.mark.parametrize("value", ["nan", "-1", "65536", "1.5"])
def test_a_port_that_is_none_is_refused(option, value):
    said = refused("serve", "nowhere.py", option, value)
    assert f"'{option}'" in said
    assert value in said


def test_no_patience_is_an_amount_of_it():
    """0: tried once. Fails for what is there, which is nobody."""
    done = CliRunner().invoke(
        main, ["send", URL, "hello", "--retry-max-time", "0", "--timeout", "1e300"]
    )
    assert done.exit_code == 3
    assert "no connection" in done.output


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000Z"),
        ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.000Z"),
    ],
)
def test_a_time_is_sent_as_the_protocol_writes_it(typed, sent):
    assert TIME.convert(typed, None, None) == sent


def test_a_time_can_be_said_as_how_long_ago():
    """Who looks for what failed this morning does not want to write a date."""
    now = datetime.now(UTC)
    asked = datetime.fromisoformat(TIME.convert("2h", None, None))
    assert timedelta(hours=1.9) < now - asked < timedelta(hours=2.1)


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01", "", "99999999w"])
def test_a_time_that_is_none_says_what_to_write(value):
    assert "is not a time; write 2026-03-01" in refused("task", "list", URL, "--since", value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tsk",), "Did you mean 'task'?"),
        (("help", "sned"), "Did you mean 'send'"),
        (("task", "lst"), "Did you mean 'list'"),
        (("task", "list", URL, "--status", "workng"), "Did you mean 'working'"),
        (("task", "list", "--sttus", "working"), "--status"),
        (("serve", "x.py", "--limits", "bdy=3"), "Did you mean 'body'"),
        (("serve", "x.py", "--retention", "evnts_s=3"), "Did you mean 'events_s'"),
        (("serve", "x.py", "--push", "chalenge=on"), "Did you mean 'challenge'"),
    ],
)
def test_a_slip_of_the_keyboard_is_named(words, says):
    assert says in refused(*words)


@pytest.mark.parametrize(("typed", "seconds"), [("90", 90), ("90s", 90), ("2h", 7200)])
def test_times_among_settings_are_read_like_all_others(typed, seconds):
    """Not as sizes: `2m` is two minutes there."""
    kept = read_struct(Retention, [f"events_s={typed}"], "--retention")
    assert kept.events_s == seconds
