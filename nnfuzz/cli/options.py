"""Options that several commands share, as annotated types: declared once, the same everywhere.

Whatever is not given is None, so that each command keeps the defaults of its own settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli import completion

TESTED = "What is tested"
LIMITS = "How long, and where to"
MODELS = "What models are made of"
FILES = "How models are written"
JUDGING = "What is reported"
SUPPORT = "What compilers do not support"
MACHINE = "Processes"
"""The headings under which --help groups options; those of a command appear in its own order."""

MOST_NODES = 1000
"""Operators per model at most: a test case may take 60 s, and one of 1000 takes about 10 s."""

Nodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_NODES,
        metavar="K",
        help=f"Operators per model, at most {MOST_NODES} [default: 10]. Few find the same bugs "
        "faster; many find what only long chains of optimisations do.",
        rich_help_panel=MODELS,
    ),
]
Exporter = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What writes the models: torchscript, dynamo, direct (which alone has every operator "
        "and dtype), several with commas between, or mixed: direct and torchscript by turns, which "
        "is the default.",
        autocompletion=completion.exporters,
        rich_help_panel=FILES,
    ),
]
Opset = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="ONNX opset [default: the newest that each exporter writes and the backends take].",
        rich_help_panel=FILES,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="S",
        help="Same seed and options, same models [default: drawn by fuzz, 0 for generate].",
        rich_help_panel=MODELS,
    ),
]
Motifs = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="M",
        help="Motifs per model on average: patterns that optimisers look for [default: 0.5].",
        rich_help_panel=MODELS,
    ),
]
Dynamic = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of the models that get a symbolic dimension, where they can, and are run at "
        "three sizes [default: 0.05].",
        rich_help_panel=MODELS,
    ),
]
Operators = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Generate from these operators only (see nnfuzz ops).",
        autocompletion=completion.operators,
        rich_help_panel=MODELS,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Leave these operators out.",
        autocompletion=completion.operators,
        rich_help_panel=MODELS,
    ),
]
Dtypes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Values of these dtypes only, such as float32,int64. Others occur where an operator "
        "admits nothing else: the int64 indices of Gather, the bool that Where asks for and "
        "Greater returns. Seed models keep theirs.",
        autocompletion=completion.dtypes,
        rich_help_panel=MODELS,
    ),
]
ExcludeDtypes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="No value of these dtypes at all; operators that cannot do without them are left out.",
        autocompletion=completion.dtypes,
        rich_help_panel=MODELS,
    ),
]
SeedModels = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Start every graph from one of these ONNX models; operators are inserted around and "
        "inside. Without --exporter, direct emission alone is used.",
        rich_help_panel=MODELS,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="File (or importable module) with further backends, operators or motifs.",
        rich_help_panel=TESTED,
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--level",
        metavar="O0,O3",
        help="Levels to run: all that nnfuzz backends lists may be named [default: those with a "
        "star there].",
        autocompletion=completion.levels,
        rich_help_panel=TESTED,
    ),
]
