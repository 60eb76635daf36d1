"""The templates beside this file, with the filters that escape for each place."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from nnfuzz.report import text
from nnfuzz.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(html: bool = False) -> Environment:
    """Templates of Markdown and Python, whose filters escape; of HTML, escaped by themselves."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("nnfuzz.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=html,
        finalize=_seen if html else None,
    )
    for filter_ in (text.inline, text.code, text.fenced, text.python, text.docstring, seconds):
        env.filters[filter_.__name__] = filter_
    env.filters["px"] = lambda number: f"{number:.1f}"
    env.filters["short"] = lambda count: f"{count:.0f}" if count < 1e4 else f"{count / 1e3:.3g}k"
    return env


def seconds(value: float) -> str:
    """A duration for people: "1.5 s", "10 min", "2 h 30 min"."""
    if value < 120:
        return f"{value:.3g} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _seen(value: object) -> object:
    return visible(value) if type(value) is str else value
