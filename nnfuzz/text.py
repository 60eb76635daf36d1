"""Text of strangers (compilers, models, files), made safe for a terminal, a page, a database."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def visible(text: str) -> str:
    """Without terminal escapes for colours; other characters that do not print are shown as \\x1b.

    These are control characters, lone surrogates, and what Unicode has to turn the direction of
    writing. The result can be encoded in UTF-8, and has line breaks and tabs. Idempotent.
    """
    if text.isprintable():  # nearly all, and fast to tell
        return text
    return "\n".join(map(_visible, text.replace("\r\n", "\n").split("\n")))


def one_line(text: object) -> str:
    """The text of anything, visible, on one line: nothing in it can begin a line of its own."""
    return " ".join(visible(str(text)).split())


def _visible(line: str) -> str:
    if line.isprintable():
        return line
    shown = _COLOUR.sub("", line)
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in shown)
