"""Mistakes in options that click would not see, or not explain: a forgotten value, an old name."""

from collections.abc import Sequence

import click

from .renamed import new_name

__all__ = ["check_values"]


def check_values(ctx: click.Context, typed: Sequence[str]) -> None:
    """Raise UsageError if an option that needs a value is followed by another option, or if one
    has another name today.

    `ctx` is that of the command that `typed` are the words of. A value that really begins with --
    is written as --name=VALUE.
    """
    command = ctx.command
    options = {
        name: one
        for one in command.get_params(ctx)
        if isinstance(one, click.Option)
        for name in (*one.opts, *one.secondary_opts)
    }
    words = list(typed)
    while words:
        word = words.pop(0)
        if word == "--":
            return
        option = options.get(word)
        name = word.partition("=")[0]
        if name not in options and (new := new_name(_path(ctx), name)):
            raise click.UsageError(f"No such option '{name}'. Did you mean '{new}'?", ctx)
        if option is not None and not option.is_flag and not option.count:
            for value in words[: option.nargs]:
                if isinstance(option.flag_value, str) and value.startswith("-"):
                    break  # its value may be left out
                if value in options or (value.startswith("--") and value != "--"):
                    way = f"{word}={value}" if word.startswith("--") else f"{word}{value}"
                    raise click.UsageError(
                        f"Option '{word}' needs a value, but '{value}' follows it. If that is the "
                        f"value, write {way}",
                        ctx,
                    )
            del words[: option.nargs]
        elif not word.startswith("-") and isinstance(command, click.Group):
            found = command.get_command(ctx, word)
            if found is not None:
                check_values(click.Context(found, info_name=word, parent=ctx), words)
            return
        elif not word.startswith("-") and not command.allow_interspersed_args:
            return


def _path(ctx: click.Context) -> list[str]:
    """Return the words of a command, without the program's name."""
    return [*_path(ctx.parent), ctx.info_name or ""] if ctx.parent is not None else []
