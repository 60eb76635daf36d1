"""The options that several commands share and all of `nnfuzz fuzz`, as annotated types.

An option that is not given is None, so that each command keeps its own defaults, and a
resumed campaign its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.consent import remember
from nnfuzz.cli.declared import (
    MODELS,
    OTHERS,
    SUPPORT,
    TESTED,
    WRITTEN,
)
from nnfuzz.library.shares import DEFAULT_QUANTIZE

MOST_NODES = 1000
"""Operators per model at most: a test case may take 60 s, and one of 1000 takes about 10 s."""

Nodes = Annotated[
    int | None,
    MODELS.option(
        f"Operators per model, at most {MOST_NODES} [default: 10]. Few find the same bugs "
        "faster; many find what only long chains of optimisations do.",
        "K",
        min=1,
        max=MOST_NODES,
    ),
]
Exporter = Annotated[
    str | None,
    WRITTEN.option(
        "What writes the models: torchscript, dynamo, direct (which alone has every operator "
        "and dtype), several with commas between, or mixed: direct and torchscript by turns, which "
        "is the default.",
        "NAME",
    ),
]
Opset = Annotated[
    int | None,
    WRITTEN.option(
        "ONNX opset of all models [default: each model has one of those that its exporter writes "
        "and the backends take].",
        "N",
    ),
]
Seed = Annotated[
    int | None,
    MODELS.option(
        "Same seed and options, same models [default: drawn by fuzz, 0 for generate].", "S", min=0
    ),
]
Motifs = Annotated[
    float | None,
    MODELS.option(
        "Motifs per model on average: patterns that optimisers look for [default: 1.5].", "M", min=0
    ),
]
Quantize = Annotated[
    float | None,
    MODELS.share(
        "Share of the models that are quantised: pairs of QuantizeLinear and DequantizeLinear, "
        "operators on integers, or dynamic quantisation, where compilers take those "
        f"[default: {DEFAULT_QUANTIZE} in campaigns, 0 in corpora]."
    ),
]
Sizes = Annotated[
    str | None,
    MODELS.option(
        "How large tensors are: small, mixed (one graph in ten has one of more than 65,536 "
        "elements, where compilers compute in parallel, with dimensions at and next to powers of "
        "two) or large (all graphs have) [default: mixed in campaigns, small in corpora].",
        "small|mixed|large",
    ),
]
Engine = Annotated[
    str | None,
    MODELS.option(
        "What makes graphs: direct (sizes are numbers at once), concolic (by propagation), "
        "symbolic (by solving whole graphs) or mutate (of eight, seven are changes of the first) "
        "[default: direct].",
        "NAME",
    ),
]
Operators = Annotated[
    list[str] | None,
    MODELS.option(
        "Generate from these operators only (see nnfuzz ops).",
        "A,B",
        "--operators",
        "--ops",
    ),
]
Domains = Annotated[
    list[str] | None,
    MODELS.option(
        "Generate from operators of these domains beside ONNX's own, such as com.microsoft; "
        "ai.onnx for ONNX's own alone [default: in campaigns, all domains that every backend "
        "takes].",
        "A,B",
    ),
]
Exclude = Annotated[
    list[str] | None,
    MODELS.option("Leave these operators out.", "A,B"),
]
Dtypes = Annotated[
    list[str] | None,
    MODELS.option(
        "Values of these dtypes only, such as float32,int64. Others occur where an operator "
        "admits nothing else: the int64 indices of Gather, the bool that Where asks for and "
        "Greater returns. Seed models keep theirs.",
        "A,B",
    ),
]
ExcludeDtypes = Annotated[
    list[str] | None,
    MODELS.option(
        "No value of these dtypes at all; operators that cannot do without them are left out.",
        "A,B",
    ),
]


def _named(context: typer.Context, plugins: list[Path] | None) -> list[Path] | None:
    """Remembers a plug-in of the command line, if a command runs: completion only checks it."""
    return plugins if context.resilient_parsing else remember(plugins)


SeedModels = Annotated[
    Path | None,
    MODELS.option(
        "Start every graph from one of these ONNX models; operators are inserted around and "
        "inside. Without --exporter, direct emission alone is used.",
        "DIR",
    ),
]
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
Levels = Annotated[
    list[str] | None,
    TESTED.option(
        "Levels to run: all that nnfuzz backends lists may be named [default: those with a "
        "star there].",
        "O0,O3",
        "--level",
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
Fresh = Annotated[
    bool,
    SUPPORT.flag(
        "Run all probes, those as well whose answers earlier campaigns have left behind.",
        "--fresh",
    ),
]
