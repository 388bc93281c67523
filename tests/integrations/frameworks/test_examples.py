"""The examples of frameworks: each is short, and is an agent by itself."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord import connect
from accord.cli.load import load_agent

from .installed import FRAMEWORKS, INSTALLED, is_installed

EXAMPLES = Path(__file__).parents[3] / "examples" / "frameworks"
MODULES = {
    "ag2": "ag2.config.openai",
    "agent_framework": "agent_framework_openai",
}  # what an example needs beside the framework itself

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ImportWarning"),
]


@pytest.fixture(autouse=True)
def folders() -> Iterator[None]:
    """A file is imported from its folder, which is forgotten afterwards."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_example_has_at_most_fifteen_lines_of_code(name: str) -> None:
    lines = (EXAMPLES / f"{name}_agent.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 15


@pytest.mark.parametrize(
    "name", [name for name in INSTALLED if name not in MODULES or is_installed(MODULES[name])]
)
async def test_an_example_is_an_agent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")  # some models want one to be made
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    which = ":crew" if name == "crewai" else ""  # a crew has agents beside it
    agent = load_agent(f"{EXAMPLES}/{name}_agent.py{which}")
    assert agent.name in ("Booker", "Trip planner", "flow")
    async with connect(agent) as client:
        assert [skill.id for skill in client.card.skills] == ["ask"]
        if name in ("langgraph", "llama_index"):  # which need no model
            reply = await client.send("Rome")
            assert reply.question == "How many days in Rome?"
            assert "3 days" in (await reply.answer("3")).text
