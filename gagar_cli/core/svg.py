"""Plots as SVG text: lines with bands over a number axis, and dots on a scale, one panel below the other.

Only what the program's own figures need. Text is escaped; a value that is not finite is left out. Colours follow the
reader's light or dark scheme; lines have dashes too, for those that lie on each other and for print.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gagar_cli.core.text import shorten

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 150, 150, 34, 40
_LINE_HEIGHT = 220
_ROW_HEIGHT = 20
_MAX_MARKED_POINTS = 12
_MAX_NAME_CHARS = 22
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 3", "12 4")
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b87f00", "#56b4e9", "#000000")
"""Told apart by colour-blind eyes (Okabe and Ito), the yellow darker to be seen on white."""
_DARK = ("#4aa8e0", "#ff8a3d", "#2fc79c", "#e3a3c6", "#f0b840", "#a9dbff", "#ffffff")


def _colours(colours: Sequence[str], page: str, ink: str, grid: str) -> str:
    rules = [f".page{{fill:{page}}}text{{fill:{ink}}}.grid{{stroke:{grid}}}"]
    rules += [
        f".line{number}{{stroke:{colour}}}.area{number}{{fill:{colour}}}"
        for number, colour in enumerate(colours)
    ]
    return "".join(rules)


_STYLE = (
    f"{_colours(_LIGHT, '#fff', '#1f2328', '#d8dce0')}"
    f"@media(prefers-color-scheme:dark){{{_colours(_DARK, '#0d1117', '#d6dbe1', '#333a42')}}}"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its points by x, and maybe a band of the same length around it."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()
    """Lower and upper y at each point."""


@dataclass(frozen=True, slots=True)
class LinePanel:
    """Lines over a common x."""

    title: str
    x_label: str
    series: Sequence[Series]

    @property
    def height(self) -> int:
        """Pixels."""
        return _TOP + _LINE_HEIGHT + _BOTTOM

    def draw(self, top: float) -> Iterable[str]:
        """Its elements, `top` pixels from the top."""
        xs = [x for each in self.series for x, _ in each.points]
        ys = [y for each in self.series for _, y in each.points]
        ys += [y for each in self.series for pair in each.band for y in pair]
        x_scale = _Scale(xs, _LEFT, _WIDTH - _RIGHT)
        y_scale = _Scale(ys, top + _TOP + _LINE_HEIGHT, top + _TOP)
        yield _text(_LEFT, top + 20, self.title, weight="bold")
        yield from _frame(x_scale, y_scale)
        yield _text((x_scale.start + x_scale.end) / 2, y_scale.start + 34, self.x_label, anchor="middle")
        for place, each in enumerate(self.series):
            number = place % len(_LIGHT)
            drawn = (
                f'class="line{number}" stroke-dasharray="{_DASHES[number]}" fill="none" stroke-width="1.8"'
            )
            points = [(x_scale.at(x), y_scale.at(y)) for x, y in each.points if math.isfinite(y)]
            if each.band:
                pairs = list(zip(each.points, each.band, strict=True))
                lower = [(x_scale.at(x), y_scale.at(low)) for (x, _), (low, _) in pairs]
                upper = [(x_scale.at(x), y_scale.at(high)) for (x, _), (_, high) in pairs]
                area = _joined([*lower, *reversed(upper)])
                yield f'<polygon points="{area}" class="area{number}" opacity="0.12"/>'
            yield f'<polyline points="{_joined(points)}" {drawn}/>'
            if len(points) <= _MAX_MARKED_POINTS:
                yield from (
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" class="area{number}"/>' for x, y in points
                )
            height = top + _TOP + 8 + place * 16
            start = _WIDTH - _RIGHT + 12
            yield f'<line x1="{start}" x2="{start + 24}" y1="{height - 3:.1f}" y2="{height - 3:.1f}" {drawn}/>'
            yield _text(start + 30, height + 1, shorten(each.name, _MAX_NAME_CHARS))


@dataclass(frozen=True, slots=True)
class DotPanel:
    """One row a name, with its values as dots on a common scale."""

    title: str
    x_label: str
    rows: Sequence[tuple[str, Sequence[float]]]

    @property
    def height(self) -> int:
        """Pixels."""
        return _TOP + _ROW_HEIGHT * len(self.rows) + _BOTTOM

    def draw(self, top: float) -> Iterable[str]:
        """Its elements, `top` pixels from the top."""
        values = [value for _, row in self.rows for value in row if math.isfinite(value)]
        scale = _Scale(values, _LEFT, _WIDTH - _RIGHT)
        bottom = top + _TOP + _ROW_HEIGHT * len(self.rows)
        yield _text(_LEFT, top + 20, self.title, weight="bold")
        for value in scale.ticks:
            x = scale.at(value)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + _TOP:.1f}" y2="{bottom:.1f}" class="grid"/>'
            yield _text(x, bottom + 16, f"{value:g}", anchor="middle")
        yield _text((scale.start + scale.end) / 2, bottom + 34, self.x_label, anchor="middle")
        for number, (name, row) in enumerate(self.rows):
            y = top + _TOP + _ROW_HEIGHT * (number + 0.5)
            yield _text(_LEFT - 8, y + 4, shorten(name, _MAX_NAME_CHARS), anchor="end")
            for value in row:
                if math.isfinite(value):
                    yield f'<circle cx="{scale.at(value):.1f}" cy="{y:.1f}" r="3.5" class="area0" opacity="0.6"/>'


def draw_svg(panels: Sequence[LinePanel | DotPanel]) -> str:
    """The panels below each other as one SVG document."""
    height = sum(panel.height for panel in panels)
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" class="page"/>',
    ]
    top = 0
    for panel in panels:
        parts += panel.draw(top)
        top += panel.height
    return "\n".join([*parts, "</svg>\n"])


class _Scale:
    """From values to pixels, over round numbers."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        span = (high - low) or abs(high) or 1.0
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
        self._low = math.floor(low / step + 1e-9) * step
        n_steps = max(1, math.ceil((high - self._low) / step - 1e-9))
        self._high = self._low + n_steps * step
        self.ticks = [round(self._low + number * step, 12) for number in range(n_steps + 1)]
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return self.start + share * (self.end - self.start)


def _frame(x_scale: _Scale, y_scale: _Scale) -> Iterable[str]:
    for value in y_scale.ticks:
        y = y_scale.at(value)
        yield f'<line x1="{x_scale.start}" x2="{x_scale.end}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        yield _text(x_scale.start - 8, y + 4, f"{value:g}", anchor="end")
    for value in x_scale.ticks:
        yield _text(x_scale.at(value), y_scale.start + 16, f"{value:g}", anchor="middle")


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'
    )


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
