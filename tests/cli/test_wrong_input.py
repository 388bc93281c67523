"""What commands say about an unknown id, a server that is away, and a value that is wrong."""

import re

import pytest

from tests.cli.shell import accord, served
from tests.hub.test_cli import hub_served

pytestmark = pytest.mark.usefixtures("alone")

AWAY = "http://127.0.0.1:9"
AGENT = """
from accord import Agent

agent = Agent("Echo")

@agent.skill
async def echo(text: str) -> str:
    '''Say it again.'''
    return text
"""
# The command, its exit code, and what to type next.
AT_AN_AGENT = [
    ("task get URL nope", 1, "accord task list URL"),
    ("task cancel URL nope", 1, "accord task list URL"),
    ("task subscribe URL nope", 1, "accord task list URL"),
    ("task watch URL nope", 1, "accord task list URL"),
    ("task download URL nope", 1, "accord task list URL"),
    ("task fork URL nope --at 1 --yes", 1, "accord task list URL"),
    ("task push-config list URL nope", 1, "accord task list URL"),
    ("task push-config get URL nope config", 1, "accord task list URL"),
    ("task push-config delete URL nope config", 1, "accord task list URL"),
    ("task push-config get URL nope", 2, "URL TASK_ID CONFIG_ID"),
    ("task push-config list URL", 2, "URL TASK_ID"),
    ("task get URL", 2, "URL TASK_ID"),
    ("task get URL nope --history many", 2, "'many' is not a whole number"),
    ("task list URL --status woking", 2, "Did you mean 'working'?"),
    ("task list URL --since soon", 2, "2h for two hours ago"),
    ("send URL hi --task-id nope", 1, "Leave out --task-id"),
    ("send URL hi --skill ech", 1, "this agent has echo"),
    ("send URL hi --metadata nojson", 2, "JSON object"),
    ("send URL", 2, "give a text"),
]
AT_A_HUB = [
    *((f"hub {verb} nope", 1, "accord hub list") for verb in ("show", "approve", "diff", "probe")),
    *((f"hub {verb} nope", 1, "accord hub list") for verb in ("check", "suspend", "resume")),
    ("hub set nope texts=follow", 1, "accord hub list"),
    ("hub policy try nope", 1, "accord hub list"),
    ("hub credential list nope", 1, "accord hub list"),
    ("hub key revoke nope", 1, "see which there are with: accord hub key list"),
    ("hub user remove nope", 1, "see which there are with: accord hub user list"),
    ("hub team remove nope", 1, "see which there are with: accord hub team list"),
    ("hub policy remove nope", 1, "see which there are with: accord hub policy list"),
    ("hub trust remove nope", 1, "see which there are with: accord hub trust list"),
    ("hub network remove nope", 1, "see which there are with: accord hub network list"),
    ("hub inbox --dismiss nope", 1, "see which there are with: accord hub inbox"),
    ("hub policy add allow nobody:x call *", 1, "who: 'nobody:x' is not one of anyone"),
    ("hub add", 2, "--from FILE"),
    (f"hub add {AWAY}", 1, f"accord card get {AWAY}"),
]
ALONE = [
    *(
        (f"{verb} {AWAY} --retry-max-time 0", 3, "accord serve FILE")
        for verb in ("card get", "mcp")
    ),
    *(
        (f"task {verb} {AWAY} 1 --retry-max-time 0", 3, "accord serve")
        for verb in ("get", "cancel")
    ),
    (f"send {AWAY} hi --retry-max-time 0", 3, "accord serve FILE"),
    (f"hub list --hub {AWAY}", 3, "accord hub"),
    (f"auth status {AWAY}", 1, "accord auth login"),
    (f"auth logout {AWAY}", 1, "accord auth status"),
    ("push list --store sqlite:///none.db", 1, "accord serve makes one"),
    ("db stats --store sqlite:///none.db", 1, "accord serve makes one"),
    ("db stats --store nonsense", 1, "sqlite:///"),
    ("key revoke nope --store sqlite:///keys.db", 1, "accord key list"),
    ("key new mia --expires soon", 2, "90d"),
    ("listen --port x", 2, "is not a whole number"),
    ("listen --host 203.0.113.7", 1, "--host"),
    ("init /proc/x", 1, "give another folder"),
    ("serve nofile.py", 1, "like hello.py"),
]


def check(words: str, code: int, way: str, *more: str) -> None:
    done = accord(*words.split(), *more)
    assert done.code == code, (words, done.err)
    assert way in done.err, (words, done.err)
    # No address of a request, and no words of the library.
    assert not re.search(r"Errno|/api/v1|\bGET |\bbody\b", done.err), (words, done.err)


def test_at_an_agent_every_error_says_what_to_type_next(tmp_path):
    (tmp_path / "echo.py").write_text(AGENT)
    with served("echo.py", "--store", "memory://", cwd=tmp_path) as (_, url):
        for words, code, way in AT_AN_AGENT:
            check(words.replace("URL", url), code, way.replace("accord task list URL", url))


def test_at_a_hub_every_error_says_what_to_type_next(tmp_path):
    with hub_served(tmp_path, "--no-console") as (_, url):
        for words, code, way in AT_A_HUB:
            check(words, code, way, "--hub", url)


@pytest.mark.parametrize(("words", "code", "way"), ALONE)
def test_every_error_says_what_to_type_next(words, code, way):
    check(words, code, way)
