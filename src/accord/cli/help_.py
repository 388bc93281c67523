"""accord help: the help of a command."""

import click

from .near import did_you_mean
from .terminal import echo

__all__ = ["help_"]


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, like accord send --help."""
    at = ctx.find_root()
    for word in words:
        group = at.command
        found = group.get_command(at, word) if isinstance(group, click.Group) else None
        if found is None:
            known = group.list_commands(at) if isinstance(group, click.Group) else []
            near = did_you_mean(word, known)
            raise click.UsageError(f"there is no command {' '.join(words)}.{near}")
        at = click.Context(found, info_name=word, parent=at)
    echo(at.get_help())
