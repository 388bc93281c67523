"""The pages "Your first hub" and "Running a hub": every file and command does what is shown."""

import re
import shlex
import sys
import time
from contextlib import ExitStack

from click.testing import CliRunner

from accord.cli import main
from tests.cli.shell import found
from tests.docs.page import ROOT, blocks, commands
from tests.processes import Process, free_port, start, until_sync


def test_the_pages_can_be_followed_from_top_to_bottom(tmp_path, monkeypatch):
    """In a folder of its own, on other ports than those on the page."""
    monkeypatch.chdir(tmp_path)
    ports = {port: str(free_port()) for port in ("8080", "8001", "8002", "8003", "8004")}
    monkeypatch.setenv("ACCORD_HUB", f"http://127.0.0.1:{ports['8080']}")
    typed: list[str] = []
    began = time.monotonic()
    with ExitStack() as running:
        pages = (ROOT / "docs" / "hub.md", ROOT / "docs" / "running-a-hub.md")
        for language, text in (block for page in pages for block in blocks(page)):
            text = re.sub("|".join(ports), lambda match: ports[match[0]], text)
            if language == "python":
                (tmp_path / found(r"^# (\w+\.py)", text)).write_text(text)
                continue
            if not text.startswith("$"):
                continue  # reads a file that only the reader has, or installs
            for words, shown in commands(text):
                typed.append(shlex.join(words[1:3]))
                if words[0] == "python":
                    running.enter_context(start(sys.executable, *words[1:], cwd=tmp_path))
                    continue
                if words[1:] == ["hub"]:
                    words += ["--port", ports["8080"]]
                if words[1] == "serve" or words[1:3] == ["hub", "--port"]:
                    process: Process = running.enter_context(
                        start(sys.executable, "-m", *words, cwd=tmp_path)
                    )
                    line = process.line_sync()
                    assert not shown or line == shown[0]
                    continue
                check(words[1:], shown)
        print(f"\nfollowed {len(typed)} commands in {time.monotonic() - began:.1f} s")
    assert {"hub list", "hub find", "hub policy", "send"} <= {
        one.split(" http")[0] for one in typed
    }


def check(words: list[str], shown: list[str]) -> None:
    """Type a command until it shows what the page says: an agent that registers itself is there a
    moment after it is served.
    """

    def is_shown() -> bool:
        done = CliRunner().invoke(main, words)
        lines = iter(done.output.splitlines())
        return done.exit_code == 0 and all(
            any(
                re.fullmatch(".*".join(map(re.escape, line.split("..."))), other) for other in lines
            )
            for line in shown
        )

    until_sync(is_shown)


def test_the_reference_says_what_everything_is_for():
    """Options, settings, rules and routes: no row of a table is empty."""
    page = (ROOT / "docs" / "reference" / "hub.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []
