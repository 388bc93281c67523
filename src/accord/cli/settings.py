"""Settings of the commands that talk to agents: typed, or from A2ACLI_* variables and files.

The first that is set wins: the option, the environment, the nearest `.env` above the working folder
(or the file of --config), `~/.config/a2a-cli/.env`, the default.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import click

__all__ = ["CONFIG", "SECRETS", "SETTINGS", "Found", "OutputForm", "Setting", "look_up"]

PREFIX = "A2ACLI_"
_CONFIG = "accord.config"  # where the context keeps the file of --config

# What can be set, and the default in words.
SETTINGS = {
    "agent-card": "none",
    "catalog": "none",
    "transport": "the card's order",
    "a2a-version": "the highest that both know",
    "output": "answer",
    "async": "off",
    "wait": "on for send, off for task get",
    "poll-interval": "grows from 0.1 s to 2 s",
    "timeout": "none",
    "context-id": "none",
    "task-id": "none",
    "metadata": "none",
    "svc-param": "none",
    "bearer": "none",
    "api-key": "none",
    "client-cert": "none",
    "client-key": "none",
    "ca-cert": "the system's",
    "insecure": "off",
    "verbose": "off",
    "debug": "off",
}
SECRETS = {"bearer", "api-key", "svc-param"}
_LISTS = {"transport": ",", "svc-param": ";"}


class Found(NamedTuple):
    """A setting and where it comes from."""

    value: str
    source: str  # environment, local file, global file
    path: str  # the variable or the file


def look_up(name: str, config: str | None = None) -> Found | None:
    """Return what the environment or a file sets; None if nothing does."""
    variable = PREFIX + name.upper().replace("-", "_")
    if value := os.environ.get(variable):
        return Found(value, "environment", variable)
    local = Path(config) if config else _nearest()
    for source, path in (("local file", local), ("global file", _global())):
        if path is not None and (value := _read(path).get(variable)):
            return Found(value, source, str(path))
    return None


def _nearest() -> Path | None:
    try:
        here = Path.cwd()
    except OSError:  # the folder is gone
        return None
    return next((f for folder in (here, *here.parents) if (f := folder / ".env").is_file()), None)


def _global() -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    path = Path(base) / "a2a-cli" / ".env"
    return path if path.is_file() else None


def _read(path: Path) -> dict[str, str]:
    """The A2ACLI_ lines of a file; others are for other programs."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise click.UsageError(f"{path} can't be read: {error.strerror}") from None
    found = {}
    for line in lines:
        name, is_set, value = line.strip().removeprefix("export ").partition("=")
        value = value.strip()
        if is_set and name.strip().startswith(PREFIX):
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            found[name.strip()] = value
    return found


class OutputForm(click.Choice[str]):
    """A form of output. `text` was called `fields`, which still works."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert("text" if value == "fields" else value, param, ctx)


class Setting(click.Option):
    """An option that is also looked for in the environment and in files, by its first long name."""

    @property
    def setting(self) -> str:
        names = [name[2:] for name in self.opts if name[2:] in SETTINGS]
        return names[0]

    def found(self, ctx: click.Context) -> Found | None:
        return look_up(self.setting, ctx.meta.get(_CONFIG))

    def value_from_envvar(self, ctx: click.Context) -> Any:
        found = self.found(ctx)
        if found is None:
            return None
        if self.multiple:
            lines = found.value.replace(_LISTS[self.setting], "\n").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
        return found.value

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """With what counts if it is not typed."""
        record = super().get_help_record(ctx)
        found = self.found(ctx)
        if record is None or found is None:
            return record
        value = "<redacted>" if self.setting in SECRETS else found.value
        return record[0], f"{record[1]}  [set: {value}, by {found.path}]"


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_CONFIG] = value


CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_remember,
    help="Read the A2ACLI_ settings from this file instead of the nearest .env.",
)
