"""The options that several commands share, as annotated types; None where one is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.consent import remember
from nnfuzz.cli.declared import OTHERS, SUPPORT, TESTED, option_of
from nnfuzz.records.settings import SETTINGS

Exporter = Annotated[str | None, option_of("exporter")]
Opset = Annotated[int | None, option_of("opset")]
Levels = Annotated[list[str] | None, option_of("level")]


def _named(context: typer.Context, plugins: list[Path] | None) -> list[Path] | None:
    """Remembers a plug-in of the command line, if a command runs: completion only checks it."""
    return plugins if context.resilient_parsing else remember(plugins)


Plugins = Annotated[
    list[Path] | None,
    TESTED.option(
        "File (or importable module) with further backends, operators or motifs. It runs with "
        "your rights; once named here, findings and campaigns that name it may use it, too.",
        "FILE.py",
        "--plugin",
        callback=_named,
    ),
]
Backends = Annotated[
    list[str] | None,
    TESTED.option(
        "Compiler under test, with options (nnfuzz backends lists both); repeat it to "
        "compare several. A release that is not installed gets an environment of its own.",
        "NAME[@RELEASE][,KEY=VALUE]",
        "--backend",
        "-b",
    ),
]
OwnBackend = Annotated[
    str,
    TESTED.option(
        "Run it on this backend [default: its own, with its options].",
        "NAME[@RELEASE][,KEY=VALUE]",
        "--backend",
        "-b",
    ),
]
Original = Annotated[
    bool,
    OTHERS.flag(
        "Take the model that was generated, where the finding has a reduced one as well.",
        "--original",
    ),
]
Fresh = Annotated[bool, SUPPORT.flag(SETTINGS["fresh"].described, "--fresh")]
