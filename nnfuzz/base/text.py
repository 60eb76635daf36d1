"""Text of strangers (compilers, models, files), made safe for a terminal, a page, a database."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"^([^\S\n]*)::|##(\w*)\[", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def visible(text: str) -> str:
    """Without terminal escapes for colours; other characters that do not print are written as
    \\x1b.

    These are control characters, lone surrogates, and what Unicode has to turn the direction of
    writing. The result can be encoded in UTF-8, and has line breaks and tabs. Idempotent.
    """
    if text.isprintable():  # nearly all texts are, and this check is fast
        return text
    return "\n".join(map(_visible, text.replace("\r\n", "\n").split("\n")))


def one_line(text: object) -> str:
    """The text of anything, visible, on one line: nothing in it can begin a line of its own."""
    return " ".join(visible(str(text)).split())


def uncommanding(text: str, inside: bool = False) -> str:
    """Text for the log of a job: no line of it is a command to the server that runs the job.

    GitHub, Azure and TeamCity take a line of a log for a command that begins with "::" or holds
    "##[", "##vso[" or the like, even if a compiler has printed it: a backslash is put inside.
    inside: whether the text goes on in a line that has begun.
    """
    if inside:
        return uncommanding(f"-{text}")[1:]
    return _COMMAND.sub(_escaped, text) if "::" in text or "##" in text else text


def _escaped(command: re.Match[str]) -> str:
    return f"{command[1]}\\::" if command[1] is not None else f"#\\#{command[2]}["


def _visible(line: str) -> str:
    if line.isprintable():
        return line
    plain = _COLOUR.sub("", line)
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in plain)
