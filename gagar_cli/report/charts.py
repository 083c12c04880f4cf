"""Plots as inline SVG: intervals around a line, and shares as stacked bars. Colours come from the page's style sheet.

Names and values stand above what they are of, so that a plot can be read at the width of a phone; a reader who does not see it
is told the values.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from gagar_cli.core.text import escape_untrusted, shorten

_WIDTH = 400
_ROW = 40
_MARGIN = 8
_MAX_CHARS = {"label": 30, "value": 34, "inside": 8}


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
    left, right = _MARGIN, _WIDTH - _MARGIN

    def place(value: float) -> float:
        return round(left + (value - centre + reach) / (2 * reach) * (right - left), 1)

    rows = [
        Markup('<line class="axis" x1="{x}" x2="{x}" y1="{y1}" y2="{y2}"/>').format(
            x=place(centre), y1=_ROW * number + 20, y2=_ROW * number + 36
        )
        for number in range(len(bars))
    ]
    for number, bar in enumerate(bars):
        y = _ROW * number + 28
        rows.append(_text(0, y - 14, bar.label, "label"))
        rows.append(_text(_WIDTH, y - 14, bar.shown, "value"))
        rows.append(Markup('<line class="track" x1="0" x2="{x}" y1="{y}" y2="{y}"/>').format(x=_WIDTH, y=y))
        if bar.low is not None and bar.high is not None:
            is_clear = bar.low > centre or bar.high < centre
            kind = ("up" if bar.low > centre else "down") if is_clear else "open"
            rows.append(
                Markup('<line class="range {kind}" x1="{x1}" x2="{x2}" y1="{y}" y2="{y}"/>').format(
                    kind=kind, x1=place(bar.low), x2=place(bar.high), y=y
                )
            )
        rows.append(Markup('<circle class="point" cx="{x}" cy="{y}" r="4"/>').format(x=place(bar.value), y=y))
    told = f"{title}: " + "; ".join(f"{bar.label} {bar.shown}" for bar in bars)
    return _svg(rows, height=_ROW * len(bars) + 4, title=told)


def stacked_bars(shares: Mapping[str, Sequence[float]], names: Sequence[str], *, title: str) -> Markup:
    """One bar a label, cut into shares that sum to at most 1; the parts are named in a legend."""
    rows = []
    for number, (label, parts) in enumerate(shares.items()):
        y = _ROW * number + 20
        rows.append(_text(0, y - 6, label, "label"))
        x = 0.0
        for part, share in enumerate(parts):
            size = round(_WIDTH * share, 1)
            rows.append(
                Markup(
                    '<rect class="part{part}" x="{x}" y="{y}" width="{size}" height="16">'
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
                rows.append(_text(round(x + size / 2, 1), y + 13, f"{100 * share:.0f}%", "inside"))
            x += size
    y = _ROW * len(shares) + 12
    for part, name in enumerate(names):
        x = part * 90
        rows.append(
            Markup('<rect class="part{part}" x="{x}" y="{y}" width="12" height="12"/>').format(
                part=part + 1, x=x, y=y
            )
        )
        rows.append(_text(x + 18, y + 11, name, "label"))
    told = f"{title}: " + "; ".join(
        f"{label} " + ", ".join(f"{name} {share:.0%}" for name, share in zip(names, parts, strict=True))
        for label, parts in shares.items()
    )
    return _svg(rows, height=y + 20, title=told)


def _svg(rows: Sequence[Markup], *, height: int, title: str) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">{rows}</svg>'
    ).format(width=_WIDTH, height=height, title=_safe(title), rows=Markup("").join(rows))


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    return Markup('<text class="{kind}" x="{x}" y="{y}">{text}</text>').format(
        kind=kind, x=x, y=y, text=_safe(shorten(text, _MAX_CHARS[kind]))
    )


def _safe(text: str) -> Markup:
    return escape(escape_untrusted(text, keep_newlines=False))
