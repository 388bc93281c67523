"""What commands print. Everything goes through here: names, errors and texts are often a
stranger's, and must not move the cursor, colour the terminal or turn the order of letters round.
"""

from typing import Any, NamedTuple

import click

from .markdown import render

__all__ = ["Styled", "clean", "echo", "echo_json", "echo_markdown", "secho", "style"]

_TURNS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # the direction of writing
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *_TURNS])
# JSON escapes what is below 32 itself.
_ESCAPES = {code: f"\\u{code:04x}" for code in [*range(127, 160), *_TURNS]}


class Styled(NamedTuple):
    """A piece of a line, and how it looks."""

    text: str
    look: dict[str, Any]


def clean(text: str) -> str:
    """Return a text without control characters, except tabs and line ends."""
    return text.translate(_CONTROLS)


def style(text: str, **look: Any) -> Styled:
    """Return a piece of a line for `echo`, with a look as in `click.style`."""
    return Styled(text, look)


def echo(*pieces: object, err: bool = False, nl: bool = True) -> None:
    """Print a line of pieces, texts and `style(...)`, without control characters of theirs."""
    click.echo("".join(_shown(piece) for piece in pieces), err=err, nl=nl)


def secho(text: object, *, err: bool = False, **look: Any) -> None:
    """Print a line with one look."""
    echo(style(str(text), **look), err=err)


def echo_json(text: str | bytes) -> None:
    """Print JSON: control characters are escaped, nothing is left out."""
    if isinstance(text, bytes):
        text = text.decode()
    click.echo(text.translate(_ESCAPES).encode())


def echo_markdown(text: str) -> None:
    """Print Markdown with looks instead of its marks."""
    click.echo(render(clean(text)))


def _shown(piece: object) -> str:
    if isinstance(piece, Styled):
        return click.style(clean(piece.text), **piece.look)
    return clean(str(piece))
