"""How much of models as people have them is read and can be compared.

Small modules of the kinds that are deployed are exported by PyTorch, by both of its exporters and
at several opsets, with the values that a test gives them. A row per model: the share of its nodes
that became operators with a spec, the share of the elements of its outputs that can be compared on
its inputs, and, with -b, what compilers compute.

    .venv/bin/python scripts/check_imports.py
    .venv/bin/python scripts/check_imports.py --only gpt --opset 17 -v
    .venv/bin/python scripts/check_imports.py -b onnxruntime -b tvm -b openvino
"""

from __future__ import annotations

import io
import statistics
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx
import torch
import typer
from rich.progress import track

import nnfuzz
from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.scoped import quiet, unlogged
from nnfuzz.spec.opaque import Opaque
from nnfuzz.spec.registry import OpRegistry
from nnfuzz.testcase.case import ModelError
from nnfuzz.testcase.foreign import case_of_model

sys.path.insert(0, str(Path(__file__).parent))
from modules import MODULES, Module

OPSETS = {"torchscript": (13, 17, 20), "dynamo": (18, 20, 23)}


@dataclass(frozen=True)
class Row:
    """nodes, outputs: the shares; why: what was not read, or why nothing was."""

    name: str
    nodes: float = 0.0
    outputs: float = 0.0
    why: str = ""
    result: str = ""


def module_of(name: str) -> Module:
    """A module of scripts/modules.py, with the same weights whenever it is made."""
    torch.manual_seed(0)
    made = MODULES[name]()
    made.module.eval()
    return made


def exported(made: Module, exporter: str, opset: int) -> onnx.ModelProto:
    """The model that PyTorch writes. Raises: whatever the exporter raises."""
    buffer = io.BytesIO()
    names = [f"in{i}" for i in range(len(made.inputs))]
    options = {"input_names": names, "opset_version": opset}
    if made.dynamic and exporter == "torchscript":
        options["dynamic_axes"] = {name: {0: "batch"} for name in names}
    with quiet(), unlogged():
        if exporter == "torchscript":
            torch.onnx.export(made.module, made.inputs, buffer, dynamo=False, **options)
            return onnx.load_model_from_string(buffer.getvalue())
        if made.dynamic:
            batch = torch.export.Dim("batch", min=1, max=64)
            options["dynamic_shapes"] = tuple({0: batch} for _ in made.inputs)
        program = torch.onnx.export(made.module, made.inputs, dynamo=True, verbose=False, **options)
    return program.model_proto


def row(name: str, model: onnx.ModelProto, inputs: dict, registry: OpRegistry, run) -> Row:
    try:
        case = case_of_model(model, registry, inputs)
    except ModelError as error:
        return Row(name, why=str(error))
    graph = Graph.of(case.graph, registry.get)
    opaque = Counter(
        proto.op_type
        for node in graph.nodes
        if isinstance(node.op, Opaque)
        for proto in node.op.graph.node
    )
    specs = sum(not isinstance(node.op, Opaque) for node in graph.nodes)
    try:
        bounds = enveloped_at_edges(graph, {**case.inputs, **case.weights}).envelopes
    except Exception as error:
        return Row(name, why=f"envelope: {type(error).__name__}: {error}")
    told = sum(int(b.comparable.sum()) for b in bounds.values())
    share = told / sum(b.comparable.size for b in bounds.values())
    result = "; ".join(str(run(nnfuzz.TestCase.of(case))).split("\n")) if run else ""
    why = ", ".join(f"{kind} {count}" for kind, count in opaque.most_common())
    return Row(name, specs / max(1, specs + opaque.total()), share, why, result)


def main(
    backend: Annotated[list[str] | None, typer.Option("--backend", "-b")] = None,
    only: Annotated[str, typer.Option(help="Part of the names of models.")] = "",
    opset: Annotated[int, typer.Option(help="0: several.")] = 0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Each model.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    registry = OpRegistry.load()
    run = nnfuzz.Experiment(backend) if backend else None
    wanted = [
        (name, exporter, at)
        for name in MODULES
        if only in name
        for exporter, opsets in OPSETS.items()
        for at in opsets
        if opset in (0, at)
    ]
    rows: dict[str, list[Row]] = {}
    refused: list[str] = []
    for name, exporter, at in track(wanted, "export and read"):
        label = f"{name}, {exporter} {at}"
        made = module_of(name)
        try:
            model = exported(made, exporter, at)
        except Exception as error:
            refused.append(f"{label}: {type(error).__name__}: {str(error)[:100]}")
            continue
        arrays = dict(zip((f"in{i}" for i in range(9)), (np.asarray(x) for x in made.inputs)))
        inputs = {i.name: arrays[i.name] for i in model.graph.input if i.name in arrays}
        rows.setdefault(name, []).append(row(label, model, inputs, registry, run))
    for name, found in rows.items():
        nodes = statistics.fmean(r.nodes for r in found)
        outputs = statistics.fmean(r.outputs for r in found)
        print(f"{name:20s} {len(found)} models {nodes:7.1%} of nodes {outputs:7.1%} of outputs")
        for r in found:
            if verbose or r.why or r.result:
                print(f"    {r.name}: {r.nodes:.0%}, {r.outputs:.0%}; {r.why[:300]} {r.result}")
    for line in refused:
        print("not exported:", line)
    every = [r for found in rows.values() for r in found]
    enough = sum(min(r.nodes, r.outputs) >= 0.95 for r in every)
    print(f"{len(every)} models of {len(rows)} modules:", end=" ")
    print(f"{statistics.fmean(r.nodes for r in every):.1%} of nodes,", end=" ")
    print(f"{statistics.fmean(r.outputs for r in every):.1%} of outputs;", end=" ")
    print(f"{enough} with 95 % of both")
    if run:
        run.close()


if __name__ == "__main__":
    typer.run(main)
