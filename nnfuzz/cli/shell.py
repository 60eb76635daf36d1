"""How commands meet the shell: --help in groups, text that it can show, pipes closed early."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from nnfuzz.text import visible

ARGUMENTS, OTHERS = "Arguments", "Options"


class Grouped(TyperCommand):
    """A command whose --help lists options under their `rich_help_panel`, in plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)


class GroupedGroup(TyperGroup):
    """The same for a command with sub-commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes a section per panel, in the order of the parameters; options without one come last."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            argument = param.param_type_name == "argument"
            panel = getattr(param, "rich_help_panel", None)
            name = ARGUMENTS if argument else panel or OTHERS
            sections.setdefault(name, []).append(record)
    for name in sorted(sections, key=lambda name: (name != ARGUMENTS, name == OTHERS)):
        with formatter.section(name):
            formatter.write_dl(sections[name])


class _Survivor(io.FileIO):
    """A stream that drops what it is told once its reader has gone, as `head` does.

    The command goes on: a campaign ends with its summary and its exit code all the same.
    """

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


class _Visible(io.TextIOWrapper):
    """A stream of text that no compiler, model or file can steer the terminal with.

    What its encoding does not have is escaped, too.
    """

    def write(self, text: str) -> int:
        super().write(visible(text))
        return len(text)


def guard_streams() -> None:
    """Has stdout and stderr show invisible characters, and outlive their readers.

    sys.__stdout__ and sys.__stderr__ stay what they were, for what draws on a terminal.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None:
            stream.flush()
            stream.reconfigure(errors="backslashreplace")
            buffer = io.BufferedWriter(_Survivor(stream.fileno(), "w", closefd=False))
            lines = name == "stderr" or stream.isatty()
            text = _Visible(buffer, stream.encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, text)
