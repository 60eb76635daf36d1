"""The commands on models of any origin: show, and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import (
    making_sense,
    read_json,
)
from nnfuzz.cli.errors import UsageError, listed, tell, write_json, writing
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import MODELS, OTHERS
from nnfuzz.cli.progress import steps
from nnfuzz.findings.drawing import draw, shown_type
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.model_graph import model_graph
from nnfuzz.metrics.folders import compare_folders
from nnfuzz.metrics.measures import Counted, FolderComparison
from nnfuzz.operators.attributes import readable

# -- show --------------------------------------------------------------------------------

SECONDS = 300.0
"""CPU seconds for one model: to draw one of 100,000 nodes takes 3."""
FILES = ("finding.json", "nnfuzz.json", "model.onnx")
"""Files to look for in a folder, in this order."""


def show(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of a finding or of a generated model, any ONNX model, or a graph as JSON.",
            show_default=False,
        ),
    ],
    svg: Annotated[
        Path | None, OTHERS.option("Draw it into this file instead.", "FILE.svg")
    ] = None,
) -> None:
    """Print the graph of a finding or of any ONNX model, or draw it.

    \b
    nnfuzz show campaign/findings/tvm-mismatch-eaa1ca026673/reduced
    nnfuzz show resnet50.onnx --svg resnet50.svg

    One line per input, weight, node and output; sizes that ONNX cannot infer are "?".
    """
    with computing(SECONDS), making_sense(f"the graph in {model}"):
        graph = read_graph(model)
        text = draw(graph) if svg else "\n".join(graph_lines(graph))
    if svg is None:
        typer.echo(text)
        return
    with writing(svg):
        svg.write_text(text, encoding="utf-8")
    typer.echo(svg)


def read_graph(path: Path) -> GraphView:
    """The graph from a folder, a model or JSON. Raises: UsageError."""
    file = next((path / name for name in FILES if (path / name).is_file()), path)
    if not file.is_file():
        reason = f"there is no {' or '.join(FILES)} in it" if path.is_dir() else "no such file"
        raise UsageError(f"{path} holds no graph: {reason}")
    if file.suffix != ".json":
        return model_graph(file)
    data = read_json(file)
    graph = data.get("graph", data) if isinstance(data, dict) else None
    if not isinstance(graph, dict) or "nodes" not in graph:
        raise UsageError(
            f"{path} holds no graph: expected the folder of a finding or of a generated model, an "
            "ONNX model, or a graph as JSON"
        )
    try:
        return GraphView.from_json(graph)
    except ValueError as error:
        raise UsageError(f"{path} holds a damaged graph: {error}") from error


def graph_lines(graph: GraphView) -> list[str]:
    """One line per input, weight, node and output."""
    types = {value.name: shown_type(value.dtype, value.shape) for value in graph.values}
    lines = [f"input  {name}: {types[name]}" for name in graph.inputs]
    lines += [f"weight {name}: {types[name]}" for name in graph.weights]
    for node in graph.nodes:
        made = ", ".join(f"{name}: {types[name]}" for name in node.outputs)
        attributes = [f"{key}={readable(value)}" for key, value in node.attributes.items()]
        lines.append(f"{made} = {node.op}({', '.join([*node.inputs, *attributes])})")
    lines += [f"output {name}: {types[name]}" for name in graph.outputs]
    return [visible(line).replace("\n", "\\n") for line in lines]


# -- metrics --------------------------------------------------------------------------------

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
) -> None:
    """Count how diverse models are, also those of other tools: two folders side by side.

    \b
    nnfuzz metrics models
    nnfuzz metrics ours theirs

    Counted are nine measures of Isra and pairs of attributes (docs/METRICS.md defines them).
    """
    comparison = compare_folders(folders, listed(operators), steps)
    _say_left_out(comparison.counted)
    if json:
        write_json(json, comparison.to_json())
        tell(f"written: {json}")
    _show(comparison)


def _say_left_out(counted: Sequence[Counted]) -> None:
    for one in counted:
        for number, (file, why) in enumerate(one.left_out.items()):
            if number == MOST_SHOWN:
                tell(f"{one.name}: {len(one.left_out) - number} more are left out")
                break
            tell(f"{file} is left out: {why}")


def _show(comparison: FolderComparison) -> None:
    """The measures as a table, then the operators that do not occur."""
    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for one in comparison.counted:
        table.add_column(one.name[:WIDTH], justify="right")
    table.add_column("")
    for measure, figures in comparison.rows():
        table.add_row(measure.name, *figures, measure.text)
    console.print(table)
    missing = comparison.missing()
    if missing and len(missing) < len(comparison.vocabulary):
        few = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        console.print(
            f"{len(missing)} of {len(comparison.vocabulary)} operators do not occur: {few}"
        )
