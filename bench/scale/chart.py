"""Draw lines over logarithmic axes as SVG, legible on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

Points: TypeAlias = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 400, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 14, 62, 40
_LIGHT = ("#1f6fb5", "#c2530a", "#16805a", "#8a45b0")
_DARK = ("#6cb2f0", "#f09a56", "#55c79a", "#c993e8")


def _write_colours(colours: Sequence[str]) -> str:
    return " ".join(
        f".c{index} polyline, line.c{index} {{ stroke: {colour} }} .c{index} circle {{ fill: {colour} }}"
        for index, colour in enumerate(colours)
    )


_STYLE = f"""
text {{ font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #3b4048 }}
text.title {{ font-size: 14px; font-weight: 600; fill: #16191d }}
.page {{ fill: #ffffff }} .grid {{ stroke: #e3e6ea }} .goal {{ stroke: #6b7280; stroke-dasharray: 5 4 }}
polyline {{ fill: none; stroke-width: 2; stroke-linejoin: round }} line.key {{ stroke-width: 3 }}
{_write_colours(_LIGHT)}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #c3c9d1 }} text.title {{ fill: #f0f3f6 }}
  .page {{ fill: #15191f }} .grid {{ stroke: #2c323b }} .goal {{ stroke: #98a1ad }}
  {_write_colours(_DARK)}
}}
"""


@dataclass(frozen=True)
class Chart:
    """One picture: `lines` by name, and `goal`, a line below which the others should stay.

    `unit` stands behind the numbers of the upright axis. That is logarithmic and at least two decades long, so that
    small differences look small; or `linear`, from 0.
    """

    title: str
    across: str
    unit: str
    lines: Mapping[str, Points]
    goal: tuple[str, float] | None = None
    linear: bool = False
    ticks: Sequence[float] = ()


@dataclass(frozen=True)
class _Axis:
    """Numbers, or their decimal logarithms, between two ends, and where they lie."""

    least: float
    greatest: float
    begin: float
    end: float
    linear: bool = False

    def at(self, value: float) -> float:
        scaled = value if self.linear else math.log10(value)
        return self.begin + (scaled - self.least) / (self.greatest - self.least) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.linear:
            return [self.greatest * quarter / 4 for quarter in range(5)]
        return [10.0**power for power in range(math.ceil(self.least - 1e-9), math.floor(self.greatest + 1e-9) + 1)]


def format_number(value: float) -> str:
    """Write a number as people do: 0.1, 50, 2,000, 10 M."""
    for factor, letter in ((1e6, " M"), (1e4, " k")):
        if value >= factor:
            return f"{value * (1 if factor == 1e6 else 10) / factor:g}{letter}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if 0 < value < 1 else f"{value:,.10g}"


def _round_up(value: float) -> float:
    """Return the next number whose quarters are short, too."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10) if factor * power >= value)


def _draw_upright(chart: Chart) -> _Axis:
    values = [y for points in chart.lines.values() for _, y in points] + ([chart.goal[1]] if chart.goal else [])
    if chart.linear:
        return _Axis(0, _round_up(max(values)), HEIGHT - _BOTTOM, _TOP, linear=True)
    least, greatest = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return _Axis(min(least, greatest - 2), greatest, HEIGHT - _BOTTOM, _TOP)


def _draw_legend(names: Sequence[str]) -> Iterator[str]:
    x = float(_LEFT)
    for index, name in enumerate(names):
        yield f'<line class="key c{index % len(_LIGHT)}" x1="{x:.0f}" x2="{x + 14:.0f}" y1="42" y2="42"/>'
        yield f'<text x="{x + 18:.0f}" y="46">{escape(name)}</text>'
        x += 30 + 6.8 * len(name)


def _draw(chart: Chart) -> Iterator[str]:
    across = [x for points in chart.lines.values() for x, _ in points]
    horizontal = _Axis(math.log10(min(across)), math.log10(max(across)), _LEFT + 8, WIDTH - _RIGHT - 8)
    upright = _draw_upright(chart)
    yield f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    yield f'<text class="title" x="14" y="22">{escape(chart.title)}</text>'
    yield from _draw_legend(list(chart.lines))
    for value in upright.ticks():
        y = upright.at(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = f"{format_number(value)} {escape(chart.unit)}"
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for value in chart.ticks or horizontal.ticks():
        x = horizontal.at(value)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{format_number(value)}</text>'
    middle = (_LEFT + WIDTH - _RIGHT) // 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(chart.across)}</text>'
    if chart.goal is not None:
        y = upright.at(chart.goal[1])
        yield f'<line class="goal" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{WIDTH - _RIGHT - 4}" y="{y - 5:.1f}" text-anchor="end">{escape(chart.goal[0])}</text>'
    for index, points in enumerate(chart.lines.values()):
        places = [(horizontal.at(x), upright.at(y)) for x, y in points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<g class="c{index % len(_LIGHT)}"><polyline points="{joined}"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places)
        yield "</g>"


def draw_svg(charts: Sequence[Chart]) -> str:
    """Draw charts beside each other, two in a row."""
    columns = min(2, len(charts))
    width = columns * (WIDTH + 10) - 10
    height = -(-len(charts) // columns) * (HEIGHT + 10) - 10
    titles = "; ".join(chart.title for chart in charts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(titles)}">',
        f"<style>{_STYLE}</style>",
    ]
    for index, chart in enumerate(charts):
        x, y = index % columns * (WIDTH + 10), index // columns * (HEIGHT + 10)
        parts += [f'<g transform="translate({x} {y})">', *_draw(chart), "</g>"]
    return "\n".join([*parts, "</svg>", ""])
