"""Measures the engines: CPU time per vertex by size, and how diverse their graphs are.

Times are medians over rounds of the CPU time of generation alone; probes and legality are learned
before. Diversity counts distinct vertices (operator, attributes and types of its inputs) and, over
the common operators, pairs in which one reads the other.

    python -m scripts.bench.engines --engine direct --engine symbolic
    python -m scripts.bench.engines --engine direct --vertices 20000 --common
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
import typer

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTargets
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.motif_turns import motif_turns
from nnfuzz.ir.features import features
from nnfuzz.operators.motif import load_motifs
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case_generator import FAMILY

COMMON = (
    "Abs Add AveragePool BatchNormalization Cast Clip Concat Conv Exp Gemm LeakyRelu MatMul Max "
    "MaxPool Mul ReduceMean Relu Reshape Sigmoid Softmax Tanh Transpose"
).split()
"""Operators that most fuzzers have; every pair of them can occur."""


class Source:
    """Graphs of one engine by index, as a campaign of seed 0 makes them."""

    def __init__(self, name: str, nodes: int, common: bool) -> None:
        registry = OpRegistry.load()
        specs = registry.select(COMMON if common else registry).specs()
        config = admitted_by_schema(GenerateConfig(nodes=nodes), specs)
        self.targets = CoverageTargets(Catalog(specs, config, () if common else load_motifs()))
        self.engine = engine(name, self.targets.catalog, config)
        self.mutates = name == "mutate"

    def graphs(self) -> Iterator[tuple[Generated, float]]:
        """Graphs and the CPU seconds that each took.

        An engine that mutates gets a new graph in every eighth turn, which is not yielded, and
        changes it in the others.
        """
        corpus: Sequence[Kept] = ()
        for index in itertools.count():
            rng, target = random.Random(f"0/{index}"), self.targets.pick(0, index)
            turns = motif_turns(self.targets.catalog, 0, index)
            if self.mutates and index % FAMILY == 0:
                corpus = [Kept(self.engine.next(rng, (), target, turns).graph)]
            else:
                start = time.process_time()
                made = self.engine.next(rng, corpus, target, turns)
                yield made, time.process_time() - start


def timed(name: str, nodes: int, vertices: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of CPU per vertex for generation, and for `verify` and `view` after it."""
    source, made, behind = Source(name, nodes, False), [], []
    graphs = source.graphs()
    for _ in range(3):
        next(graphs)
    for _ in range(rounds):
        found, spent = [], 0.0
        while sum(len(g.graph.nodes) for g in found) < vertices:
            one, seconds = next(graphs)
            found.append(one)
            spent += seconds
        middle = time.process_time()
        for one in found:
            one.graph.verify()
            one.graph.view()
        count = sum(len(g.graph.nodes) for g in found) / 1e3
        made.append(spent / count)
        behind.append((time.process_time() - middle) / count)
    return statistics.median(made), statistics.median(behind)


def diversity(name: str, nodes: int, vertices: int, common: bool) -> str:
    seen, edges, operators, count = set(), set(), {}, 0
    for made, _ in Source(name, nodes, common).graphs():
        found = features(made.graph.view())
        seen |= found.vertices()
        edges |= found.operator_edges()
        for node in found.nodes:
            operators[node.op] = operators.get(node.op, 0) + 1
        count += len(found.nodes)
        if count >= vertices:
            break
    mean = count / len(operators)
    rarest = min(operators, key=operators.__getitem__)
    return (
        f"{len(seen) / count:.4f} of {count} vertices differ; {len(edges)} pairs of "
        f"{len(operators)} operators; rarest {rarest} {operators[rarest] / mean:.2f} of the mean"
    )


def main(
    name: Annotated[list[str] | None, typer.Option("--engine", help=", ".join(MADE))] = None,
    nodes: Annotated[list[int] | None, typer.Option(help="Sizes [5 to 200].")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of which the median counts.")] = 3,
    vertices: Annotated[int, typer.Option(help="Per round, or to count the diversity of.")] = 2000,
    diverse: Annotated[bool, typer.Option("--diversity", help="Count instead of timing.")] = False,
    common: Annotated[bool, typer.Option("--common", help="Common operators only.")] = False,
) -> None:
    torch.set_num_threads(1)
    for each in name or list(MADE):
        for size in nodes or ([10] if diverse else [5, 10, 20, 50, 100, 200]):
            if diverse:
                print(f"{each} {size}: {diversity(each, size, vertices, common)}", flush=True)
                continue
            made, behind = timed(each, size, vertices, rounds)
            print(f"{each:9} {size:4d} nodes {made:.4f} ms a vertex, {behind:.4f} verify and view")


if __name__ == "__main__":
    typer.run(main)
