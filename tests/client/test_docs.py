"""The page about the client says what is so: its examples are run as they stand."""

import re
import textwrap
from pathlib import Path

import pytest

from accord import connect
from accord.testing import Ask, FakeAgent

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if "connect_sync" not in e], ids=lambda e: e.split("\n")[0]
)
async def test_examples_run(example, capsys):
    """Each block works with an agent that answers, asks once, and answers again."""
    async with (
        FakeAgent("Two days", Ask("How many days?"), "Three days") as fake,
        connect(fake.url) as trip,
    ):
        names: dict = {"trip": trip, "connect": connect, "input": lambda question: "3"}
        body = example.replace("http://localhost:8000", fake.url)
        exec(f"async def run():\n{textwrap.indent('global reply' + chr(10) + body, '    ')}", names)
        await names["run"]()


def test_the_example_without_await_runs(capsys):
    """The same for the client that waits."""
    [example] = [e for e in EXAMPLES if "connect_sync" in e]
    fake = FakeAgent("Two days")
    exec(example.replace('"http://localhost:8000"', "fake"), {"fake": fake})
    assert capsys.readouterr().out.startswith("Two days\nTask(")
