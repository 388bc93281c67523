"""The harness itself: what tests rely on when they start processes."""

import ast
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from tests.processes import Ended, fork, run, run_sync, start, until, until_sync

ROOT = Path(__file__).parents[2]
ECHO = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print(line.upper(), end="", flush=True)
"""
ENDLESS = """
import signal
print(signal.getsignal(signal.SIGINT).__name__, flush=True)
while True:
    signal.pause()
"""


async def test_lines_are_waited_for_and_input_is_read():
    with start(sys.executable, "-c", ECHO, has_stdin=True) as process:
        assert await process.line() == "ready"
        process.write("hello\n")
        assert await process.line() == "HELLO"
    assert process.returncode == -signal.SIGKILL


async def test_a_process_that_ends_too_early_shows_what_it_wrote():
    with (
        start(sys.executable, "-c", "import sys; sys.exit('no luck')") as process,
        pytest.raises(Ended, match=r"ended with 1[^$]*no luck"),
    ):
        await process.line()


async def test_stop_and_kill_end_a_process():
    with start(sys.executable, "-c", ENDLESS) as process:
        assert await process.line() == "default_int_handler"
        assert await process.stop() == -signal.SIGTERM
    with start(sys.executable, "-c", ENDLESS) as process:
        process.kill()
        assert process.returncode == -signal.SIGKILL


async def test_a_process_that_does_not_stop_is_killed_and_that_is_a_failure():
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS
    with start(sys.executable, "-c", deaf) as process:
        await process.line()
        with pytest.raises(AssertionError, match=r"waited 0.2 s in vain: end of process"):
            await process.stop(seconds=0.2)
        assert process.returncode == -signal.SIGKILL


async def test_a_program_is_run_to_its_end():
    code = "import sys; print('x' * 300_000); sys.stderr.write('oh'); sys.exit(3)"
    for done in (run_sync(sys.executable, "-c", code), await run(sys.executable, "-c", code)):
        assert (done.code, len(done.out), done.err) == (3, 300_001, "oh")


async def test_a_script_is_forked_with_what_a_new_process_has(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys\nprint(__name__, sys.argv[1:], os.environ['WORD'], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    log = tmp_path / "log"
    with fork(script, "a", "b", log=log, env={"WORD": "hi"}) as process:
        assert await process.wait() == -signal.SIGINT
    said = log.read_text()
    assert said.startswith("__main__ ['a', 'b'] hi\n")
    assert "KeyboardInterrupt" in said


def test_only_this_package_starts_processes():
    """One harness: elsewhere output would be lost, or a process would outlive its test."""
    ways = ("subprocess", "create_subprocess_exec", "create_subprocess_shell")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path.parent.name != "processes"
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(name.name in ways for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module in ways)
        or (isinstance(node, ast.Attribute) and node.attr in ways)
    }
    assert found == set()


async def test_waiting_in_vain_names_what_was_waited_for():
    with pytest.raises(AssertionError, match=r"waited 0.01 s in vain: rain"):
        await until(lambda: False, "rain", seconds=0.01)
    with pytest.raises(AssertionError, match=r"waited 0.01 s in vain: .*<lambda>"):
        until_sync(lambda: False, seconds=0.01)


FAILING = """
    import signal, sys
    from tests.processes import start

    def test_one():
        with start(sys.executable, "-c", "print('what the server said')") as process:
            process.wait_sync()
            assert False, "the reason"

    def test_two():
        with start(sys.executable, "-c", "import signal; signal.pause()") as process:
            process.send_signal(signal.SIGINT)
            assert process.wait_sync() in (1, -signal.SIGINT)
"""


def ignore_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_reports_are_complete_when_the_tests_were_started_with_sigint_ignored(tmp_path):
    """As in `sh -c 'trap "" INT; make test'` or in the background of a script: Ctrl-C works in what
    the tests start, and what a process wrote is in the report of the test that failed.
    """
    (tmp_path / "test_failing.py").write_text(textwrap.dedent(FAILING))
    done = run_sync(
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml"),
        *("--rootdir", ROOT, "-p", "tests.conftest", tmp_path / "test_failing.py"),
        cwd=ROOT,
        prepare=ignore_sigint,
    )
    assert done.code == 1, done.err
    assert "1 failed, 1 passed" in done.out
    assert "the reason" in done.out
    assert "what the server said" in done.out
    assert "(ended with 0)" in done.out
