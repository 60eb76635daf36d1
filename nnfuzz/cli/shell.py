"""How commands meet the shell: --help in groups, text that it can show, pipes closed early."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nnfuzz.base.text import one_line, uncommanding, visible
from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.options import OTHERS, PANELS
from nnfuzz.records.settings import SETTINGS

_USAGE_ERROR: Any = typer.BadParameter.__base__
"""The UsageError of typer's click, which may be a copy of its own."""
ARGUMENTS = "Arguments"


class Grouped(TyperCommand):
    """A command whose --help lists options by their panels, in plain text."""

    def format_options(self, ctx: object, formatter: object) -> None:
        write_options(self, ctx, formatter)


@contextmanager
def usage_in_one_line() -> Iterator[None]:
    """Raises: UsageError for click's, which takes four lines. Its message adds what the user
    probably meant by an argument too many, or by an option that is the name of a setting.
    """
    try:
        yield
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command shows its help
            raise
        context, name = error.ctx, getattr(error, "option_name", "").removeprefix("--")
        params = context.command.params if context else ()
        message = one_line(error.format_message()).rstrip(".")
        if message.startswith("Got unexpected extra argument"):
            message += _meant(message)
        elif name in SETTINGS and any("--set" in param.opts for param in params):
            message = f"{name} is a setting: --set {name}={SETTINGS[name].kind.unit}"
        usage = f" (see {context.command_path} --help)" if context else ""
        raise UsageError(f"{message}{usage}") from error


def _meant(message: str) -> str:
    if ".onnx" in message:
        return ". A model is checked by nnfuzz check; --set seed-models=DIR starts from models"
    return ". Several names of one option are joined by commas, as in --operators Add,Mul"


class GroupedGroup(TyperGroup):
    """The same for a command with sub-commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Writes a section for the arguments, then one per panel, without those that are empty."""
    sections: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], **{p.title: [] for p in PANELS}}
    for param in command.get_params(ctx):
        argument = param.param_type_name == "argument"
        panel = getattr(param, "rich_help_panel", None) or OTHERS.title
        if record := param.get_help_record(ctx):
            sections[ARGUMENTS if argument else panel].append(record)
    for name, records in sections.items():
        if records:
            with formatter.section(name):
                formatter.write_dl(records)


_STDOUT, _STDERR = 1, 2


class _Survivor(io.FileIO):
    """A stream that drops its text once its reader, such as `head`, has gone.

    The command goes on: a campaign ends with its summary and its exit code all the same. Results
    that do not fit on the disk are an error, messages are none.
    """

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError) or self.fileno() == _STDERR:
                return len(data)
            raise


class _Visible(io.TextIOWrapper):
    """A stream of text that no compiler, model or file can steer the terminal with, or the server
    of continuous integration that keeps it as a log.

    What its encoding does not have is escaped, too.
    """

    _inside = False  # of a line that has begun

    def write(self, text: str) -> int:
        super().write(uncommanding(visible(text), self._inside))
        _, ends, last = text.rpartition("\n")
        self._inside = bool(last.strip()) or (self._inside and not ends)
        return len(text)


def guard_streams() -> None:
    """Makes stdout and stderr escape invisible characters, and outlive their readers.

    sys.__stdout__ and sys.__stderr__ stay unchanged, for code that draws on a terminal. Streams
    that are closed lead nowhere: the next file to be opened must not get the number of one.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(opened, True)
    os.close(opened)
    for number, name in ((_STDOUT, "stdout"), (_STDERR, "stderr")):
        stream = getattr(sys, name) or os.fdopen(number, "w", encoding="utf-8", closefd=False)
        stream.flush()
        stream.reconfigure(errors="backslashreplace")
        buffer = io.BufferedWriter(_Survivor(number, "w", closefd=False))
        lines = name == "stderr" or stream.isatty()
        text = _Visible(buffer, stream.encoding, "backslashreplace", line_buffering=lines)
        setattr(sys, name, text)
