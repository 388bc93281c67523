"""Settings of a hub: every option by its variable, and nothing that is not there."""

import re
import sys

import click
import pytest
from click.testing import CliRunner

from accord.cli.hub import hub
from accord.hub import Hub, HubSettings
from accord.hub.settings import variable_of
from tests.docs.page import ROOT
from tests.hub.hubs import agent_named
from tests.processes import run_sync

VALUES = {
    "guests": "see",
    "trust": "require",
    "log_level": "debug",
    "log_format": "json",
    "no_console": "true",
    "port": "9000",
    "grpc_port": "9001",
    "map_role": "admin=a",
    "workers": "2",
    "preview": "1.1",
}
SEVERAL = {"preview": ("1.1", "1.1"), "map_role": ("admin=a", "publisher=b")}
BESIDE = {"oidc_client": {"ACCORD_HUB_OIDC": "https://id.example"}}  # what an option needs


def options() -> list[click.Parameter]:
    return [one for one in hub.params if isinstance(one, click.Option) and one.name != "help"]


@pytest.mark.parametrize("option", options(), ids=lambda option: str(option.name))
def test_every_option_can_be_set_by_its_variable(option):
    """As `--help` says: ACCORD_HUB_ and the name of the option."""
    variable = "ACCORD_HUB_" + option.opts[0].removeprefix("--").replace("-", "_").upper()
    value = VALUES.get(option.name, "a")
    given = BESIDE.get(str(option.name), {}) | {variable: value}
    assert getattr(HubSettings.of({}, given), option.name) != getattr(HubSettings(), option.name)
    if option.multiple:
        several = SEVERAL.get(str(option.name), ("10.0.0.0/8", "b"))
        both = HubSettings.of({}, {variable: ", ".join(several)})
        assert getattr(both, option.name) == several


# Where the default is not a value of its own: as the help says it.
SAID = {
    "guests": "call, if --host and --url are this machine's own; else off",
    "oidc_audience": "--url",
}


def said_defaults() -> dict[str, str]:
    """Return the defaults that `accord hub --help` shows, by the names of their options."""
    shown = CliRunner().invoke(hub, ["--help"], terminal_width=400).output
    rows = [" ".join(row.split()) for row in re.split(r"^  (?=-)", shown, flags=re.MULTILINE)]
    found = {row.split()[0]: re.search(r"\[default: (.*?)\]", row) for row in rows if row}
    return {option: match[1] for option, match in found.items() if match}


@pytest.mark.parametrize("option", options(), ids=lambda option: str(option.name))
def test_help_and_reference_say_the_default_that_the_code_has(option):
    """The reference has a row for each, with its variable."""
    name = str(option.name)
    default = getattr(HubSettings(), name)
    given = SAID.get(name) or ("" if default in ("", None, (), False) else str(default))
    assert said_defaults().get(option.opts[0], "") == given
    row = found_row(variable_of(name))
    assert row[1:3] == [f"`{option.opts[0]}`", f"`{default!r}`"]


