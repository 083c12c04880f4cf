"""Plots as inline SVG: intervals around a line, and shares as stacked bars. Colours come from the page's style sheet."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from gagar_cli.core.text import escape_untrusted, shorten

_WIDTH = 720
_LABEL = 170
_ROW = 30
_MAX_LABEL_CHARS = 24


class Bar(NamedTuple):
    """A value with its interval; without one only the point is drawn."""

    label: str
    value: float
    low: float | None
    high: float | None
    shown: str
    """The value as text, at the right."""


def interval_chart(bars: Sequence[Bar], *, centre: float, title: str) -> Markup:
    """Points with intervals around a line at `centre`; nothing to draw gives an empty text."""
    if not bars:
        return Markup("")
    ends = [end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
    reach = max([1e-9, *(abs(end - centre) for end in ends)]) * 1.1
    left, right = _LABEL, _WIDTH - 190

    def place(value: float) -> float:
        return round(left + (value - centre + reach) / (2 * reach) * (right - left), 1)

    rows = [
        Markup('<line class="axis" x1="{x}" x2="{x}" y1="4" y2="{y}"/>').format(
            x=place(centre), y=_ROW * len(bars) + 2
        )
    ]
    for number, bar in enumerate(bars):
        y = _ROW * number + 18
        rows.append(_text(0, y + 4, bar.label, "label"))
        if bar.low is not None and bar.high is not None:
            is_clear = bar.low > centre or bar.high < centre
            kind = ("up" if bar.low > centre else "down") if is_clear else "open"
            rows.append(
                Markup('<line class="range {kind}" x1="{x1}" x2="{x2}" y1="{y}" y2="{y}"/>').format(
                    kind=kind, x1=place(bar.low), x2=place(bar.high), y=y
                )
            )
        rows.append(Markup('<circle class="point" cx="{x}" cy="{y}" r="4"/>').format(x=place(bar.value), y=y))
        rows.append(_text(right + 12, y + 4, bar.shown, "value"))
    return _svg(rows, height=_ROW * len(bars) + 8, title=title)


def stacked_bars(shares: Mapping[str, Sequence[float]], names: Sequence[str], *, title: str) -> Markup:
    """One bar a label, cut into shares that sum to at most 1; the parts are named in a legend."""
    rows = []
    left, width = _LABEL, _WIDTH - _LABEL - 10
    for number, (label, parts) in enumerate(shares.items()):
        y = _ROW * number + 6
        rows.append(_text(0, y + 15, label, "label"))
        x = float(left)
        for part, share in enumerate(parts):
            size = round(width * share, 1)
            rows.append(
                Markup(
                    '<rect class="part{part}" x="{x}" y="{y}" width="{size}" height="20">'
                    "<title>{name} {share}</title></rect>"
                ).format(
                    part=part + 1,
                    x=round(x, 1),
                    y=y,
                    size=size,
                    name=_safe(names[part]),
                    share=f"{100 * share:.1f}%",
                )
            )
            if share >= 0.08:
                rows.append(_text(round(x + size / 2, 1), y + 14, f"{100 * share:.0f}%", "inside"))
            x += size
    y = _ROW * len(shares) + 16
    for part, name in enumerate(names):
        x = left + part * 110
        rows.append(
            Markup('<rect class="part{part}" x="{x}" y="{y}" width="12" height="12"/>').format(
                part=part + 1, x=x, y=y
            )
        )
        rows.append(_text(x + 18, y + 11, name, "label"))
    return _svg(rows, height=y + 20, title=title)


def _svg(rows: Sequence[Markup], *, height: int, title: str) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{rows}</svg>'
    ).format(width=_WIDTH, height=height, title=_safe(title), rows=Markup("").join(rows))


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    return Markup('<text class="{kind}" x="{x}" y="{y}">{text}</text>').format(
        kind=kind, x=x, y=y, text=_safe(shorten(text, _MAX_LABEL_CHARS if kind == "label" else 60))
    )


def _safe(text: str) -> Markup:
    return escape(escape_untrusted(text, keep_newlines=False))
