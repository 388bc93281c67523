"""The command line: one verb per file, loaded when it is typed."""

import itertools
import json
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from .group import VerbGroup

__all__ = ["main"]

_VERBS = {
    "serve": ("serve", "serve"),
    "run": ("run", "run"),
    "send": ("send", "send"),
    "chat": ("chat", "chat"),
    "task": ("task", "task"),
    "card": ("card", "card"),
    "check": ("check", "check"),
    "config": ("config", "config"),
    "completion": ("completion", "completion"),
    "doctor": ("doctor", "doctor"),
    "init": ("init", "init"),
    "skill": ("skill", "skill"),
    "demo-server": ("demo_server", "demo_server"),
    "help": ("help_", "help_"),
    "auth": ("auth", "auth"),
    "push": ("push", "push"),
    "listen": ("listen", "listen"),
    "db": ("db", "db"),
    "hub": ("hub", "hub"),
    "console": ("console", "console"),
    "open": ("console", "open_"),
    "replicas": ("replicas", "replicas"),
    "keyring": ("keyring", "keyring"),
    "key": ("key", "key"),
    "mcp": ("mcp", "mcp"),
}
# Other names that work, and are not listed: the command line specification's.
_ALSO = {"conformance": "check"}


class _Verbs(VerbGroup):
    """Finds a command's file by its name, so that none pays for what another imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = _ALSO.get(cmd_name, cmd_name)
        if cmd_name not in _VERBS:
            return None
        module, name = _VERBS[cmd_name]
        command = getattr(import_module(f".{module}", __name__), name)
        assert isinstance(command, click.Command)  # the table above names commands
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from .renamed import rewritten
        from .values import check_values

        words = rewritten(args)
        if not ctx.resilient_parsing:  # a shell completes what is not typed to its end
            check_values(ctx, words)
        return super().parse_args(ctx, words)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. One that is misspelt is an error that names those like it; click looks
        for them among commands that are loaded.
        """
        typed = args[0]
        if not typed.startswith("-") and self.get_command(ctx, typed) is None:
            from .near import did_you_mean

            ctx.fail(f"No such command '{typed}'.{did_you_mean(typed, _VERBS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click prints its error, in which there may be words of a stranger."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            from .terminal import clean

            words = re.sub(
                "is not a valid integer( range)?", "is not a whole number", error.message
            )
            error.message = clean(words)  # type: ignore[misc]  # final for its class
            raise

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command. Where JSON is wanted, an error is JSON on stdout too: also one in what was
        typed, where click does not get as far as the option that says so.
        """
        if os.environ.get("_ACCORD_COMPLETE", "").startswith("powershell"):
            import_module(".completion", __name__)  # where that shell is made known to click
        typed = list(sys.argv[1:] if args is None else args)
        if not standalone_mode or not _wants_json(typed):
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        try:
            code: Any = super().main(args, prog_name, complete_var, bool(0), **extra)
        except click.ClickException as error:
            from .advice import envelope
            from .terminal import echo_json

            echo_json(json.dumps(envelope(error), ensure_ascii=False))
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _wants_json(typed: list[str]) -> bool:
    found = os.environ.get("A2ACLI_OUTPUT", "")
    for word, following in itertools.pairwise([*typed, ""]):
        if word == "--":
            break
        if word in ("-o", "--output"):
            found = following
        elif word.startswith(("-o", "--output=")) and not word.startswith("--o="):
            found = word.removeprefix("--output=").removeprefix("-o")
    return found == "json"


@click.group(
    cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(
    None, "-v", "--version", package_name="accord", message="%(prog)s %(version)s"
)
def main() -> None:
    """Accord: Agent2Agent (A2A) for Python.

    \b
    Serve an agent written in a file:   accord serve hello.py
    Talk to an agent:                   accord send http://localhost:8000 "Ada"
    See what an agent can do:           accord card get http://localhost:8000
    """
