"""The deadline of a question, as the command line shows it."""

import datetime
import json
import sys

import pexpect
import pytest
from click.testing import CliRunner

from accord.cli import main
from accord.cli.countdown import deadline_line
from tests.cli.shell import served

AGENT = """
from accord import Agent, Context

agent = Agent("Till")


@agent.skill
async def pay(text: str, ctx: Context) -> str:
    within = float(text)
    return f"paid: {await ctx.ask('Pay?', bool, within=within, default=False)}"
"""


@pytest.fixture
def url(tmp_path):
    (tmp_path / "till.py").write_text(AGENT)
    with served("till.py", "--store", "memory://", cwd=tmp_path) as (_, url):
        yield url


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (0.5, "0 s left"),
        (59.5, "59 s left"),
        (61.5, "1 min 1 s left"),
        (7200.5, "2 h left"),
        (172_800.5, "2 d left"),
        (176_400.5, "2 d 1 h left"),
        (-1, "the time is up"),
    ],
)
def test_how_much_time_is_left(seconds, left):
    expires_at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    assert deadline_line(expires_at).endswith(f"({left})")


def test_send_says_until_when_a_question_may_be_answered(url):
    result = CliRunner().invoke(main, ["send", url, "7200"])
    assert "answer until 20" in result.stderr
    assert "1 h 59 min left" in result.stderr


def test_lists_and_fields_say_it_too(url):
    """A list has the column only if a question in it has a deadline."""
    run = CliRunner().invoke
    assert "DEADLINE" not in run(main, ["task", "list", url]).stdout
    task = json.loads(run(main, ["send", url, "7200", "-o", "json"]).stdout)["task"]
    shown = run(main, ["task", "list", url]).stdout
    assert "DEADLINE" in shown
    assert "1 h 59 min left" in shown
    asked = task["status"]["message"]["metadata"]["urn:accord:question:1"]
    fields = run(main, ["task", "get", url, task["id"], "-o", "text"]).stdout
    assert f"Answer until: {asked['expiresAt']}\n" in fields
    assert "Answer until: 20" in run(main, ["send", url, "60", "--stream", "-o", "text"]).stdout
    run(main, ["send", url, "yes", "--task-id", task["id"]])
    assert "Answer until" not in run(main, ["task", "get", url, task["id"], "-o", "text"]).stdout


def test_in_a_chat_the_deadline_counts_down(url, tmp_path):
    chat = pexpect.spawn(
        sys.executable, ["-m", "accord", "chat", url], cwd=tmp_path, timeout=20, encoding="utf-8"
    )
    try:
        chat.expect("> ")
        chat.sendline("30")
        chat.expect("Pay\\?")
        chat.expect(r"\(29 s left\)")
        chat.expect(r"\(28 s left\)")
        chat.expect(r"\(27 s left\)")
        chat.sendline("yes")
        chat.expect("paid: True")
    finally:
        chat.close(force=True)
