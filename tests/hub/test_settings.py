"""Settings of a hub: every option by its variable, and nothing that is not there."""

import click
import pytest

from accord.cli.hub import hub
from accord.hub import HubSettings

VALUES = {
    "guests": "see",
    "trust": "require",
    "log_level": "debug",
    "log_format": "json",
    "no_console": "true",
    "port": "9000",
    "grpc_port": "9001",
}


def options() -> list[click.Parameter]:
    return [one for one in hub.params if isinstance(one, click.Option) and one.name != "help"]


@pytest.mark.parametrize("option", options(), ids=lambda option: str(option.name))
def test_every_option_can_be_set_by_its_variable(option):
    """As `--help` says: ACCORD_HUB_ and the name of the option."""
    variable = "ACCORD_HUB_" + option.opts[0].removeprefix("--").replace("-", "_").upper()
    value = VALUES.get(option.name, "a")
    found = getattr(HubSettings.of({}, {variable: value}), option.name)
    assert found != getattr(HubSettings(), option.name)
    if option.multiple:
        both = HubSettings.of({}, {variable: "10.0.0.0/8, b"})
        assert getattr(both, option.name) == ("10.0.0.0/8", "b")


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
    with pytest.raises(ValueError, match=f"no setting {variable}; do you mean {hint}\\?"):
        HubSettings.of({}, {variable: "off"})


def test_variables_of_the_commands_are_known():
    assert HubSettings.of({}, {"ACCORD_HUB_KEY": "k", "ACCORD_HUB": "u"}) == HubSettings()


@pytest.mark.parametrize(
    "given",
    [
        {"port": -1},
        {"grpc_port": 70_000},
        {"beat_s": 0},
        {"missed_beats": 0},
        {"poll_s": -1},
        {"calls_per_minute": -5},
        {"check_s": -1},
        {"guests": "all"},
    ],
)
def test_a_value_out_of_its_range_is_refused(given):
    with pytest.raises(ValueError, match=next(iter(given))):
        HubSettings.of(given, {})
