"""Holds the specs of ai.onnx.ml, com.microsoft and the quantised operators against onnx.reference
and ONNX Runtime.

Random legal nodes (scripts/check/legal_nodes.py) are imported as a user's model is, and what both
compute has to lie in the envelope. A row for each operator says how many nodes were legal,
imported, and computed right by each; every difference is printed, and is a fault of nnfuzz until it
is shown to be another's. Exits with 1 if there is a difference that no waiver declares.

    python -m scripts.check.importers
    python -m scripts.check.importers --only TreeEnsemble --nodes 400
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import typer

from nnfuzz.check.runtimes import EVALUATOR, type_of
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Oracle
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import ModelError
from scripts.check.constraints import OPERATORS, Process, _by_onnxruntime, _by_reference, _text
from scripts.check.legal_nodes import LegalNode, beginnings, changed

RUNTIME = "onnxruntime"
QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
    *("QLinearConv", "QLinearMatMul", "MatMulInteger", "ConvInteger"),
)
PATIENCE = 10
"""Draws for each legal node that is wanted."""


@dataclass(frozen=True)
class Answer:
    """How a legal node fared. differs: by implementation, "" where it agrees. waived: those of
    which a waiver declares a difference."""

    imported: bool
    differs: Mapping[str, str] = field(default_factory=dict)
    waived: tuple[str, ...] = ()


def asked(node: LegalNode) -> Answer | None:
    """None if the node is not legal. Raises: whatever onnx raises."""
    from nnfuzz.compare.verdict import compare

    data = node.bare().SerializeToString()
    ran = {RUNTIME: _by_onnxruntime(data, node.given), EVALUATOR: _by_reference(data, node.given)}
    done = {name: outputs for name, outputs in ran.items() if outputs is not None}
    if not done:
        return None
    model = node.model(map(type_of, next(iter(done.values()))))  # inference knows few shapes here
    data = model.SerializeToString()
    try:
        case = case_from_onnx(data, node.given)
    except ModelError:
        return Answer(False)
    if not case.graph or "Opaque" in case.graph.operators:
        return Answer(False)
    oracle, names = Oracle(), [value.name for value in model.graph.output]
    envelope, graph = oracle.enclosure(case).envelopes, oracle.graph(case)
    known = [
        waiver.implementation
        for own in graph.nodes
        for waiver in OPERATORS[0].waivers.covering(
            own.op, node.opset, [graph.type(name) for name in own.inputs]
        )
    ]
    found = {
        name: "; ".join(map(str, compare(envelope, dict(zip(names, map(np.asarray, outputs))))))
        for name, outputs in done.items()
    }
    return Answer(True, found, tuple(known))


@dataclass
class Row:
    """The nodes of one operator. right, waived: by implementation; texts: of differences."""

    operator: str
    legal: int = 0
    imported: int = 0
    right: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    waived: Counter[str] = field(default_factory=Counter)
    texts: list[str] = field(default_factory=list)

    def add(self, node: LegalNode, answer: Answer) -> None:
        self.legal += 1
        self.imported += answer.imported
        for name, text in answer.differs.items():
            self.ran[name] += 1
            self.right[name] += not text
            if text and name in answer.waived:
                self.waived[name] += 1
            elif text:
                self.texts.append(f"{name}: {text}\n    {_text(node)}")

    def __str__(self) -> str:
        cells = [f"{self.right[n]} of {self.ran[n]}" for n in (RUNTIME, EVALUATOR)]
        counts = self.legal, self.imported, *cells, sum(self.waived.values()), len(self.texts)
        return f"| {self.operator} | {' | '.join(map(str, counts))} |"


def imported(begin: list[LegalNode], wanted: int, rng: random.Random) -> Iterator[Row]:
    """A row for each operator of some nodes, of legal nodes that were imported."""
    process = Process(asked)
    for kind in sorted({node.kind for node in begin}):
        row, own = Row(kind), [node for node in begin if node.kind == kind]
        for _ in range(PATIENCE * wanted):
            if row.imported >= wanted:
                break
            try:
                node = changed(rng.choice(own), rng)
                answer = process(node) if node.given else None
            except (BrokenProcessPool, TimeoutError):
                row.texts.append(f"a process died\n    {_text(node)}")
                continue
            except Exception:  # nothing to change, or onnx's reasons why it is not legal
                continue
            if answer is not None:
                row.add(node, answer)
        yield row
    process.close()


def main(
    only: Annotated[str, typer.Option(help="Part of the names of operators.")] = "",
    nodes: Annotated[int, typer.Option(help="Nodes that are read, per operator.")] = 200,
    draws: Annotated[int, typer.Option(help="Lowerings of each spec to begin with.")] = 40,
    seed: int = 0,
) -> None:
    registry, rng = OpRegistry.load(), random.Random(seed)
    specs = [spec for spec in registry.specs() if only in spec.name]
    mine = [spec for spec in specs if spec.onnx_domain or spec.name in QUANTISED]
    names = {spec.name for spec in mine}
    begin = [node for node in beginnings(mine, rng, draws) if node.kind in names]
    print("| operator | legal | imported | ONNX Runtime | onnx.reference | waived | differ |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for row in imported(begin, nodes, rng):
        rows.append(row)
        print(row, *dict.fromkeys(row.texts), sep="\n    ", flush=True)
    raise typer.Exit(any(row.texts for row in rows))


if __name__ == "__main__":
    typer.run(main)
