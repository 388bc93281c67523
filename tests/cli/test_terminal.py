"""What strangers write can't control a terminal, whichever command prints it."""

import asyncio
import json
import re

from click.testing import CliRunner

from accord.cli import main
from accord.cli.terminal import clean, echo, style
from tests.client.peers import answer, card, scripted, sse, task

NOISE = "\x1b]0;pwned\x07\x1b[2J\x9b\u202e"
OUR_STYLES = re.compile(r"\x1b\[\d+m")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def noisy(value):
    """The same with noise in every text, except where a program has to understand it."""
    known = r"https?:|TASK_STATE_|ROLE_|JSONRPC$|\d\.\d$|text/|eHh4"
    if isinstance(value, dict):
        return {name: noisy(one) for name, one in value.items()}
    if isinstance(value, list):
        return [noisy(one) for one in value]
    return value + NOISE if isinstance(value, str) and not re.match(known, value) else value


def stranger(request):
    """An agent, and a hub, that write noise into all they say."""
    if request.path.startswith("/api/v1/"):
        row = {"id": "i", "name": "n", "n": 1, "who": "mia", "did": "refused", "what": "GET /x"}
        if request.path.endswith("/keys"):
            return answer(noisy({"error": {"message": "not for you", "fix": "ask"}}), 403)
        rows = [row | {"detail": "d", "kind": "k", "agent": "a", "said": "s", "description": "d"}]
        return answer(noisy({"rows": rows, "alerts": rows, "teams": rows}))
    if request.verb == "GET":
        url = f"http://{request.headers['host']}/"
        scheme = {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}}
        return answer(noisy(card(url)) | {"securitySchemes": {f"k{NOISE}": scheme["k"]}})
    asked = request.json
    said = json.dumps(asked["params"])
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    state = "INPUT_REQUIRED" if "question" in said else "COMPLETED"
    parts = [
        {"text": "t"},
        {"data": {"a": "b"}},
        {"raw": "eHh4eA==", "filename": "f", "mediaType": "text/plain"},
        {"url": "u", "filename": "g"},
    ]
    made = task(
        state,
        status={"state": f"TASK_STATE_{state}", "message": message},
        artifacts=[{"artifactId": "a", "name": "n", "parts": parts}],
        history=[message],
    )
    envelope = {"jsonrpc": "2.0", "id": asked["id"]}
    if "wrong" in said:
        return answer(envelope | {"error": {"code": -32000, "message": f"oops{NOISE}"}})
    if asked["method"] == "SendStreamingMessage":
        return sse(envelope | {"result": {"task": noisy(made)}})
    if asked["method"] == "ListTasks":
        found = {"tasks": [made], "nextPageToken": "p", "pageSize": 1, "totalSize": 2}
        return answer(envelope | {"result": noisy(found)})
    is_task = asked["method"] in ("GetTask", "CancelTask")
    return answer(envelope | {"result": noisy(made if is_task else {"task": made})})


COMMANDS = [
    *(f"{verb} -o {form}" for form in ("answer", "text", "json") for verb in (
        "card get URL",
        "card get URL --extended",
        "send URL hello",
        "send URL question",
        "send URL hello --stream",
        "send URL wrong",
        "task get URL t",
        "task get URL wrong",
        "task list URL",
        "task cancel URL t",
        "task download URL t --force",
    )),
    "send URL hello --debug",
    "chat URL hello",
    "chat URL question",
    "card verify URL",
    "check URL",
    "doctor URL",
    "auth login URL --with device --client-id me",
    *(f"hub {verb} --hub URL -o {form}" for form in ("text", "json") for verb in (
        "audit",
        "inbox",
        "team list",
        "key list",
    )),
]  # fmt: skip


async def test_no_command_prints_control_characters_of_a_stranger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_LOGINS", str(tmp_path / "logins.json"))
    async with scripted(stranger) as server:
        for command in COMMANDS:
            words = command.replace("URL", server.url).split()
            runner = CliRunner()
            done = await asyncio.to_thread(runner.invoke, main, words, color=True)
            assert done.exception is None or isinstance(done.exception, SystemExit), command
            assert done.exit_code != 2, (command, done.output)
            shown = OUR_STYLES.sub("", done.output)
            assert shown, command
            assert not CONTROLS.search(shown), (command, shown)
    names = [path.name for path in tmp_path.iterdir()]
    assert names
    assert not any(CONTROLS.search(name) for name in names)


async def test_json_keeps_what_it_escapes(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCORD_LOGINS", str(tmp_path / "logins.json"))
    async with scripted(stranger) as server:
        words = ["card", "get", server.url, "-o", "json"]
        done = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert json.loads(done.stdout)["name"] == f"Dock clerk{NOISE}"


def test_tabs_line_ends_and_our_own_looks_stay(capsys):
    assert clean("a\x1b[31mb\x07\x9b\tc\nd\r\u202ee") == "a[31mb\tc\nde"
    echo("a\x1b[31m", style("b\x1b[2J", bold=True))
    assert capsys.readouterr().out in ("a[31mb[2J\n", "a[31m\x1b[1mb[2J\x1b[0m\n")
