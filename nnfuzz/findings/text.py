"""Text from compilers, made safe to stand in Markdown, Python and HTML; and the templates."""

from __future__ import annotations

import pprint
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from nnfuzz.base.code_paths import CodePaths, short_here
from nnfuzz.base.reading import Json
from nnfuzz.base.text import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#])")
_CALLING = re.compile(r"(?<!\w)@(?=\w)|#(?=\d)|(?<=\bGH-)(?=\d)", re.IGNORECASE)
"""Text that trackers turn into a link to a person or another issue, even where it is escaped."""
_APART = "&#8203;"  # a space without width


class Quoted(str):
    """Text that is Markdown or Python already, and goes into a template as it is."""


def trimmed(text: str, limit: int) -> str:
    """The text, or its first and last characters with a note of how much is missing between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


_TEMPORARY = re.compile(r"/(?:var/)?tmp/[^\s'\":,()<>|]*")
_HOMES = re.compile(r"(?:/home/[^\s/'\":,()<>]+|/Users/[^\s/'\":,()<>]+|/root)(?=/|\b)")


def impersonal(text: str) -> str:
    """Without paths of this machine: files below the working directory and in the folders of
    modules by their path in these, homes as ~, temporary files as TMP.
    """
    folder = str(Path.cwd())
    text = CodePaths(short={**short_here(), folder: ""}).shortened(text)
    text = text.replace(folder, ".") if folder.count("/") > 1 else text
    return _HOMES.sub("~", _TEMPORARY.sub("TMP", text))


def impersonal_json(value: Json) -> Json:
    """A JSON value with `impersonal` applied to every string in it."""
    if isinstance(value, str):
        return impersonal(value)
    if isinstance(value, Mapping):
        return {key: impersonal_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [impersonal_json(item) for item in value]
    return value


def portable(path: str) -> str:
    """The path of a file that is read again: relative to the working directory or to ~."""
    file, here = Path(path).absolute(), Path.cwd()
    if file.is_relative_to(here) and len(here.parts) > 1:
        return str(file.relative_to(here))
    return homely(str(file))


def homely(path: str) -> str:
    """The path with ~ in place of the home folder."""
    file, home = Path(path), Path.home()
    inside = file.is_relative_to(home) and len(home.parts) > 1
    return str(Path("~") / file.relative_to(home)) if inside else path


def from_portable(path: str) -> str:
    """The inverse of `portable`."""
    return str(Path(path).expanduser().absolute())


def inline(text: Any) -> Quoted:
    """One line of plain Markdown text: every character stands for itself, and calls nobody."""
    plain = _SPECIAL.sub(r"\\\1", one_line(text))
    return Quoted(_CALLING.sub(rf"\g<0>{_APART}", plain))


def code(text: Any) -> Quoted:
    """A Markdown code span of one line, also inside of a table cell."""
    plain = one_line(text).replace("|", "\\|")
    ticks = "`" * (_longest_run(plain) + 1)
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Quoted(f"{ticks}{pad}{plain}{pad}{ticks}" if plain else "")


def fenced(text: str, language: str = "", limit: int = 6000) -> Quoted:
    """A fenced code block that nothing in the text can close, of `limit` characters at most."""
    body = trimmed(visible(text).strip("\n"), limit)
    fence = "`" * max(3, _longest_run(body) + 1)
    return Quoted(f"{fence}{language}\n{body}\n{fence}")


def python(
    value: str | int | float | tuple[Any, ...] | list[Any] | dict[Any, Any] | None,
) -> Quoted:
    """The value as a Python literal in ASCII. Floats in it must be finite."""
    printed = pprint.pformat(value, width=88, sort_dicts=False)
    return Quoted(printed if printed.isascii() else ascii(value))


def docstring(text: Any) -> Quoted:
    """One line that can stand inside of a triple-quoted Python string."""
    line = one_line(text)
    return Quoted(ascii(line)[1:-1].replace('"', "'").replace("\\'", "'"))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


@cache
def environment(html: bool = False) -> Environment:
    """Templates of Markdown and Python, or of HTML.

    Every text is quoted for its place: by a filter, or else by `_quoted`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context

    env = Environment(
        loader=PackageLoader("nnfuzz.findings"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=html,
        finalize=pass_context(_quoted),
    )
    for filter_ in (inline, code, fenced, python, docstring, seconds):
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
        return inline(value)
    return docstring(value) if ".py" in name else visible(str(value))
