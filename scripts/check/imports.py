"""Measures how much of models like those of users is read and can be compared.

The models are small modules of deployed kinds, exported by both exporters of PyTorch at several
opsets; with --standard the tests of onnx, whose outputs are known; with --models the .onnx files of
a folder. There is a row per group of models: the share of nodes that became operators with a spec,
the share of the elements of outputs that can be compared, and, with -b, the results of compilers.
Exits with 1 if known outputs are called wrong.

    python -m scripts.check.imports
    python -m scripts.check.imports --only gpt --opset 17 -v
    python -m scripts.check.imports -b onnxruntime -b tvm -b openvino
    python -m scripts.check.imports --standard
    python -m scripts.check.imports --models /tmp/packages -b onnxruntime
"""

from __future__ import annotations

import io
import statistics
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import onnx
import torch
import typer
from rich.progress import track

import nnfuzz
from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Enclosure
from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.compare.verdict import judged
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.scoped import quiet, unlogged
from nnfuzz.operators.opaque import Opaque
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import ModelError
from nnfuzz.testcase.foreign import case_of_model
from scripts.check.modules import MODULES, Module
from scripts.check.onnx_models import ForeignModel, files, standard

OPSETS = {"torchscript": (13, 17, 20), "dynamo": (18, 20, 23)}


@dataclass(frozen=True)
class Row:
    """nodes, outputs: the shares. why: the reason why nodes, or the whole model, were not read.
    wrong: whether the known outputs are called wrong."""

    name: str
    nodes: float = 0.0
    outputs: float = 0.0
    why: str = ""
    result: str = ""
    wrong: bool = False


def module_of(name: str) -> Module:
    """A module of modules.py with the same weights in every call."""
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


def exports(only: str, opset: int, refused: list[str]) -> Iterator[ForeignModel]:
    """Exports of modules whose names contain `only`, at one opset or all (0), or why they fail."""
    wanted = [
        (name, exporter, at)
        for name in MODULES
        if only in name
        for exporter, opsets in OPSETS.items()
        for at in opsets
        if opset in (0, at)
    ]
    for name, exporter, at in wanted:
        label = f"{name}, {exporter} {at}"
        made = module_of(name)
        try:
            model = exported(made, exporter, at)
        except Exception as error:
            refused.append(f"{label}: {type(error).__name__}: {str(error)[:100]}")
            continue
        arrays = {f"in{i}": np.asarray(x) for i, x in enumerate(made.inputs)}
        inputs = {i.name: arrays[i.name] for i in model.graph.input if i.name in arrays}
        yield ForeignModel(name, label, model, inputs)


def row(given: ForeignModel, registry: OpRegistry, run: nnfuzz.Experiment | None) -> Row:
    try:
        case = case_of_model(given.model, registry, given.inputs)
    except ModelError as error:
        return Row(given.name, why=str(error))
    graph = Graph.of(case.graph, registry.get)
    opaque = Counter(
        proto.op_type
        for node in graph.nodes
        if isinstance(node.op, Opaque)
        for proto in node.op.graph.node
    )
    specs = sum(not isinstance(node.op, Opaque) for node in graph.nodes)
    try:
        bounds = enclosure(graph, {**case.inputs, **case.weights}, case.expected)
    except Exception as error:
        return Row(given.name, why=f"envelope: {type(error).__name__}: {error}")
    names = [output.name for output in given.model.graph.output]
    sizes = {n: b.comparable.size for n, b in bounds.envelopes.items()}
    told = sum(int(b.comparable.sum()) / max(1, sizes[n]) for n, b in bounds.envelopes.items())
    made = {n: a for n, a in given.outputs.items() if n in sizes}
    wrong = [str(m) for m in mismatches(bounds, made)] if made else []
    result = "; ".join(str(run(nnfuzz.TestCase.of(case))).split("\n")) if run else ""
    why = ", ".join(f"{kind} {count}" for kind, count in opaque.most_common())
    nodes = specs / max(1, specs + opaque.total())
    return Row(given.name, nodes, told / len(names), why, "; ".join(wrong) or result, bool(wrong))


def mismatches(bounds: Enclosure, outputs: Mapping[str, np.ndarray]) -> list[Mismatch]:
    """The oracle's mismatches of outputs; outputs that are not given count as right."""
    target = Target.parse("given")
    whole = {n: outputs.get(n, b.ref.astype(b.dtype.numpy)) for n, b in bounds.envelopes.items()}
    return [m for m in judged(bounds, {target: whole}).mismatches[target] if m.output in outputs]


def main(
    backend: Annotated[list[str] | None, typer.Option("--backend", "-b")] = None,
    only: Annotated[str, typer.Option(help="Part of the names of models.")] = "",
    opset: Annotated[int, typer.Option(help="0: several.")] = 0,
    onnx_tests: Annotated[bool, typer.Option("--standard", help="Those of onnx.")] = False,
    models: Annotated[Path | None, typer.Option(help="A folder with .onnx files.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Each model.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    registry = OpRegistry.load()
    run = nnfuzz.Experiment(backend) if backend else None
    refused: list[str] = []
    given = standard() if onnx_tests else files(models) if models else exports(only, opset, refused)
    rows: dict[str, list[Row]] = {}
    for one in track(given, "read", total=None):
        if only in one.name:
            rows.setdefault(one.group, []).append(row(one, registry, run))
    if run:
        run.close()
    for line in refused:
        print("not exported:", line)
    report(rows, verbose)
    raise typer.Exit(any(r.wrong for found in rows.values() for r in found))


def report(rows: Mapping[str, list[Row]], verbose: bool) -> None:
    """Prints a line per group, and one per model with a remark or an incomplete comparison."""
    for name, found in rows.items():
        nodes = statistics.fmean(r.nodes for r in found)
        outputs = statistics.fmean(r.outputs for r in found)
        print(f"{name:20s} {len(found)} models {nodes:7.1%} of nodes {outputs:7.1%} of outputs")
        for r in found:
            if verbose or r.why or r.result or r.outputs < 1:
                print(f"    {r.name}: {r.nodes:.0%}, {r.outputs:.0%}; {r.why[:300]} {r.result}")
    every = [r for found in rows.values() for r in found]
    enough = sum(min(r.nodes, r.outputs) >= 0.95 for r in every)
    print(f"{len(every)} models in {len(rows)} groups:", end=" ")
    print(f"{statistics.fmean(r.nodes for r in every):.1%} of nodes,", end=" ")
    print(f"{statistics.fmean(r.outputs for r in every):.1%} of outputs;", end=" ")
    print(f"{enough} with 95 % of both; {sum(r.wrong for r in every)} known outputs called wrong")


if __name__ == "__main__":
    typer.run(main)
