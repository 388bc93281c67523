"""Show Markdown on a terminal, piece by piece as a stream brings it."""

import os
import re
import sys

__all__ = ["Markdown", "is_markdown_shown", "render"]

_BOLD, _CODE, _DIM, _OFF = "\033[1m", "\033[36m", "\033[2m", "\033[0m"
# What may still become a mark at the start of a line: "#", "##", "`", "``".
_START = re.compile(r"\s{0,3}(#{1,6}|`{1,2})?")
_HEADING = re.compile(r"#{1,6} ")
_FENCE = re.compile(r"\s{0,3}```")


def is_markdown_shown() -> bool:
    """Return whether stdout is a terminal that shows looks, and nobody said not to."""
    can = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return can and not os.environ.get("NO_COLOR")


def render(text: str) -> str:
    """Return a whole text as a terminal shows it."""
    markdown = Markdown()
    return markdown.feed(text) + markdown.end()


class Markdown:
    """Turn the marks of Markdown into the looks of a terminal: headings, bold, code.

    - What comes out is what came in, without the marks of headings, bold and code in a line. What
      is not closed ends with its line. All other text stays as it is.
    - At most a few characters are kept back, until it is clear what they are.
    """

    def __init__(self) -> None:
        self._kept = ""  # what may be the beginning of a mark
        self._is_line_start = True
        self._is_fenced = False
        self._looks: set[str] = set()  # that are open in this line

    def feed(self, text: str) -> str:
        """Return what can be shown by now."""
        text, self._kept = self._kept + text, ""
        shown = []
        while text:
            taken, piece = self._next(text)
            if not taken:  # wait for more
                self._kept = text
                break
            shown.append(piece)
            text = text[taken:]
        return "".join(shown)

    def end(self) -> str:
        """Return what was kept back, and close what is open."""
        kept, self._kept = self._kept, ""
        return kept + self._close()

    def _next(self, text: str) -> tuple[int, str]:
        """Return how many characters are done with, and what is shown for them."""
        if text[0] == "\n":
            self._is_line_start = True
            return 1, f"{self._close()}\n"
        if self._is_line_start:
            return self._line_start(text)
        if self._is_fenced:
            return 1, text[0]
        if text[0] == "`":
            return self._toggle("`", _CODE, text)
        if text[0] == "*" and "`" not in self._looks:
            if len(text) == 1:
                return 0, ""
            if text[1] == "*":
                return self._toggle("**", _BOLD, text)
        return 1, text[0]

    def _line_start(self, text: str) -> tuple[int, str]:
        if _START.fullmatch(text):
            return 0, ""
        self._is_line_start = False
        if _FENCE.match(text):
            self._is_fenced = not self._is_fenced
            self._looks.add("fence")
            length = text.index("```") + 3
            return length, f"{_DIM}{text[:length]}"
        if self._is_fenced:
            return 1, text[0]
        heading = _HEADING.match(text)
        if heading is not None:
            self._looks.add("#")
            return heading.end(), _BOLD
        spaces = len(text) - len(text.lstrip(" "))
        return (spaces, text[:spaces]) if spaces else self._next(text)

    def _toggle(self, mark: str, look: str, text: str) -> tuple[int, str]:
        size = len(mark)
        if mark in self._looks:
            self._looks.discard(mark)
            return size, _OFF + (_BOLD if self._looks & {"#", "**"} else "")
        if len(text) == size:
            return 0, ""
        if text[size].isspace() or text[size] == mark[0]:
            return size, mark  # opens nothing
        self._looks.add(mark)
        return size, look

    def _close(self) -> str:
        closed = _OFF if self._looks else ""
        self._looks.clear()
        return closed
