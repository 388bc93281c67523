"""The options of all commands: the same name means the same everywhere."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import click
import pytest

import accord.cli
from accord.cli import main
from tests.cli.shell import accord as typed
from tests.cli.test_output import commands

# What an option means, in words that its help has with every command; for those options whose help
# is not the same sentence everywhere. The help beside these words says what the command does
# with it.
MEANINGS = {
    "--all": "All ",
    "--allow-host": "A private host or network that may be called",
    "--auth-credentials": "credentials",
    "--auth-scheme": "The scheme with which",
    "--context-id": "this conversation",
    "--history": "How many of ",
    "--hook-token": "token",
    "--host": "Address to listen on.",
    "--hub": "hub",
    "--issuer": "The authorization server",
    "--key-file": "The file with the ",
    "--message": "The text to send",
    "--mine": "Your own credential",
    "--name": "The agent's name",
    "--port": "Port to listen on",
    "--preview": "a version of A2A that is not released yet",
    "--role": "role",
    "--scope": "A scope",
    "--skill": "skill",
    "--store": "store",
    "--stream": "With -o json: one object per line.",
    "--task-id": "this task",
    "--team": "team",
    "--url": "if it is not the one it listens on.",
    "--user": "The user name",
    "--wait": "Wait until the task has ended or asks a question",
    "--webhook": "webhook that gets push notifications about the task.",
    "--workers": "How many processes serve the port.",
}
# Every command has the forms of output that make sense for it.
FORMS = {"--output"}


def options() -> dict[str, list[tuple[str, click.Option]]]:
    """Return the commands and the option of each long name."""
    found = defaultdict(list)
    for path, command in commands(main):
        for one in command.params:
            if isinstance(one, click.Option):
                for name in (*one.opts, *one.secondary_opts):
                    if name.startswith("--"):
                        found[name].append((path, one))
    return found


def test_an_option_takes_the_same_kind_of_value_with_every_command():
    """`--role` was a choice with one command, and ROLE=VALUE with another."""
    context = click.Context(main)
    for name, found in options().items():
        if name in FORMS:
            continue
        kinds = {
            (
                one.is_flag,
                one.make_metavar(context).strip("[]"),
                re.sub(" range$", "", one.type.name),
            )
            for _, one in found
        }
        assert len(kinds) == 1, (name, kinds)


def test_an_option_means_the_same_with_every_command():
    """`--url` was the webhook with one command, and this server's address with another."""
    for name, found in options().items():
        helps = {
            re.sub(r"\s*\[default: [^]]*\]", "", one.help or ""): path
            for path, one in found
            if name not in FORMS
        }
        if len(helps) > 1:
            assert name in MEANINGS, (name, helps)
            for said, path in helps.items():
                assert MEANINGS[name] in said, (name, path, said)


def test_the_table_of_meanings_has_only_what_needs_one():
    found = options()
    for name in MEANINGS:
        assert len({one.help for _, one in found[name]}) > 1, name


def test_every_command_that_has_forms_of_output_has_text_and_json():
    for path, one in options()["--output"]:
        assert {"text", "json"} <= set(getattr(one.type, "choices", ())), path


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("send URL hi --key 7", "--idempotency-key"),
        ("send URL hi --push https://a", "--webhook"),
        ("send URL hi --token=t", "--bearer"),
        ("task get URL 7 --token t", "--bearer"),
        ("conformance URL --token t", "--bearer"),
        ("card sign c.json --key=k.pem", "--private-key"),
        ("card verify URL --key-url https://a", "--allow-key-url"),
        ("hub --role admin=hub-admins", "--map-role"),
        ("hub add --file agents.txt", "--from"),
        ("hub find --a2a-version 1.0", "--speaks"),
        ("hub key new mia --role user --expires-days 9", "--expires"),
        ("hub list --api-key k", "--hub-key"),
        ("hub list --key k", "--hub-key"),
        ("hub policy add allow a call b --limit 5", "--calls-per-minute"),
        ("hub policy try hr --name bob", "--caller"),
        ("hub probe echo --message", "--send-message"),
        ("key new mia --scopes hr", "--scope"),
        ("listen --agent URL", "--signed-by"),
        ("listen --credentials c", "--auth-credentials"),
        ("listen --json", "--output"),
        ("listen --token t", "--hook-token"),
        ("mcp URL --wait 5s", "--longest-call"),
        ("push replay --task 7", "--task-id"),
        ("push test URL --auth 'Basic abc'", "--auth-credentials"),
        ("push test URL --token=t", "--hook-token"),
    ],
)
def test_an_option_under_its_old_name_is_refused_with_the_new_one(words, new):
    refused = typed(*words.split())
    assert refused.code == 2
    assert f"Did you mean '{new}'?" in refused.err


def test_a_word_that_looks_like_an_old_name_is_no_option():
    """What follows -- is text."""
    refused = typed("send", "http://127.0.0.1:9", "--retry-max-time", "0", "--", "--key")
    assert refused.code == 3


@pytest.mark.parametrize(
    "words",
    [
        "task push-config create URL 7 --url https://me.example/hook --token t",
        "task push-config create URL 7 --url=https://me.example/hook --token=t",
        "task list URL --limit 5",
        "task list URL --limit=5",
        "send URL --text-part a --data-part {} --file-part https://a",
    ],
)
def test_the_names_of_the_specification_work(words):
    """Scripts for another tool that follows the specification run."""
    found = words.replace("URL", "http://127.0.0.1:9").split()
    assert typed(*found, "--retry-max-time", "0").code == 3  # no server, and nothing wrong


SOURCES = [
    path for path in Path(accord.cli.__file__).parent.rglob("*.py") if path.name != "renamed.py"
]
NAME = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
OTHERS = {"--help", "--version", "--no-cache-dir", "--create-home"}  # of groups, pip and useradd
# Parts of commands that are put together elsewhere.
PIECES = ("new NAME --role ROLE",)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_text_names_only_options_that_its_commands_have(path):
    """`accord listen` said: use --agent. It has no such option.

    A text that shows a whole command, `accord key new NAME --role user`, may name that one's.
    """
    known = set(options())
    own = {
        name
        for _, command in commands(main)
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
        if command.callback is not None and _file_of(command) == path
    }
    for text in _texts(path):
        for name in set(NAME.findall(text)) - OTHERS:
            assert name in known, (text, name)
            if own and name not in own and text not in PIECES:
                assert re.search(r"accord [a-z]|FROM python", text), (text, name)


def _file_of(command: click.Command) -> Path:
    function = command.callback
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    assert function is not None
    return Path(function.__code__.co_filename)


def _texts(path: Path) -> list[str]:
    """Return the strings of a file, without docstrings of what is no command."""
    tree = ast.parse(path.read_text())
    left_out = {
        id(value)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for value in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            if getattr(node, "decorator_list", ()) or not ast.get_docstring(node):
                continue
            assert isinstance(node.body[0], ast.Expr)
            left_out.add(id(node.body[0].value))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [one.value if isinstance(one, ast.Constant) else "…" for one in node.values]
            found.append("".join(map(str, pieces)))
        elif isinstance(node, ast.Constant) and id(node) not in left_out:
            found.append(str(node.value))
    return found
