"""Options that several commands share, as annotated types: declared once, the same everywhere.

Whatever is not given is None, so that each command keeps the defaults of its own settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Nodes = Annotated[
    int | None, typer.Option(min=1, metavar="K", help="Operators per model [default: 10].")
]
Exporter = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What writes the models: torchscript, dynamo, direct (which alone has every operator "
        "and dtype), several with commas between, or mixed: direct and torchscript by turns, which "
        "is the default.",
    ),
]
Opset = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="ONNX opset [default: the newest that each exporter writes and the backends take].",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="S",
        help="Same seed and options, same models [default: drawn by fuzz, 0 for generate].",
    ),
]
Motifs = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="M",
        help="Motifs per model on average: patterns that optimisers look for [default: 0.5].",
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
    ),
]
Operators = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Generate from these operators only (see nnfuzz ops)."),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="Leave these operators out.")
]
SeedModels = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Start every graph from one of these ONNX models; operators are inserted around and "
        "inside. Without --exporter, direct emission alone is used.",
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE.py", help="File with further backends, operators or motifs."
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--level",
        metavar="O0,O3",
        help="Levels to run: all that nnfuzz backends lists may be named [default: those with a "
        "star there].",
    ),
]
