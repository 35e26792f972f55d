"""A chart of costs as SVG: a group of bars for each stream, on a logarithmic axis."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

__all__ = ["Bar", "Group", "draw"]

_LEFT, _WIDTH, _ROW, _HEAD = 190, 480, 19, 30
_TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000)
# Readable on the white and on the dark page of GitHub.
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.name { text-anchor: end } .tick { text-anchor: middle; fill: #656d76 } .head { font-weight: 600 }
.bar { fill: #9aa4b0 } .ours { fill: #0a7d62 } .grid { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .tick { fill: #9198a1 } .bar { fill: #656d76 } .ours { fill: #2bb594 }
.grid { stroke: #3d444d }
}
"""


class Bar(NamedTuple):
    """The cost of one side.

    Attributes:
        name: The side.
        version: Its version.
        microseconds: The cost; None if the message was wrong.
        fault: What was wrong.
    """

    name: str
    version: str
    microseconds: float | None
    fault: str | None


class Group(NamedTuple):
    """The costs of one stream.

    Attributes:
        name: The stream.
        bars: The sides that convert it.
    """

    name: str
    bars: list[Bar]


def draw(groups: list[Group], ours: str) -> str:
    """Return a chart as an SVG document; the bars of `ours` stand out."""
    costs = [bar.microseconds for group in groups for bar in group.bars if bar.microseconds]
    largest = next((tick for tick in _TICKS if tick >= max(costs)), _TICKS[-1])
    scale = _WIDTH / math.log(largest / _TICKS[0])

    def length(microseconds: float) -> float:
        return max(scale * math.log(max(microseconds, _TICKS[0]) / _TICKS[0]), 2.0)

    height = _HEAD + sum(_ROW * (len(group.bars) + 2) for group in groups)
    parts = []
    for tick in _TICKS[: _TICKS.index(largest) + 1]:
        x = _LEFT + scale * math.log(tick / _TICKS[0])
        parts.append(
            f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="{_HEAD - 8}" y2="{height}"/>'
        )
        parts.append(f'<text class="tick" x="{x:.0f}" y="14">{tick} µs</text>')
    y = _HEAD
    for group in groups:
        parts.append(f'<text class="head" x="4" y="{y + 14}">{escape(group.name)}</text>')
        y += _ROW
        for bar in group.bars:
            name = escape(bar.name if bar.name == ours else f"{bar.name} {bar.version}")
            parts.append(f'<text class="name" x="{_LEFT - 6}" y="{y + 13}">{name}</text>')
            at, text = float(_LEFT), escape(str(bar.fault))
            if bar.microseconds is not None:
                kind = "bar ours" if bar.name == ours else "bar"
                width = length(bar.microseconds)
                parts.append(
                    f'<rect class="{kind}" x="{_LEFT}" y="{y + 2}" width="{width:.0f}" '
                    f'height="{_ROW - 5}"/>'
                )
                at, text = at + width, _rounded(bar.microseconds)
            parts.append(f'<text x="{at + 5:.0f}" y="{y + 13}">{text}</text>')
            y += _ROW
        y += _ROW
    whole = _LEFT + _WIDTH + 90
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height}" '
        f'width="{whole}" height="{height}" role="img">\n<title>CPU of an event in µs</title>\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _rounded(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 10 else f"{microseconds:.0f}"
