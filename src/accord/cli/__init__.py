"""The command line: one verb per file, loaded when it is typed."""

from importlib import import_module

import click

__all__ = ["main"]

_VERBS = {
    "serve": ("serve", "serve"),
    "send": ("send", "send"),
    "task": ("task", "task"),
    "card": ("card", "card"),
    "auth": ("auth", "auth"),
    "push": ("push", "push"),
    "listen": ("listen", "listen"),
    "db": ("db", "db"),
    "replicas": ("replicas", "replicas"),
    "keyring": ("keyring", "keyring"),
    "key": ("key", "key"),
}


class _Verbs(click.Group):
    """Finds a command's file by its name, so that none pays for what another imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, name = _VERBS[cmd_name]
        command = getattr(import_module(f".{module}", __name__), name)
        assert isinstance(command, click.Command)  # the table above names commands
        return command


@click.group(
    cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="accord", message="%(prog)s %(version)s")
def main() -> None:
    """Accord: Agent2Agent (A2A) for Python.

    \b
    Serve an agent written in a file:   accord serve hello.py
    Talk to an agent:                   accord send http://localhost:8000 "Ada"
    See what an agent can do:           accord card get http://localhost:8000
    """
