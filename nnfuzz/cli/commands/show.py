"""`nnfuzz show FINDING|MODEL`: the graph of a finding or of any ONNX model, as text or drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import read_json
from nnfuzz.cli.errors import UsageError, writing
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import OTHERS

if TYPE_CHECKING:
    from nnfuzz.ir.view import GraphView

SECONDS = 300.0
"""CPU seconds to read and to draw: a hundred times as many as a model of 100,000 nodes takes."""
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
    from nnfuzz.findings.drawing import draw

    try:
        with computing(SECONDS):
            graph = read_graph(model)
            text = draw(graph) if svg else "\n".join(graph_lines(graph))
    except (UsageError, Unreadable):
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{model} holds a damaged graph: {error!r}") from error
    if svg is None:
        typer.echo(text)
        return
    with writing(svg):
        svg.write_text(text, encoding="utf-8")
    typer.echo(svg)


def read_graph(path: Path) -> GraphView:
    """The graph from a folder, a model or JSON. Raises: UsageError."""
    from nnfuzz.ir.view import GraphView
    from nnfuzz.materialize.model_graph import model_graph

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
    from nnfuzz.findings.drawing import shown_type
    from nnfuzz.operators.attributes import readable

    types = {value.name: shown_type(value.dtype, value.shape) for value in graph.values}
    lines = [f"input  {name}: {types[name]}" for name in graph.inputs]
    lines += [f"weight {name}: {types[name]}" for name in graph.weights]
    for node in graph.nodes:
        made = ", ".join(f"{name}: {types[name]}" for name in node.outputs)
        attributes = [f"{key}={readable(value)}" for key, value in node.attributes.items()]
        lines.append(f"{made} = {node.op}({', '.join([*node.inputs, *attributes])})")
    lines += [f"output {name}: {types[name]}" for name in graph.outputs]
    return [visible(line).replace("\n", "\\n") for line in lines]
