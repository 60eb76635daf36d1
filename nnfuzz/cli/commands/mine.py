"""`nnfuzz mine SOURCES`: patterns out of models, as motif files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.base.reading import Unreadable
from nnfuzz.cli.declared import AMOUNT, MODELS, TESTED
from nnfuzz.cli.errors import OK, UsageError, tell, writing

DEFAULT_MOST = 1_000
DEFAULT_NODES = 8


def mine(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER|FILE|PACKAGE...",
            help="ONNX models, in binary or text form, in folders, files and installed packages.",
        ),
    ],
    out: Annotated[Path, AMOUNT.option("Folder of the motif files, made if need be.", "DIR")],
    backend: Annotated[
        str, TESTED.option("Cut first around nodes that passes of this compiler change.", "NAME")
    ] = "",
    python: Annotated[
        bool,
        MODELS.option(
            "Run Python files that build ONNX models, with their tests, and take the models. They "
            "run in a process with limits of time and memory, but with your rights.",
            "",
            "--python",
        ),
    ] = False,
    nodes: Annotated[
        int, MODELS.option("Nodes of the largest pattern.", "N", min=2, max=8)
    ] = DEFAULT_NODES,
    most: Annotated[
        int, AMOUNT.option("Patterns to write at most, the most frequent first.", "N", min=1)
    ] = DEFAULT_MOST,
    licence: Annotated[
        str, MODELS.option("Licence of the sources [default: of the nearest LICENSE file].", "SPDX")
    ] = "",
) -> None:
    """Cut patterns out of models, and write them as motif files that fuzz plants in its models.

    \b
    nnfuzz mine zoo/ --out patterns
    nnfuzz mine onnx my-compiler/tests --python --backend onnxruntime --out patterns
    nnfuzz fuzz -b tvm --motif-files patterns

    A pattern is 2 to 8 connected operators with the attributes that they had. Sizes and dtypes
    become free as far as the operators allow it; equal sizes stay equal. Patterns that nnfuzz
    plants already are left out, and so are those in the folder. Each file says where its pattern
    comes from, how often it occurs there, and under which licence; weights and names of models are
    not kept.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.cli.progress import steps
    from nnfuzz.library.folders import cache_folder
    from nnfuzz.mine.mining import Miner, MiningRequest, known_structures, write_patterns
    from nnfuzz.mine.sources import source_of

    registry = BackendRegistry.discover()
    try:
        read = tuple(source_of(text, licence) for text in sources)
        known = known_structures(out)
    except Unreadable as error:
        raise UsageError(str(error)) from error
    if not any(s.models or s.scripts or s.backend_tests or s.problems for s in read):
        raise UsageError(f"{', '.join(sources)}: no ONNX model and no Python file is there")
    spec = registry.parse(backend) if backend else None
    request = MiningRequest(read, nodes, most, python, backend=spec, cache=cache_folder())
    mined = Miner(request, registry, tell, steps).mine(known)
    if mined.problems and not mined.models:
        raise UsageError("none of the files can be used")
    with writing(out):
        write_patterns(mined.patterns, out)
    there = f", {len(known)} structures were there" if known else ""
    typer.echo(
        f"{len(mined.patterns)} patterns of {mined.models} models in {out}{there}"
        if mined.patterns
        else f"no new pattern in {mined.models} models{there}"
    )
    raise typer.Exit(OK)
