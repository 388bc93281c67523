"""Numbers on the command line: what is no amount of time is refused before anything is done with
it.
"""

import pytest
from click.testing import CliRunner

from accord.cli import main

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
