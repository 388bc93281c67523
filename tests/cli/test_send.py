"""accord send and accord task, as a program and as a person uses them. Ids of the A2A command line
specification (0.2) in docstrings name what a test proves; see docs/cli-compliance.md.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.plain_server import serving_json
from tests.cli.shell import found, served
from tests.processes import start, until_sync

HERE = Path(__file__).parent
LABELS = re.compile(r"(Event|Task|Context|State|Updated|Resume|Next page token|Saved): \S.*")
BLOCKS = ("Message:", "Status message:", "Artifact text:", "Artifact data:", "Artifact file:")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clerk")
    with served(
        str(HERE / "scripted.py"), "--store", "memory://", "--allow-host", "127.0.0.1", cwd=folder
    ) as (_, url):
        yield url


pytestmark = pytest.mark.usefixtures("alone")


def accord(*words, code=0, given=None):
    done = CliRunner().invoke(main, words, input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done


def answer(*words, **options):
    return json.loads(accord(*words, "-o", "json", **options).stdout)


# Sending


def test_a_message_is_sent_and_its_answer_printed(url):
    """SEND_001, INTERACT_003: no id of the server's is made up."""
    sent = accord("send", url, "Ada", "--debug")
    assert sent.stdout == "text:'Ada'::\n"
    assert "is completed" in sent.stderr
    message = json.loads(next(re.finditer(r"^# > (\{.*)$", sent.stderr, re.M))[1])["params"][
        "message"
    ]
    assert message["messageId"]
    assert message["role"] == "ROLE_USER"
    assert not {"taskId", "contextId"} & set(message)


def test_parts_are_sent_as_typed_and_in_their_order(url, tmp_path):
    """SEND_005, SEND_006"""
    (tmp_path / "d.bin").write_bytes(b"%PDF")
    (tmp_path / "limits.json").write_text('{"max": 60}')
    words = ["--text", "first", "-f", "d.bin", "--media-type", "application/pdf",
             "--file=https://files.example/l.csv", "--data", "limits.json", "--data", "-",
             "--text=--file", "-f", "d.bin"]  # fmt: skip
    shown = accord("send", url, "zero", *words, given='{"a": 1}').stdout
    assert shown.splitlines() == [
        "text:'zero'::",
        "text:'first'::",
        "file:b'%PDF':d.bin:application/pdf",
        "link:'https://files.example/l.csv':l.csv:text/csv",
        "data:{'max': 60}::application/json",
        "data:{'a': 1}::application/json",
        "text:'--file'::",
        "file:b'%PDF':d.bin:application/octet-stream",
    ]


def test_the_text_can_come_from_standard_input(url):
    assert accord("send", url, "-", given="a\nb").stdout == "text:'a\\nb'::\n"


def test_a_skill_and_its_parameters_can_be_named(url):
    assert accord("send", url, "--skill", "add", "--data", '{"a": 40}').stdout == "42\n"


def test_an_answer_without_a_task(url):
    """SEND_003: nothing is waited for."""
    for way in ([], ["--stream"]):
        assert accord("send", url, "Ada", "--skill", "hello", *way).stdout == "Hello, Ada!\n"
    said = answer("send", url, "Ada", "--skill", "hello")
    assert said["message"]["parts"] == [{"text": "Hello, Ada!"}]


def test_no_part_of_an_answer_is_lost(url, tmp_path):
    """SEND_004, TASK_GET_001"""
    sent = accord("send", url, "x", "--skill", "files", "--save", "got")
    for word in ("a text", '"crates": 42', "list.pdf, 4 bytes", "https://files.example/big.bin"):
        assert word in sent.stdout
    assert (tmp_path / "got" / "list.pdf").read_bytes() == b"%PDF"
    assert [path.name for path in tmp_path.iterdir()] == ["got"]
    task = answer("send", url, "x", "--skill", "files")["task"]
    parts = task["artifacts"][0]["parts"]
    assert [next(iter(part)) for part in parts] == ["text", "data", "raw", "url"]
    assert answer("task", "get", url, task["id"])["artifacts"] == task["artifacts"]
    assert len(answer("task", "get", url, task["id"], "--history", "1")["history"]) == 1
    assert "history" not in answer("task", "get", url, task["id"], "--history", "0")


# The state of a task


