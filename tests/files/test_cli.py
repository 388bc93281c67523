"""Large files on the command line: up and down, and shown to whoever watches."""

import asyncio
import io
import re
import sys
from pathlib import Path

import pytest

from accord import Context
from accord.cli import main
from tests.files.test_files import MB, agent_of, pattern, served


class Terminal(io.StringIO):
    """A terminal as the command line sees it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_watched", [True, False], ids=["terminal", "pipe"])
async def test_a_file_goes_up_and_down_with_a_line_that_is_written_over(
    is_watched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is a stranger's: it can't move the cursor. In a pipe there is no such line."""
    data = pattern(9 * MB)
    (tmp_path / "film\x1b[2J.bin").write_bytes(data)
    err = Terminal() if is_watched else io.StringIO()
    async with served(agent_of(auth=False)) as (_, url):
        words = ["send", url, "--file", str(tmp_path / "film\x1b[2J.bin"), "--skill", "echo"]
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", err)
            words += ["--save", str(tmp_path / "out")]
            await asyncio.to_thread(main.main, words, standalone_mode=False)
    [saved] = (tmp_path / "out").iterdir()
    assert saved.read_bytes() == data
    shown = re.findall(r"\r\x1b\[K(\w+) (\S+): (\d+) %", err.getvalue())
    assert {verb for verb, _, _ in shown} == ({"uploading", "fetching"} if is_watched else set())
    assert {name for _, name, _ in shown} <= {"film[2J.bin", "film_[2J.bin"}
    if is_watched:
        assert [share for verb, _, share in shown if verb == "fetching"][-1] == "100"


@pytest.mark.parametrize("options", [[], ["--stream"]], ids=["waiting", "live"])
async def test_a_file_that_the_agent_writes_in_pieces_is_saved_as_one(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = agent_of(auth=False)

    @agent.skill
    async def grow(text: str, ctx: Context) -> str:
        """Write a file piece by piece."""
        async with ctx.file("film.bin") as f:
            for n in range(6):
                await f.write(bytes([n]) * MB)
        return "done"

    async with served(agent) as (_, url):
        words = ["send", url, "now", "--skill", "grow", "--save", str(tmp_path / "out"), *options]
        await asyncio.to_thread(main.main, words, standalone_mode=False)
    [saved] = (tmp_path / "out").iterdir()
    assert saved.name == "film.bin"
    assert saved.read_bytes() == b"".join(bytes([n]) * MB for n in range(6))
    assert len(re.findall("^.application/octet-stream", capsys.readouterr().out, re.M)) == 1
