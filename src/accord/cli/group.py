"""Groups of commands, whose help shows the first sentence of each."""

import click

__all__ = ["VerbGroup"]

_ENDLESS = 1000


class VerbGroup(click.Group):
    """Lists its commands with whole sentences; click cuts them to the width of the terminal."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_ENDLESS))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
