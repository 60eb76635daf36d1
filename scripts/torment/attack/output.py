"""Checks the output of commands as its readers see it whom a hostile text could harm: a terminal,
the log of a job, a browser, and a tracker that shows Markdown.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from nnfuzz.base.text import uncommanding, visible

HOSTILE = (
    "x\n::error file=a::planted",
    "##[error]planted",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "](javascript:alert(1)) [x",
    "`| <b>x</b> |`\n\n# planted\n```",
    "@nobody #12",
)
"""Texts that try to escape from their context."""
_FENCED = re.compile(r"^(`{3,})[^\n`]*\n.*?^\1`*[ ]*$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<![\\`])(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_RAW = re.compile(r"(?<!\\)<(?:script|img|b>)|(?<!\\)\]\(javascript|^# planted", re.MULTILINE)
_SCRIPTS = 1  # of a page: nnfuzz's own


def trouble_of_text(text: str) -> str:
    """Harm that a printed text would do to a terminal or to the server that keeps it as a log."""
    if visible(text) != text:
        return "it steers the terminal"
    return "" if uncommanding(text) == text else "it holds a command for a CI server"


def trouble_of_markdown(text: str) -> str:
    """Foreign HTML, links and headings in a Markdown text, outside of code."""
    found = _RAW.search(_SPAN.sub("", _FENCED.sub("", text)))
    return f"it holds {found[0]!r} outside of code" if found else ""


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.trouble = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.trouble = f"<{tag} {name}={value!r}>"
        if tag in ("img", "iframe", "object", "embed", "base"):
            self.trouble = f"<{tag}>"


def trouble_of_pages(folder: Path) -> str:
    """Everything but nnfuzz's own script that the HTML pages below a folder would run or load."""
    for path in folder.rglob("*.html"):
        page = _Page()
        page.feed(path.read_text("utf-8"))
        if page.trouble or page.scripts > _SCRIPTS:
            return f"{path.name} holds {page.trouble or f'{page.scripts} scripts'}"
    return ""