def found_row(variable: str) -> list[str]:
    page = (ROOT / "docs" / "reference" / "hub.md").read_text()
    [line] = re.findall(rf"^\| `{variable}` \|.*$", page, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_reference_has_every_setting_and_no_other():
    page = (ROOT / "docs" / "reference" / "hub.md").read_text()
    rows = re.findall(r"^\| `(ACCORD_HUB_\w+)` \|", page, re.MULTILINE)
    assert rows == [variable_of(name) for name in HubSettings.__struct_fields__]


def test_what_was_typed_counts_before_the_environment():
    environment = {"ACCORD_HUB_PORT": "9000", "ACCORD_HUB_NAME": "Desk"}
    found = HubSettings.of({"port": 9001}, environment)
    assert (found.port, found.name) == (9001, "Desk")


def test_an_empty_variable_is_as_none():
    """Files of containers pass on what is not set as an empty text."""
    empty = {"ACCORD_HUB_GRPC_PORT": "", "ACCORD_HUB_ALLOW_HOST": ""}
    assert HubSettings.of({}, empty) == HubSettings()


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("ACCORD_HUB_PROT", "ACCORD_HUB_PORT"),
        ("ACCORD_HUB_ALLOW", "ACCORD_HUB_ALLOW_HOST"),
        ("ACCORD_HUB_GUEST", "ACCORD_HUB_GUESTS"),
    ],
)
def test_a_variable_that_is_not_known_is_an_error_with_the_nearest_name(variable, hint):
    with pytest.raises(ValueError, match=f"no setting {variable}; did you mean '{hint}'\\?"):
        HubSettings.of({}, {variable: "off"})


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("ACCORD_HUB_LOG_LEVEL", "loud", "choose from critical, error, warning, info, debug"),
        ("ACCORD_HUB_GUESTS", "yes", "choose from off, see, call"),
        ("ACCORD_HUB_PREVIEW", "7.7", "choose from 1.1"),
        ("ACCORD_HUB_PORT", "http", "expected a whole number, got text"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_named_with_its_choices(variable, value, why):
    setting = variable.removeprefix("ACCORD_HUB_").lower()
    with pytest.raises(ValueError, match="^" + re.escape(f"{setting}={value}: {why}")):
        HubSettings.of({}, {variable: value})


def test_variables_of_the_commands_are_known():
    assert HubSettings.of({}, {"ACCORD_HUB_KEY": "k", "ACCORD_HUB": "u"}) == HubSettings()


@pytest.mark.parametrize(
    "given",
    [
        {"port": -1},
        {"grpc_port": 70_000},
        {"workers": 0},
        {"workers": 65},
        {"heartbeat_s": 0},
        {"missed_heartbeats": 0},
        {"poll_s": -1},
        {"calls_per_minute": -5},
        {"check_s": -1},
        {"check_s": "inf"},
        {"open_s": "inf"},
        {"heartbeat_s": 1e300},
        {"guests": "all"},
        {"name": "Hub\nadmin"},
        {"name": " "},
        {"team_claim": "gro\x1bups"},
        {"folder": "a\0b"},
    ],
)
def test_a_value_out_of_its_range_is_refused(given):
    with pytest.raises(ValueError, match=f"^{next(iter(given))}="):
        HubSettings.of(given, {})


@pytest.mark.parametrize(
    "domain",
    ["a b", "agents..example", "-a.example", "a_b.example", "a/b", "a\nb", "a." * 99, "*.a"],
)
def test_a_domain_that_no_host_can_have_is_refused(tmp_path, domain):
    with pytest.raises(ValueError, match="grpc_domain="):
        agent_named().app(grpc_domain=domain)
    with pytest.raises(ValueError, match="grpc_domain="):
        Hub(HubSettings(store=f"sqlite:///{tmp_path}/hub.db", grpc_domain=domain))


AGENT = """
from accord import Agent

agent = Agent("A")


@agent.skill
def echo(text: str) -> str:
    return text
"""
REFUSED = {
    "sqlite:///./": "./ is a folder",
    "sqlite:///.": ". is a folder",
    "sqlite:////": "/ is a folder",
    "sqlite:///..": ".. is a folder",
    "sqlite:///new/": "new/ is a folder",
    "sqlite:///notes.txt": "notes.txt is not a database",
}


@pytest.mark.parametrize("store", REFUSED)
@pytest.mark.parametrize("verb", ["hub", "serve agent.py"])
def test_a_start_that_is_refused_says_why_and_leaves_nothing(tmp_path, store, verb):
    """Neither a database nor a file with keys, there or beside the folder."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "notes.txt").write_text("Remember the milk.")
    (folder / "agent.py").write_text(AGENT)
    before = sorted(tmp_path.rglob("*"))
    words = [*verb.split(), "--port", "0", "--store", store]
    done = run_sync(sys.executable, "-B", "-m", "accord", *words, cwd=folder)
    assert done.code == 1
    assert REFUSED[store] in done.err
    assert "PosixPath" not in done.err
    assert sorted(tmp_path.rglob("*")) == before
