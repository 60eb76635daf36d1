"""`nnfuzz select MODELS... --out DIR`: of many models the few that matter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import OK, UsageError, tell, writing
from nnfuzz.cli.options import AMOUNT, Backends, Plugins
from nnfuzz.cli.values import duration, size, spoken

if TYPE_CHECKING:
    from nnfuzz.corpus.pick import Selection


def select(
    out: Annotated[
        Path,
        AMOUNT.option("New folder for the models that are chosen.", "DIR", show_default=False),
    ],
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODELS...", help="Folders of tests.", show_default=False),
    ],
    count: Annotated[int | None, AMOUNT.option("Take at most so many models.", "N", min=1)] = None,
    max_bytes: Annotated[
        str | None, AMOUNT.option("At most so many bytes of files.", "20M")
    ] = None,
    max_time: Annotated[
        str | None,
        AMOUNT.option("At most this long in the compilers of --backend.", "2m"),
    ] = None,
    backend: Backends = None,
    plugin: Plugins = None,
) -> None:
    """Copy those models into a new folder that cover most, under a budget.

    \b
    nnfuzz select models --count 100 --out few
    nnfuzz select models --backend tvm --max-time 2m --out two-minutes-of-tvm

    Counted are operators, their dtypes, ranks and attributes, which operator reads which, and the
    passes of the compilers of --backend that change something. These compilers run every model
    once; models that none of them supports are left out.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.campaign.configuration import chosen_backends
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.pick import select as chosen
    from nnfuzz.corpus.selection import Budget

    if max_time is not None and not backend:
        raise UsageError("--max-time is the time of a compiler: add --backend NAME")
    budget = Budget(
        count or math.inf,
        size(max_bytes) if max_bytes is not None else math.inf,
        duration(max_time, "--max-time") if max_time is not None else math.inf,
    )
    registry = BackendRegistry.discover(plugin or [])
    specs = chosen_backends(registry, backend) if backend else ()
    with writing(out):
        selection = chosen(out, models, budget, registry, specs, tell, steps)
    _report(out, selection)
    raise typer.Exit(OK)


def _report(out: Path, selection: Selection) -> None:
    from nnfuzz.corpus.selection import KINDS

    kept_models = (
        f"{len(selection.tests)} of {selection.sources} models in {out}, {selection.size:,} bytes"
    )
    took = f", {spoken(selection.seconds)} of the compilers" if selection.seconds else ""
    typer.echo(kept_models + took)
    for kind, (kept, whole) in selection.coverage.items():
        typer.echo(f"{kept:>7} of {whole} ({kept / whole:.0%}) {KINDS[kind]}")