@pytest.mark.parametrize(("skill", "state", "word"), [
    ("fail", "TASK_STATE_FAILED", "is failed"),
    ("reject", "TASK_STATE_REJECTED", "is rejected"),
    ("ask", "TASK_STATE_INPUT_REQUIRED", "is input-required"),
    ("park", "TASK_STATE_AUTH_REQUIRED", "is auth-required"),
])  # fmt: skip
@pytest.mark.parametrize("way", [[], ["--stream"]], ids=["send", "stream"])
def test_the_outcome_is_not_the_exit_code(url, skill, state, word, way):
    """EXIT_002, TASK_POLL_003, AUTH_011: 0 for every turn that was conducted; what came of it is
    said on stderr.
    """
    assert word in accord("send", url, "x", "--skill", skill, *way).stderr
    sent = accord("send", url, "x", "--skill", skill, "-o", "json", *way)
    assert state in sent.stdout.splitlines()[-1] or state in sent.stdout
    assert f"Warning: task {'is waiting' if 'REQ' in state else 'ended'} in {state}" in sent.stderr
    accord("send", url, "x", "--skill", skill, "--exit-status", *way, code=1)


def test_a_completed_task_has_exit_status_0(url):
    accord("send", url, "x", "--exit-status")
    accord("send", url, "x", "--skill", "hello", "--exit-status")


def test_a_question_is_answered_with_what_is_printed(url):
    """INTERACT_002, INTERACT_004"""
    asked = accord("send", url, "List", "--skill", "ask")
    assert asked.stdout == "Which day?\n"
    task_id = re.search(r'send \S+ "\.\.\." --task-id (\S+)', asked.stderr)[1]
    assert accord("send", url, "Monday", "--task-id", task_id).stdout == "List on Monday\n"
    again = answer("send", url, "Tuesday", "--task-id", task_id, code=1)["error"]
    assert again["code"] == "UnsupportedOperationError"
    assert "--debug" in again["hint"]


def test_a_conversation_goes_on_in_its_context(url):
    """INTERACT_001"""
    first = answer("send", url, "one")["task"]
    second = answer("send", url, "two", "--context-id", first["contextId"])["task"]
    assert first["contextId"] == second["contextId"]
    assert first["id"] != second["id"]


def test_ids_that_do_not_belong_together_are_refused(url):
    """INTERACT_002: nothing is repaired, nothing is made instead."""
    task = answer("send", url, "x", "--skill", "ask")["task"]
    before = len(answer("task", "list", url, "--all")["tasks"])
    wrong = answer("send", url, "y", "--task-id", task["id"], "--context-id", "other", code=1)
    assert wrong["error"]["code"] == "InvalidParamsError"
    unknown = answer("send", url, "y", "--task-id", "nowhere", code=1)["error"]
    assert (unknown["code"], unknown["a2aCode"]) == ("TaskNotFoundError", -32001)
    assert len(answer("task", "list", url, "--all")["tasks"]) == before


def test_work_can_be_left_and_come_back_to(url, tmp_path):
    """SEND_002, OUT_006, TASK_POLL_001, TASK_POLL_002: --async returns at once, --wait waits."""
    flag = tmp_path / "go"
    task = answer("send", url, str(flag), "--skill", "wait", "--async")["task"]
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    assert {"id", "contextId"} <= set(task)
    late = answer("task", "get", url, task["id"], "--wait", "--timeout", "300ms", code=5)["error"]
    assert late["code"] == "A2ACLI_ERR_TIMEOUT"
    assert f"task get {url} {task['id']} --wait" in late["hint"]
    flag.touch()
    done = answer("task", "get", url, task["id"], "--wait", "--poll-interval", "20ms")
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "is completed" in accord("task", "get", url, task["id"]).stderr


# JSON


