"""Every public name and every setting is explained where people look for it."""

import inspect
import re

import msgspec
import pytest

import accord
from accord import Agent, Limits, Retention
from accord.cli import main
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text()
SETTINGS = {
    "Agent()": list(inspect.signature(Agent).parameters),
    "@agent.skill": list(inspect.signature(Agent.skill).parameters)[
        2:
    ],  # without self, and the function itself
    "Agent.app": list(inspect.signature(Agent.app).parameters)[1:],
    "Agent.run": list(inspect.signature(Agent.run).parameters)[1:],
    "Limits": [field.name for field in msgspec.structs.fields(Limits)],
    "Retention": [field.name for field in msgspec.structs.fields(Retention)],
}


def rows(heading: str) -> list[tuple[str, str, str]]:
    """Return the keywords, defaults and explanations in the table below a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    return [cell for cell in cells if len(cell) == 3]


@pytest.mark.parametrize("heading", SETTINGS)
def test_the_page_of_settings_has_every_keyword_and_no_other(heading):
    """A setting nobody can find does not exist; one that is gone must not be promised."""
    named = [name for keywords, _, _ in rows(heading) for name in re.findall(r"`(\w+)`", keywords)]
    assert sorted(named) == sorted(SETTINGS[heading])
    assert all(explained for _, _, explained in rows(heading))


@pytest.mark.parametrize(("heading", "keyword", "default"), [
    ("Agent.run", "port", 8000),
    ("Agent.run", "grace_s", 20),
    ("Agent.app", "store", "memory://"),
    *(("Limits", field.name, field.default) for field in msgspec.structs.fields(Limits)),
    *(("Retention", field.name, field.default) for field in msgspec.structs.fields(Retention)),
])  # fmt: skip
def test_the_defaults_on_the_page_are_those_of_the_code(heading, keyword, default):
    [shown] = [shown for keywords, shown, _ in rows(heading) if f"`{keyword}`" in keywords]
    assert any(said in shown for said in spellings(default)), (
        f"{keyword} is {default}, the page says {shown}"
    )


def spellings(default: object) -> list[str]:
    """A figure as people write it: with commas, in KiB or MiB, in hours or days."""
    if isinstance(default, str):
        return [default]
    number = int(default)  # type: ignore[call-overload]
    days = "1 day" if number == 86_400 else f"{number // 86_400} days"
    if number % 86_400 == 0:
        return [days]
    if number % (1 << 20) == 0:
        return [f"{number >> 20} MiB"]
    return [f"{number >> 10} KiB"] if number % 1024 == 0 else [f"{number:,}", str(number)]


@pytest.mark.parametrize("name", dir(accord))
def test_every_public_name_says_in_a_line_what_it_is(name):
    """The first line is what an editor shows: a sentence of its own, not the name again."""
    first = (getattr(accord, name).__doc__ or "").partition("\n")[0]
    assert re.fullmatch(r".{15,160}[.:]", first), first
    assert not re.match(rf"(Initiali[sz]e|(The |An? )?{name}[ .])", first)


@pytest.mark.parametrize(
    "method",
    [Agent.app, Agent.run, Agent.skill, accord.connect],
    ids=lambda method: method.__qualname__,
)
def test_the_docstring_explains_every_argument(method):
    """Where there are many, an editor shows them with the docstring."""
    told = re.findall(
        r"^ +(\w+): \S", method.__doc__.partition("Args:")[2].partition("Raises:")[0], re.MULTILINE
    )
    assert sorted(told) == sorted(
        name for name in inspect.signature(method).parameters if name != "self"
    )


def verbs(group=main, path=("accord",)):
    with group.make_context(path[-1], [], resilient_parsing=True) as ctx:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            if hasattr(command, "commands"):
                yield from verbs(command, (*path, name))
            else:
                yield pytest.param(command, id=" ".join((*path, name)))


@pytest.mark.parametrize("command", list(verbs()))
def test_every_option_of_the_command_line_has_a_help_text(command):
    assert command.help
    assert [
        option.name
        for option in command.params
        if option.param_type_name == "option" and not option.help
    ] == []
