"""`nnfuzz metrics DIR|CAMPAIGN [DIR2]`: how diverse models are, also those of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.ci import write_json
from nnfuzz.cli.errors import OK, tell
from nnfuzz.cli.options import MODELS, OTHERS, Backends, Plugins
from nnfuzz.cli.values import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnfuzz.metrics.comparison import Counted, FolderComparison

MOST_SHOWN = 5
"""Files that are left out by name; of more of them, how many."""
WIDTH = 24
"""Characters of the name of a folder above its column."""


def metrics(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR|CAMPAIGN...",
            help="Folders of ONNX models, or of campaigns, to be counted side by side.",
            show_default=False,
        ),
    ],
    operators: Annotated[
        list[str] | None,
        MODELS.option(
            "Count these operators alone [default: all, against those that ONNX has].",
            "A,B",
        ),
    ] = None,
    json: Annotated[
        Path | None, OTHERS.option("Everything, in a JSON file.", "FILE.json", "--json")
    ] = None,
    backend: Backends = None,
    plugin: Plugins = None,
) -> None:
    """Count how diverse models are, also those of other tools: two folders side by side.

    \b
    nnfuzz metrics models
    nnfuzz metrics ours theirs

    Counted are the eleven measures of Isra (docs/METRICS.md defines them), and with --backend the
    passes of a compiler that change the models, and those that never did, which fuzz --focus takes.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.campaign.configuration import chosen_backends
    from nnfuzz.cli.progress import steps
    from nnfuzz.metrics.folders import compare_folders

    registry = BackendRegistry.discover(plugin or [])
    specs = chosen_backends(registry, backend) if backend else ()
    comparison = compare_folders(folders, listed(operators), registry, specs, steps)
    _say_left_out(comparison.counted)
    if json:
        write_json(json, comparison.to_json())
        tell(f"written: {json}")
    _show(comparison)
    raise typer.Exit(OK)


def _say_left_out(counted: Sequence[Counted]) -> None:
    for one in counted:
        for number, (file, why) in enumerate(one.left_out.items()):
            if number == MOST_SHOWN:
                tell(f"{one.name}: {len(one.left_out) - number} more are left out")
                break
            tell(f"{file} is left out: {why}")


def _show(comparison: FolderComparison) -> None:
    """The measures as a table, then the passes and the operators that do not occur."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for one in comparison.counted:
        table.add_column(one.name[:WIDTH], justify="right")
    table.add_column("")
    for measure, figures in comparison.rows():
        table.add_row(measure.name, *figures, measure.text)
    console.print(table)
    for name, idle in comparison.idle_passes().items():
        known = len(comparison.known_passes[name])
        console.print(f"{known - len(idle)} of {known} passes of {name} changed a model.")
        if idle:
            console.print(f"Passes that never did (for --focus): {','.join(idle)}", soft_wrap=True)
    missing = comparison.missing()
    if missing and len(missing) < len(comparison.vocabulary):
        few = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        console.print(
            f"{len(missing)} of {len(comparison.vocabulary)} operators do not occur: {few}"
        )