def test_json_is_one_document_or_one_object_per_line(url):
    """OUT_001, OUT_002, OUT_003"""
    one = accord("send", url, "Ada", "-o", "json")
    assert set(json.loads(one.stdout)) == {"task"}
    lines = accord("send", url, "Ada", "-o", "json", "--stream").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert all(len(event) == 1 for event in events)
    assert "task" in events[0]
    assert next(iter(events[-1].values()))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(("words", "name", "code"), [
    (["send"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "x", "--stream", "--async"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "--media-type", "text/csv", "--text", "x"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "--file", "nowhere.txt"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "--data", "{"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "x", "--metadata", "[]"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "x", "--svc-param", "nocolon"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "x", "--transport", "carrier-pigeon"], "A2ACLI_ERR_USAGE", 2),
    (["send", "URL", "x", "--continue"], "A2ACLI_ERR_USAGE", 2),
    (["task", "get", "URL"], "A2ACLI_ERR_USAGE", 2),
    (["task", "get", "URL", "t", "--poll-interval", "0"], "A2ACLI_ERR_USAGE", 2),
    (["frobnicate"], "A2ACLI_ERR_USAGE", 2),
    (["send", "http://127.0.0.1:9", "x", "--retry-max-time", "0"], "A2ACLI_ERR_UNREACHABLE", 3),
    (["send", "URL/nowhere/card.json", "x"], "A2ACLI_ERR_CARD_NOT_FOUND", 3),
    (["send", "./broken.json", "x"], "A2ACLI_ERR_CARD_INVALID", 1),
    (["send", "./missing.json", "x"], "A2ACLI_ERR_CARD_NOT_FOUND", 3),
    (["send", "URL", "x", "--a2a-version", "2.0"], "VersionNotSupportedError", 1),
    (["task", "get", "URL", "nowhere"], "TaskNotFoundError", 1),
    (["task", "cancel", "URL", "nowhere"], "TaskNotFoundError", 1),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)  # fmt: skip
def test_errors_have_the_codes_of_the_specification(url, tmp_path, words, name, code):
    """OUT_004, EXIT_001, INTERACT_005, VER_001"""
    (tmp_path / "broken.json").write_text("{")
    done = accord(*(word.replace("URL", url) for word in words), "-o", "json", code=code)
    (line,) = done.stdout.splitlines()
    error = json.loads(line)["error"]
    assert (error["code"], set(error)) == (name, {"code", "message", "hint", "a2aCode"})
    assert error["message"]


@pytest.mark.parametrize(("binding", "number"), [("jsonrpc", -32001), ("rest", 404)])
def test_an_error_has_the_same_name_over_every_binding(url, binding, number):
    """OUT_004, TX_001, TX_002, TX_004"""
    error = answer("task", "get", url, "nowhere", "--transport", binding, code=1)["error"]
    assert (error["code"], error["a2aCode"]) == ("TaskNotFoundError", number)


def test_a_transport_that_is_not_offered_is_passed_over(url):
    """TX_002: the first wish that the card has; without one, the card's order."""
    wire = accord("send", url, "x", "--transport", "grpc", "--transport", "rest", "--debug").stderr
    assert "/message:s" in wire
    assert "a2a-version: 1.0" in wire.lower()
    wire = accord("send", url, "x", "--transport", "grpc", "--debug").stderr
    assert '"jsonrpc"' in wire


def test_a_state_that_says_nothing_is_waited_through(tmp_path):
    """TASK_POLL_003: of an agent that does not stream, and whose task is UNSPECIFIED at first."""
    states = iter(["UNSPECIFIED", "UNSPECIFIED", "COMPLETED"])
    asked = []

    def reply(path, given):
        if given is None:
            return card if path.endswith("agent-card.json") else None
        asked.append(given["method"])
        task = {"id": "t1", "contextId": "c1",
                "status": {"state": f"TASK_STATE_{next(states, 'COMPLETED')}"}}  # fmt: skip
        result = {"task": task} if given["method"] == "SendMessage" else task
        return {"jsonrpc": "2.0", "id": given["id"], "result": result}

    with serving_json(reply) as place:
        card = {
            "name": "Vague", "description": "Vague", "version": "1", "skills": [],
            "supportedInterfaces": [
                {"url": f"{place}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
            "capabilities": {}, "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
        }  # fmt: skip
        sent = answer("send", place, "x", "--poll-interval", "0.01")
    assert sent["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert asked[0] == "SendMessage"
    assert asked.count("GetTask") >= 2


def test_every_form_names_task_context_and_state(url):
    """OUT_001: the answer alone on stdout has them on stderr."""
    sent = accord("send", url, "Ada")
    task = found(r"task (\S+) is completed\ncontext \S+\n", sent.stderr)
    assert sent.stdout == "text:'Ada'::\n"
    assert task
    labels = {
        line.partition(":")[0]
        for line in accord("send", url, "x", "-o", "text").stdout.splitlines()
    }
    assert {"Task", "Context", "State"} <= labels
    told = answer("send", url, "x")["task"]
    assert told["id"]
    assert told["contextId"]
    assert told["status"]["state"] == "TASK_STATE_COMPLETED"


# Fields


@pytest.mark.parametrize("skill", ["files", "hello", "ask", "fail", "echo"])
@pytest.mark.parametrize("way", [[], ["--stream"]], ids=["send", "stream"])
def test_fields_are_a_line_each_and_texts_are_blocks(url, skill, way):
    """The text form: OUT_005. Its grammar holds for whatever an agent writes."""
    text = "\x1b[31mred\n\nTask: forged\n"
    shown = accord("send", url, text, "--skill", skill, "-o", "text", *way).stdout
    assert "\x1b" not in shown
    is_block = False
    for line in shown.splitlines():
        if is_block:
            assert line == "" or line.startswith("  ")
            is_block = line != ""
        elif line in BLOCKS:
            is_block = True
        else:
            assert LABELS.fullmatch(line), line
    assert not is_block
    assert skill == "hello" or {"Task", "Context", "State"} <= {
        line.partition(":")[0] for line in shown.splitlines()
    }


# Tasks


def test_tasks_are_listed_in_pages_and_by_state_and_context(url):
    """TASK_LIST_001"""
    made = [answer("send", url, "a")["task"]]
    context = made[0]["contextId"]
    made += [answer("send", url, "b", "--context-id", context)["task"] for _ in range(2)]
    asked = answer("send", url, "b", "--context-id", context, "--skill", "ask")["task"]
    first = answer("task", "list", url, "--context-id", context, "--page-size", "3")
    assert len(first["tasks"]) == 3
    rest = answer("task", "list", url, "--context-id", context, "--page-size", "3",
                  "--page-token", first["nextPageToken"])  # fmt: skip
    found = {task["id"] for task in first["tasks"] + rest["tasks"]}
    assert found == {task["id"] for task in [*made, asked]}
    open_ = accord("task", "list", url, "--context-id", context, "--status", "input-required")
    assert [line.split()[:2] for line in open_.stdout.splitlines()[1:]] == [
        [asked["id"], "input-required"]
    ]
    done = accord("task", "list", url, "--context-id", context, "--status", "completed")
    answers = {line.split()[3] for line in done.stdout.splitlines()[1:]}
    assert answers == {"text:'a'::", "text:'b'::"}
    lines = accord("task", "list", url, "--context-id", context, "--all", "-o", "json", "--stream")
    assert {json.loads(line)["id"] for line in lines.stdout.splitlines()} == found


@pytest.mark.parametrize("name", ["watch", "subscribe"])
def test_a_task_can_be_followed(url, tmp_path, name):
    """TASK_SUBSCRIBE_001"""
    flag = tmp_path / "go"
    task = answer("send", url, str(flag), "--skill", "wait", "--async")["task"]
    until_sync(lambda: "begun" in accord("task", "get", url, task["id"]).stdout, "the first chunk")
    words = ("task", name, url, task["id"], "--stream", "-o", "json")
    with start(sys.executable, "-m", "accord", *words, cwd=tmp_path) as watching:
        assert json.loads(watching.line_sync())["task"]["id"] == task["id"]
        flag.touch()
        assert watching.wait_sync() == 0
        assert "TASK_STATE_COMPLETED" in watching.out.text.splitlines()[-1]
    over = answer("task", name, url, task["id"], code=1)["error"]
    assert over["code"] == "UnsupportedOperationError"
    assert "task get" in over["message"]


def test_what_a_task_made_can_be_saved(url, tmp_path):
    """DOWNLOAD_001: names of strangers stay in the folder."""
    task = answer("send", url, "x", "--skill", "files")["task"]
    outside = tmp_path / "outside"
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "list.pdf").symlink_to(outside)
    done = accord("task", "download", url, task["id"], "--dir", "got")
    assert {path.name for path in (tmp_path / "got").iterdir()} == {
        "list.pdf", "list (1).pdf", "everything.txt", "everything.json"
    }  # fmt: skip
    assert not outside.exists()
    assert (tmp_path / "got" / "list (1).pdf").read_bytes() == b"%PDF"
    assert "https://files.example/big.bin" in done.stderr


def test_a_task_can_be_cancelled_and_a_finished_one_says_so(url, tmp_path):
    """TASK_CANCEL_001"""
    task = answer("send", url, str(tmp_path / "never"), "--skill", "ask")["task"]
    canceled = answer("task", "cancel", url, task["id"])
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    done = answer("send", url, "x")["task"]
    error = answer("task", "cancel", url, done["id"], code=1)["error"]
    assert error["code"] == "TaskNotCancelableError"


def test_a_task_can_be_forked(url):
    """Nothing happens again before somebody has said yes."""
    asked = answer("send", url, "List", "--skill", "ask")["task"]
    accord("send", url, "Monday", "--task-id", asked["id"])
    words = ("task", "fork", url, asked["id"], "--at", "3", "--answer", "Friday")
    before = len(answer("task", "list", url, "--all")["tasks"])
    assert "really repeats" in accord(*words, code=1, given="n\n").stderr
    accord(*words, code=1, given="")
    assert len(answer("task", "list", url, "--all")["tasks"]) == before
    done = accord(*words, given="y\n")
    assert done.stdout == "List on Friday\n"
    task_id = re.search(r"^task (\S+)$", done.stderr, re.M)[1]
    assert answer("task", "get", url, task_id)["contextId"] == asked["contextId"]
    assert accord(*words, "--yes").stdout == "List on Friday\n"
    waiting = answer("task", "fork", url, asked["id"], "--at", "3", "--yes")
    assert waiting["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    wrong = answer("task", "fork", url, asked["id"], "--at", "30", "--yes", code=1)["error"]
    assert "has the events 1 to 6; 30 is none of them" in wrong["message"]
    both = accord(*words, "--message", "Sunday", code=2)
    assert "--answer or --message, not both" in both.stderr


def test_webhooks_of_a_task(url):
    """PUSH_001"""
    task = answer("send", url, "x", "--skill", "ask")["task"]["id"]
    made = answer("task", "push-config", "create", url, task, "--url", "http://127.0.0.1:9/hook",
                  "--hook-token", "s3cret")  # fmt: skip
    assert answer("task", "push-config", "get", url, task, made["id"])["url"].endswith("/hook")
    assert len(answer("task", "push-config", "list", url, task)["configs"]) == 1
    assert "s3cret" not in accord("task", "push-config", "list", url, task, "--debug").output
    assert answer("task", "push-config", "delete", url, task, made["id"]) == {}
    assert answer("task", "push-config", "list", url, task).get("configs", []) == []


# Settings and credentials


def test_the_agent_can_be_named_by_a_setting(url, monkeypatch):
    """CARD_GET_001: the card's address, an option and a variable name an agent too."""
    card = f"{url}/.well-known/agent-card.json"
    assert accord("send", "--agent-card", card, "Ada").stdout == "text:'Ada'::\n"
    monkeypatch.setenv("A2ACLI_AGENT_CARD", url)
    assert accord("send", "Ada").stdout == "text:'Ada'::\n"
    task = answer("send", "Ada")["task"]
    assert answer("task", "get", task["id"])["id"] == task["id"]
    assert len(answer("task", "list", "--page-size", "1")["tasks"]) == 1


def test_a_folder_that_says_where_credentials_go_is_warned_of(url, tmp_path, monkeypatch):
    (tmp_path / ".env").write_text(f"A2ACLI_AGENT_CARD={url}\n")
    assert "this folder" not in accord("send", "x").stderr
    monkeypatch.setenv("A2ACLI_BEARER", "s3cret")
    assert "--agent-card set by the .env of this folder" in accord("send", "x").stderr
    for typed in (["-a", url, "x"], [url, "x"]):
        assert "this folder" not in accord("send", *typed).stderr


def test_no_credential_is_shown_or_sent_to_the_card(url):
    """AUTH_002, AUTH_004, AUTH_008, OUT_007: not even with --debug."""
    shown = accord("send", url, "tok3n", "--bearer", "tok3n", "-H", "X-Secret: hush", "--debug")
    before, _, after = shown.stderr.partition("# > POST")
    assert "Authorization" not in before
    assert "Authorization: <redacted>" in after
    assert "X-Secret: <redacted>" in after
    assert "hush" not in shown.output
    assert "tok3n" not in shown.stderr
    assert "the card declares no authentication" in shown.stderr
    assert "A2ACLI_BEARER" in accord("send", "--help").output


def test_a_card_that_names_another_address_is_explained(tmp_path):
    """Credentials go to the address in the card only; whoever tries it on the server learns how."""
    (tmp_path / "clerk.py").write_text(
        "from accord import Agent\nfrom accord.auth import ApiKeys\n"
        "agent = Agent('Clerk', auth=ApiKeys())\n"
        "@agent.skill\ndef echo(text: str) -> str:\n    return text\n"
    )
    public = ["--url", "https://agents.example.com", "--store", "memory://"]
    with served("clerk.py", *public, cwd=tmp_path) as (process, _):
        url = found(r"http\S+", process.line_sync())
        said = accord("send", url, "hello", "--api-key", "secret", code=1).output
    assert "which is not at" in said
    assert "serve it without --url" in said


def test_help_shows_whole_sentences():
    """Also of commands whose first sentence is longer than a line."""
    said = " ".join(accord("--help").output.split())
    assert "..." not in said.partition("Commands:")[2]
    assert "Make, list and rotate the keys that a server encrypts and signs with." in said
