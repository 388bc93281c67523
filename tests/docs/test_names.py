"""What the docs name exists: links, make targets, commands and their options, files."""

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest

from accord.cli import main
from tests.docs.page import ROOT, blocks, commands

PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
INLINE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def typed(page: Path, program: str) -> list[list[str]]:
    """Every command of `program` a page names, in its blocks and in its sentences."""
    in_blocks = [
        words
        for language, text in blocks(page)
        if not language and program in text
        for words, _ in commands(text)
    ]
    in_prose = [
        shlex.split(code) for code in INLINE.findall(prose(page)) if code.startswith(program + " ")
    ]
    return [words for words in in_blocks + in_prose if words[0] == program]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    """Links inside the project: to a file that is there, and to a heading it has."""
    broken = []
    for target in LINK.findall(prose(page)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_exists(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {words[1] for words in typed(page, "make")} <= targets


def takes_value(option: click.Parameter | None) -> bool:
    return isinstance(option, click.Option) and not option.is_flag and not option.count


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page):
    """Whatever follows `accord` in a page is a command, and takes the options it is shown with."""
    for words in typed(page, "accord"):
        command: click.Command = main
        rest = iter(words[1:])
        for word in rest:
            if word.startswith("-"):
                options = {name: option for option in command.params for name in option.opts}
                assert word in {*options, "--help", "--version"}, (
                    f"{shlex.join(words)}: {command.name} has no {word}"
                )
                if takes_value(options.get(word)):
                    next(rest, None)
            elif isinstance(command, click.Group):
                found = command.get_command(click.Context(command), word)
                assert found is not None, f"{shlex.join(words)}: there is no {word}"
                command = found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_is_there(page):
    """A path of ours in a sentence (`engine/log/log.py`, `docs/design.md`): below the root, or
    below the package.
    """
    paths = [
        code
        for code in INLINE.findall(prose(page))
        if re.fullmatch(r"[\w.]+(/[\w.]+)*/[\w]+\.(py|md|toml|txt)", code)
    ]
    assert [
        path
        for path in paths
        if not any((base / path).exists() for base in (ROOT, ROOT / "src", ROOT / "src/accord"))
    ] == []


def test_make_help_tells_every_target():
    """`make` alone is what a newcomer types to see what there is."""
    makefile = (ROOT / "Makefile").read_text()
    public = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    told = re.findall(r"^([a-z-]+):.*## \w", makefile, re.MULTILINE)
    assert sorted(told) == sorted(public)


def promised() -> set[str]:
    """What docs/stability.md promises, each name with its module."""
    table = (ROOT / "docs/stability.md").read_text().partition("Not promised")[0]
    named = set(re.findall(r"`(accord(?:\.\w+)*)`", table))
    modules = [name for name in named if importlib.util.find_spec(name)]
    return named | {
        f"{module}.{name}" for module in modules for name in importlib.import_module(module).__all__
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_promised(page):
    """A reader who writes what a page shows has it after the next release too."""
    imported = {
        f"{node.module}.{name.name}"
        for language, text in blocks(page)
        if language == "python"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord"
        for name in node.names
    }
    assert imported <= promised()
