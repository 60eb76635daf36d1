"""The templates beside this file, with the filters that escape for each place."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nnfuzz.base.text import visible
from nnfuzz.report import text
from nnfuzz.report.text import Quoted

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context


@cache
def environment(html: bool = False) -> Environment:
    """Templates of Markdown and Python, or of HTML.

    Every text is quoted for its place: by a filter, or else by `_quoted`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context

    env = Environment(
        loader=PackageLoader("nnfuzz.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=html,
        finalize=pass_context(_quoted),
    )
    for filter_ in (text.inline, text.code, text.fenced, text.python, text.docstring, seconds):
        env.filters[filter_.__name__] = filter_
    env.filters["px"] = lambda number: f"{number:.1f}"
    return env


def seconds(value: float) -> str:
    """A duration for people: "1.5 s", "10 min", "2 h 30 min"."""
    if value < 120:
        return f"{value:.3g} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _quoted(context: Context, value: Any) -> object:
    """A value that no filter has made anything of, so that it stays inside of its place."""
    if value is None or isinstance(value, int | float | Quoted | Markup):
        return value
    name = context.name or ""
    if ".md" in name:
        return text.inline(value)
    return text.docstring(value) if ".py" in name else visible(str(value))
