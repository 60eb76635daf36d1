"""Measures how wide the envelopes of random models' outputs are by dtype, and which operators widen
them.

    python -m scripts.check.envelopes --models 2000 --seed 0 [--causes]

A float output's width is the median, over its comparable elements other than 0, of half the
envelope's width, in units in the last place of the dtype: 1/2 is what a correctly rounded result
needs. Exact outputs have no width and are counted separately. A discrete output is comparable where
its elements are certain. `--causes` repeats each model without each operator's own rounding in
turn, and counts the operators whose absence narrows the envelope most.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from nnfuzz.compare.envelope import Envelope, envelope, node_intervals, width
from nnfuzz.compare.envelope import propagate as propagated
from nnfuzz.compare.precision import PRECISIONS
from nnfuzz.compare.reference import reference
from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.ir.graph import Graph
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

Arrays = Mapping[str, np.ndarray]
SILENT = {d: replace(p, u=1e-300, tiny=0.0) for d, p in PRECISIONS.items()}
"""Precisions in which nothing rounds."""


def main() -> int:
    arguments = parse()
    torch.set_num_threads(1)
    widths: dict[str, list[float]] = defaultdict(list)
    exact: Counter[str] = Counter()
    certain: dict[str, list[float]] = defaultdict(list)
    lost: dict[str, list[bool]] = defaultdict(list)
    causes: Counter[str] = Counter()
    seconds = 0.0
    for graph, params in models(arguments):
        start = time.process_time()
        values = reference(graph, params)
        intervals = propagated(graph, values)
        seconds += time.process_time() - start
        found = {n: envelope(graph.type(n).dtype, values[n], intervals[n]) for n in graph.outputs}
        for name, bounds in found.items():
            dtype = bounds.dtype.value
            certain[dtype].append(float(bounds.comparable.mean()) if bounds.ref.size else 1.0)
            if not bounds.dtype.is_float:
                lost[producer_of(graph, name)].append(not bounds.comparable.any())
                continue
            size = middle(bounds)
            exact[dtype] += size == 0.0
            if size:
                widths[dtype].append(size)
        if arguments.causes:
            for cause in blamed(graph, values, found):
                causes[cause] += 1
    report(widths, exact, certain, lost, causes)
    print(f"reference and envelopes: {seconds:.1f} s CPU")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=10, help="operators per model")
    parser.add_argument("--causes", action="store_true", help="blame operators (ten times slower)")
    return parser.parse_args()


def models(arguments: argparse.Namespace) -> Iterator[tuple[Graph, Arrays]]:
    """Graphs and their inputs and weights, as a campaign makes them."""
    config = CaseConfig(exporter="direct", nodes=arguments.nodes)
    producer = Producer(arguments.seed, config)
    console = Console(file=sys.stderr)
    for index in track(range(arguments.models), description="models", console=console):
        case = producer.produce(index)
        if isinstance(case, TestCase):
            yield producer.load(case), {**case.inputs, **case.weights}


def middle(bounds: Envelope) -> float | None:
    """The median width of an output's intervals in units in the last place, or None."""
    found = width(bounds)
    return found.median if found else None


def producer_of(graph: Graph, name: str) -> str:
    """The operator that computes a value."""
    return next((node.op.name for node in graph.nodes if name in node.outputs), "input")


def blamed(graph: Graph, values: Mapping, found: Mapping[str, Envelope]) -> Iterator[str]:
    """For every output, the operator and dtype whose rounding makes most of its width."""
    before = {n: middle(b) for n, b in found.items() if b.dtype.is_float}
    before = {n: w for n, w in before.items() if w}
    least: dict[str, tuple[float, str]] = {}
    for silenced in sorted({node.op.name for node in graph.nodes}):
        intervals = without(graph, values, silenced)
        for name, size in before.items():
            bounds = envelope(graph.type(name).dtype, values[name], intervals[name])
            share = (middle(bounds) or 0.0) / size
            least[name] = min(least.get(name, (1.0, "none")), (share, silenced))
    for name, (_, cause) in least.items():
        yield f"{graph.type(name).dtype.value} {cause}"


def without(graph: Graph, values: Mapping, silenced: str) -> dict:
    """The intervals of all values if an operator does not round."""
    parameters = (*graph.inputs, *graph.weights)
    empty = replace_nodes(graph)
    with torch.inference_mode():
        intervals = propagated(empty, {n: values[n] for n in parameters})
        for node in graph.nodes:
            working = SILENT if node.op.name == silenced else PRECISIONS
            node_intervals(graph, node, values, intervals, working)
    return intervals


def replace_nodes(graph: Graph) -> Graph:
    """The graph without its nodes."""
    return Graph(graph.values, [], graph.inputs, graph.weights, [])


def report(
    widths: Mapping[str, list[float]],
    exact: Counter[str],
    certain: Mapping[str, list[float]],
    lost: Mapping[str, list[bool]],
    causes: Counter[str],
) -> None:
    print(f"{'dtype':14s} {'inexact':>8s} {'exact':>6s}  {'quartile':>9s} {'median':>9s} "
          f"{'quartile':>9s} {'comparable':>11s}")  # fmt: skip
    for dtype in (d.value for d in FLOATS):
        if widths.get(dtype):
            a, b, c = np.percentile(widths[dtype], [25, 50, 75])
            print(f"{dtype:14s} {len(widths[dtype]):8d} {exact[dtype]:6d}  {a:9.3g} {b:9.3g} "
                  f"{c:9.3g} {np.mean(certain[dtype]):11.4f}")  # fmt: skip
    discrete = [
        share for d, s in certain.items() if d not in [f.value for f in FLOATS] for share in s
    ]
    print(f"discrete outputs: {len(discrete)}, comparable {np.mean(discrete):.4f}")
    rows = sorted(lost.items(), key=lambda row: -sum(row[1]))
    for name, wholly in rows:
        if any(wholly):
            print(f"  wholly incomparable behind {name}: {sum(wholly)} of {len(wholly)}")
    for cause, count in causes.most_common(60):
        print(f"  {count:6d} {cause}")


if __name__ == "__main__":
    sys.exit(main())
