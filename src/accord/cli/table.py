"""Lists of things: a table that fits the terminal for people, JSON for programs."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from .terminal import Styled, clean, echo, echo_json, style

__all__ = ["OUTPUT", "Row", "is_json", "minute", "moment", "print_json", "print_table", "table"]

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or JSON for programs.",
)

_GAP = 2
_LEAST = 6  # a column is not made narrower than this
_UNCUT = {"TASK", "CONFIG", "ID", "NAME"}  # what other commands take is shown whole
# Words of a state, by what a person wants to see first.
_COLORS = {
    **dict.fromkeys(["failed", "rejected", "dead", "down", "revoked", "disabled"], "red"),
    **dict.fromkeys(["input-required", "auth-required", "degraded", "suspended"], "yellow"),
    **dict.fromkeys(["pending", "expired"], "yellow"),
    **dict.fromkeys(["completed", "up", "alive", "valid", "approved"], "green"),
}

Row = Mapping[str, Any]


def is_json(output: str) -> bool:
    return output == "json"


def print_json(found: Any) -> None:
    echo_json(json.dumps(found, ensure_ascii=False, indent=2))


def print_table(rows: Sequence[Row], *columns: str) -> None:
    """Print the named columns of rows under a header; a state in its colour."""
    for line in table(rows, *columns):
        echo(*line)


def table(rows: Sequence[Row], *columns: str, width: int = 0) -> list[list[str | Styled]]:
    """Return the lines of a table, each as pieces for `echo`.

    On a terminal the widest columns are cut until a line fits, but no ids and names: other commands
    take those. Elsewhere nothing is cut. `width` overrides that of the terminal.
    """
    heads = [name.upper().replace("_", " ") for name in columns]
    texts = [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(_size(line[i]) for line in [heads, *texts]) for i in range(len(columns))]
    _fit(widths, heads, width or _terminal_width())
    lines: list[list[str | Styled]] = [[_line(heads, widths)]]
    for cells in texts:
        pieces: list[str | Styled] = []
        for i, (cell, size) in enumerate(zip(cells, widths, strict=True)):
            shown = _cut(cell, size)
            color = _COLORS.get(cell.split()[0]) if cell else None
            pieces.append(style(shown, fg=color) if color else shown)
            if i < len(cells) - 1:
                pieces.append(" " * (size - _size(shown) + _GAP))
        lines.append(pieces)
    return lines


def minute(ms: float) -> str:
    """Return a time in ms as local date and minute; "-" if it is 0."""
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M") if ms else "-"


def moment(text: str) -> str:
    """Return an RFC 3339 time as local time: the time of day if it is today's, else the date."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except ValueError:
        return text  # a stranger's
    return f"{at:%H:%M:%S}" if at.date() == datetime.now().date() else f"{at:%Y-%m-%d}"


def _fit(widths: list[int], heads: Sequence[str], width: int) -> None:
    """Make the widest columns narrower until a line has at most `width` characters."""
    least = [
        size if head in _UNCUT else max(len(head), _LEAST)
        for head, size in zip(heads, widths, strict=True)
    ]
    while width and sum(widths) + _GAP * (len(widths) - 1) > width:
        widest = max(range(len(widths)), key=lambda i: widths[i] - least[i])
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(c.ljust(w + _GAP) for c, w in zip(cells, widths, strict=True)).rstrip()


def _size(text: str) -> int:
    """Return how many columns a text takes: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, size: int) -> str:
    if _size(text) <= size:
        return text
    while _size(text) >= size:
        text = text[:-1]
    return f"{text}…"


def _cell(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return " ".join(clean(text).split()) if value not in (None, "", [], ()) else "-"


def _terminal_width() -> int:
    """Return how many columns the terminal has; 0 if stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
