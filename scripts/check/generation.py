"""Generates many test cases and checks what generation promises.

Every model passes the full ONNX checker and runs in ONNX Runtime without optimisation. Where it
does not run, one to three operators in a row must fail in the same way by themselves: because they
are not implemented, or by a bug of ONNX Runtime or the exporter, which is listed. No operator
starves. Prints the figures; exits with 1 if a promise is broken.

    python -m scripts.check.generation --count 2000
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import onnx
import torch
import typer
from rich.progress import track

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.campaign.configuration import exporter_names
from nnfuzz.cli.options import option_of
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.ir.support_key import operators_in
from nnfuzz.materialize.errors import ExportError
from nnfuzz.materialize.opsets import default_opset, opsets_up_to
from nnfuzz.reduction.cuts import apply_neighbourhoods
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.subject import Inapplicable, Subject, node_id
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.producer import Producer

MOST_OPERATORS = 3
"""In a row that are taken for the cause of an outcome."""


def parts(graph: Graph) -> Iterator[list[Node]]:
    """Every node, every pair in which one reads the other, and every three in a row."""
    makers = graph.producer()
    paths = [[node] for node in graph.nodes]
    for _ in range(MOST_OPERATORS):
        yield from paths
        paths = [
            [makers[name], *path]
            for path in paths
            for name in dict.fromkeys(path[0].inputs)
            if name in makers
        ]


def culprit(producer: Producer, case: TestCase, outcome: Outcome, runner: BackendRunner) -> str:
    """The first operator, or the first two or three in a row, with the same outcome as the model;
    "" if there is none.

    They get the values that they have in the whole model, and the same exporter.
    """
    subject = Subject(producer.load(case), {**case.inputs, **case.weights}, case.exporter)
    for nodes in parts(subject.graph):
        ids = [node_id(node) for node in nodes]
        try:
            part = apply_neighbourhoods(subject, Edit("neighbourhoods", "input", ids))
        except Inapplicable:
            continue
        graph, params = part.graph, part.params
        inputs, weights = ({n: params[n] for n in of} for of in (graph.inputs, graph.weights))
        try:
            model = producer.exporters[case.exporter].export(graph, weights, inputs, case.opset)
        except ExportError:
            continue
        (alone,) = runner.run(model, inputs, ["O0"])
        if (alone.kind, alone.stage) == (outcome.kind, outcome.stage):
            return " and ".join(
                f"{node.op.name}({', '.join(t.dtype.value for t in graph.types(node.inputs))})"
                for node in nodes
            )
    return ""


def main(
    count: int = typer.Option(2000, help="Test cases."),
    nodes: Annotated[int, option_of("nodes")] = 10,
    seed: Annotated[int, option_of("seed")] = 0,
    exporter: Annotated[str | None, option_of("exporter")] = None,
    opset: Annotated[int | None, option_of("opset")] = None,
) -> None:
    torch.set_num_threads(1)
    opsets = {name: opset or default_opset(name) for name in exporter_names(exporter, opset)}
    drawn = {} if opset else opsets_up_to(opsets)
    config = CaseConfig(nodes=nodes, opsets=drawn).written_by(opsets)
    producer = Producer(seed, config)
    registry = BackendRegistry.discover()
    outcomes, exporters, operators = Counter(), Counter(), Counter()
    unsupported, bugs = Counter(), Counter()
    milliseconds, checks = [], []
    broken: list[str] = []
    with BackendRunner(registry.parse("onnxruntime"), registry) as runner:
        for index in track(range(count), "generate, check, run"):
            case = producer.produce(index)
            if isinstance(case, NotProduced):
                told = ", unsupported by the exporter" if case.unsupported else ""
                outcomes[f"no test case: {case.stage}{told}"] += 1
                if case.stage == "fault":
                    broken.append(f"{index}: {case.message}")
                continue
            milliseconds.append(case.seconds["generate"] * 1000)
            checks.append(case.solver_checks)
            exporters[f"{case.exporter} {case.opset}"] += 1
            operators.update(node.op for node in case.graph.nodes)
            try:
                onnx.checker.check_model(case.model, full_check=True)
            except Exception as error:
                broken.append(f"{index}: checker: {error}")
            (outcome,) = runner.run(case.model, case.inputs, ["O0"])
            outcomes[outcome.kind.value] += 1
            if outcome.kind is OutcomeKind.OK:
                continue
            operator = culprit(producer, case, outcome, runner)
            text = f"{outcome.kind} in {outcome.stage}: {outcome.message}"
            if not operator:
                broken.append(f"{index}: {text}")
            elif outcome.kind is OutcomeKind.UNSUPPORTED:
                unsupported[operator] += 1
            else:
                bugs[f"{operator}: {text}"] += 1
    keys = itertools.chain.from_iterable(producer.signatures().values())
    names = sorted(operators_in(keys))
    left_out = sorted(set(producer.registry) - set(names))
    mean = operators.total() / len(names)
    rarest = min(names, key=lambda name: operators[name])
    if operators[rarest] < mean / 10:
        broken.append(f"{rarest} starves")
    print(f"outcomes: {dict(outcomes)}; exporters: {dict(exporters)}")
    print(f"not implemented, shown by one operator: {unsupported.total()} models, ", end="")
    print(f"{len(unsupported)} signatures; most often {_most(unsupported)}")
    for text, times in bugs.most_common():
        print(f"bug, shown by at most three operators, {times} times: {text}")
    print(f"generation: median {statistics.median(milliseconds) / nodes:.2f} ms a vertex, ", end="")
    print(f"{statistics.fmean(checks):.2f} Z3 checks a graph")
    print(f"rarest operator: {rarest} {operators[rarest]} times, mean {mean:.0f}, ", end="")
    print(f"ratio {operators[rarest] / mean:.2f}, {len(operators)} operators")
    if left_out:
        print(f"no exporter writes: {', '.join(left_out)} (nnfuzz ops says why)")
    for line in broken[:20]:
        print("BROKEN", line)
    raise typer.Exit(1 if broken else 0)


def _most(counts: Counter) -> str:
    return ", ".join(f"{name} {times}" for name, times in counts.most_common(3))


if __name__ == "__main__":
    typer.run(main)
