"""`make demo`, the first thing a new user runs: what it offers works, and it leaves nothing."""

import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.browser import chromium, needs_browser, page_of
from tests.processes import Process, run, run_sync, start, until

ROOT = Path(__file__).parent.parent
DEMO = (sys.executable, "-m", "examples.demo")
ENDED = "[data-announced=completed], [data-announced=input-required]"
AGENTS = ("hr", "it", "facilities", "onboardingpro", "trip-planner")


@contextlib.contextmanager
def running(*command: str) -> Iterator[tuple[Process, str]]:
    """The demo, once all it says is said."""
    with start(*command, cwd=ROOT) as process:
        lines = [process.line_sync()]
        while "until Ctrl-C" not in lines[-1]:
            lines.append(process.line_sync())
        try:
            yield process, "\n".join(line.rstrip("\n") for line in lines)
        finally:
            if process.returncode is None:
                process.stop_sync()


@pytest.fixture(scope="module")
def said() -> Iterator[str]:
    """What a demo says that runs."""
    with running(*DEMO) as (_, said):
        yield said


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"\nPPid:\t{pid}\n" in status.read_text():
                found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize(
    "shown",
    [
        "it/orderHardware",
        "When does Ada Lovelace start?",
        "input-required",
        "IT: laptop shipped",
        "7 artifacts   (completed)",
    ],
)
def test_it_walks_a_conversation_with_questions_and_a_stream(said: str, shown: str) -> None:
    assert shown in said


async def test_every_line_it_offers_works_as_typed(said: str) -> None:
    """And the line that an answer offers, for the next message."""
    typed = [line.strip() for line in said.splitlines() if re.match(r"  (accord|\.) ", line)]
    activate, *lines = typed
    assert len(lines) == 3
    for line in lines:
        done = await run("bash", "-c", f"{activate} && {line}")
        assert done.code == 0, (line, done.err)
    offered = re.search(r"answer with:  (.*)", done.err)
    assert offered is not None, done.err
    line = offered[1].replace('"..."', "2")
    done = await run("bash", "-c", f"{activate} && {line}")
    assert "Day 2: " in done.out, done.err


class Hub:
    """Where the demo's console is, for a page."""

    def __init__(self, said: str) -> None:
        found = re.search(r"(http://[\d.:]+)/console/\?key=\S+", said)
        assert found is not None, said
        self.link, self.url = found[0], found[1]


@needs_browser
async def test_the_question_it_leaves_and_its_examples_are_there_to_click(said: str) -> None:
    """Whoever opens the console may answer, and every example of its agents can be sent."""
    hub = Hub(said)
    async with chromium() as browser, page_of(browser, hub, place="inbox") as page:
        question = page.locator(".question", has_text="How many days").filter(
            has=page.locator("form")
        )
        await question.locator("input").fill("2")
        await question.locator("button[type=submit]").click()
        await question.wait_for(state="detached")
        await page.click(".rail >> text=Tasks")
        await page.click("text=A week in Oslo")
        await page.wait_for_selector("text=That is the plan for: A week in Oslo")
        for name in AGENTS:
            place = f"{hub.url}/console/chat?agent={name}"
            await page.goto(place)
            offered = page.locator(".chat .row button", has_text=re.compile("Ada|Rome"))
            await offered.first.wait_for()
            for n in range(await offered.count()):
                await page.click("text=New conversation")
                await offered.nth(n).click()
                await page.wait_for_selector(ENDED, state="attached")
                assert await page.locator("[role=alert]").count() == 0


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGTERM, DEMO),
        (signal.SIGINT, ("sh", "-c", f'trap "" INT; exec {shlex.join(DEMO)}')),
    ],
    ids=["SIGTERM", "SIGINT in the background"],
)
async def test_it_stops_what_it_started(number: signal.Signals, command: tuple[str, ...]) -> None:
    """A shell ignores SIGINT for what it starts in the background, and so did our children."""
    with running(*command) as (process, _):
        left = children_of(process.pid)
        assert len(left) == 2
        assert await process.stop(number) == 0
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


async def test_it_stops_what_it_started_while_it_starts() -> None:
    with start(*DEMO, cwd=ROOT) as process:
        await until(lambda: children_of(process.pid))
        left = children_of(process.pid)
        assert await process.stop(signal.SIGTERM) == 0
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))


@pytest.mark.parametrize("is_ours", [True, False], ids=["set up by make", "the user's"])
def test_an_environment_of_the_users_is_not_changed(tmp_path: Path, is_ours: bool) -> None:
    """The README has the user make .venv and install Accord there."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    if is_ours:
        stamp = tmp_path / ".venv" / ".run"
        stamp.touch()
        os.utime(stamp, (2**31, 2**31))
    done = run_sync("make", "--dry-run", "demo", f"VENV={tmp_path}/.venv", cwd=ROOT)
    assert done.code == 0, done.err
    commands = [line for line in done.out.splitlines() if str(tmp_path) in line]
    runs = [f"{tmp_path}/.venv/bin/python -m examples.demo"]
    assert commands == (runs if is_ours else [])
