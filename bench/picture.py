"""The ratios as a bar chart, in SVG that is readable on light and on dark."""

import math
from html import escape

from .results import Results

__all__ = ["chart"]

WIDTH, LEFT, RIGHT, TOP = 1040, 470, 70, 74  # left of the bars: room for the longest title
BAR, GAP, GROUP = 13, 3, 14
_BARS = {"memory": "accord, memory", "sqlite": "accord, sqlite"}

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de }
.memory { fill: #0969da }
.sqlite { fill: #54aeff }
.limit { stroke: #cf222e; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .memory { fill: #4493f8 }
  .sqlite { fill: #1f5fad }
  .limit { stroke: #f85149 }
}
"""


def chart(results: Results) -> str:
    """Return the picture: a group of bars per row, on a scale where each step is ten times the
    last.
    """
    ids = [id_ for id_ in results.rows if results.ratio(id_, "memory") is not None]
    ratios = {
        (id_, c): r.median
        for id_ in ids
        for c in (*_BARS, "raw")
        if (r := results.ratio(id_, c)) is not None
    }
    decades = max(math.ceil(math.log10(max([10.0, *ratios.values()]))), 1)
    step = (WIDTH - LEFT - RIGHT) / decades

    def x(ratio: float) -> float:
        return LEFT + max(math.log10(ratio), 0) * step if ratio > 0 else LEFT

    body, y = [], float(TOP)
    for id_ in ids:
        body.append(_text(LEFT - 10, y + BAR + 2, results.rows[id_].title, "", "end"))
        top = y
        for column in _BARS:
            if (ratio := ratios.get((id_, column))) is not None:
                body.append(
                    f'<rect class="{column}" x="{LEFT}" y="{y:.0f}" '
                    f'width="{max(x(ratio) - LEFT, 1):.1f}" height="{BAR}" rx="2"/>'
                )
                body.append(
                    _text(
                        x(ratio) + 6,
                        y + 11,
                        f"{ratio:.0f}x" if ratio >= 20 else f"{ratio:.1f}x",
                        "small",
                    )
                )
                y += BAR + GAP
        if (limit := ratios.get((id_, "raw"))) is not None:
            body.append(
                f'<line class="limit" x1="{x(limit):.1f}" x2="{x(limit):.1f}" '
                f'y1="{top - 2:.0f}" y2="{y - 1:.0f}"/>'
            )
        y += GROUP
    grid = [
        f'<line class="grid" x1="{LEFT + i * step:.1f}" x2="{LEFT + i * step:.1f}" '
        f'y1="{TOP - 8}" y2="{y:.0f}"/>'
        + _text(LEFT + i * step, y + 14, f"{10**i:,}x", "small", "middle")
        for i in range(decades + 1)
    ]
    height = y + 28
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'role="img" aria-label="{_TITLE}">',
        f"<style>{_STYLE}</style>",
        _text(16, 26, _TITLE, "title"),
        *_legend(),
    ]
    return "\n".join([*head, *grid, *body, "</svg>", ""])


_TITLE = "How many times cheaper than a2a-sdk (server CPU, memory, start-up)"


def _legend() -> list[str]:
    found, left = [], 16
    for column, title in _BARS.items():
        found.append(
            f'<rect class="{column}" x="{left}" y="40" width="{BAR}" height="{BAR}" rx="2"/>'
            + _text(left + 19, 51, title, "small")
        )
        left += 130
    found.append(f'<line class="limit" x1="{left + 6}" x2="{left + 6}" y1="39" y2="54"/>')
    return [*found, _text(left + 15, 51, "prepared bytes from a bare uvicorn", "small")]


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'
