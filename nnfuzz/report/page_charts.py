"""Charts of a campaign's page as SVG without scripts; colours come from the page's CSS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from nnfuzz.text import visible

_LEFT, _BARS, _RIGHT = 110, 600, 90
_ROW, _BAR = 30, 22


def timeline(rows: Mapping[str, Sequence[int]], width: float) -> str:
    """An SVG with a row of bars per kind, each row on its own scale. width: seconds per bar."""
    shown = {name: counts for name, counts in rows.items() if any(counts)}
    total = _LEFT + _BARS + _RIGHT
    parts = [_row(i, name, counts, width) for i, (name, counts) in enumerate(shown.items())]
    bottom = _ROW * len(shown) + 16
    count = max((len(counts) for counts in shown.values()), default=0)
    parts.append(_text(_LEFT, bottom - 2, "0 s", "c-small"))
    parts.append(_text(_LEFT + _BARS, bottom - 2, seconds(width * count), "c-small", "end"))
    return _svg(total, bottom + 4, parts, "Outcomes over time")


def curve(name: str, points: Sequence[tuple[float, float]], x_label: str = "tests") -> str:
    """An SVG of a growing count over `points` (x, y); both axes begin at zero."""
    width, height, left, low = 256, 160, 46, 128
    right, top = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    path = "L".join(
        f"{left + (width - left - 10) * x / right:.1f} {low - (low - 30) * y / top:.1f}"
        for x, y in points
    )
    return _svg(
        width,
        height,
        [
            _text(2, 14, name, "c-title"),
            f'<path class="c-axis" d="M{left} 26V{low}H{width - 8}"/>',
            f'<path class="c-line" d="M{path}"/>',
            _text(left - 6, 36, _short(top), "c-small", "end"),
            _text(left - 6, low, "0", "c-small", "end"),
            _text(width - 8, low + 16, f"{_short(right)} {x_label}", "c-small", "end"),
        ],
        f"{name}: {top:.0f} after {right:.0f} {x_label}",
    )


def seconds(value: float) -> str:
    """A duration for people: "1.5 s", "10 min", "2 h 30 min"."""
    if value < 120:
        return f"{value:.3g} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _row(place: int, name: str, counts: Sequence[int], width: float) -> str:
    low, step, most = _ROW * place + 25, _BARS / len(counts), max(counts)
    bars = "".join(
        f'<rect x="{_LEFT + i * step:.1f}" y="{low - max(1.5, _BAR * n / most):.1f}" '
        f'width="{step - 1:.1f}" height="{max(1.5, _BAR * n / most):.1f}">'
        f"<title>{n} {_escaped(name)} between {seconds(i * width)} and {seconds((i + 1) * width)}"
        "</title></rect>"
        for i, n in enumerate(counts)
        if n
    )
    return (
        f'<g class="c-{_escaped(name.split()[0])}">{bars}</g>'
        f'<path class="c-axis" d="M{_LEFT} {low}H{_LEFT + _BARS}"/>'
        + _text(_LEFT - 8, low - 4, name, "c-name", "end")
        + _text(_LEFT + _BARS + 8, low - 4, f"{sum(counts)}", "c-name")
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value < 10_000 else f"{value / 1000:.3g}k"


def _text(x: float, y: float, text: str, name: str, anchor: str = "start") -> str:
    return f'<text class="{name}" x="{x}" y="{y}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}"><title>{_escaped(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _escaped(text: str) -> str:
    return escape(visible(str(text)))
