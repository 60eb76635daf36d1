"""Measures the input search: how often it finds an input, its CPU time, and what defeats it.

As in a campaign, a graph without inputs after a few draws is replaced by another one; times are
those of all searches of a test case.

Every installed operator is enabled, the vulnerable ones (Log, Asin, Div, Pow ...) included. Prints
one row per graph size and the operators that were violated most in the graphs without an input.

    python -m scripts.bench.inputs --graphs 1000 --nodes 10 20 30
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter

import torch

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.inputs.regimes import Regime, regime_of
from nnfuzz.inputs.search import DRAWS_ONLY, Found, NotFound, SearchConfig, search
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case_generator import ATTEMPTS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=500, help="graphs per size (default 500)")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 20, 30], help="graph sizes")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--top", type=int, default=8, help="patterns to list (default 8)")
    parser.add_argument("--seeds", action="store_true", help="list the seeds without an input")
    parser.add_argument("--operators", default="", help="names, by commas (default: all)")
    parser.add_argument("--engine", choices=MADE, default="direct", help="(default direct)")
    parser.add_argument(
        "--descend", action="store_true", help="the full search on one graph; else as in a campaign"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    budgets = [SearchConfig()] if args.descend else [*[DRAWS_ONLY] * (ATTEMPTS - 1), SearchConfig()]
    print(
        "nodes  found %  first draw %  mean ms  median  p95  max  stable %  graphs  gradient steps"
    )
    for nodes in args.nodes:
        bench(nodes, args, budgets)


def bench(nodes: int, args: argparse.Namespace, budgets: list[SearchConfig]) -> None:
    """Measure one graph size and print a row and the patterns behind the failures."""
    registry = OpRegistry.load()
    specs = registry.select(args.operators.split(",") if args.operators else registry).specs()
    config = admitted_by_schema(GenerateConfig(nodes=nodes), specs)
    catalog = Catalog(specs, config)
    made_by = engine(args.engine, catalog, config)
    results, patterns, failed = [], Counter(), []
    for i in range(args.seed, args.seed + args.graphs):
        rng, seconds, tried = random.Random(i), 0.0, 0
        for budget in budgets:
            tried += 1
            graph = made_by.next(rng).graph
            start = time.process_time()
            result = search(graph, random.Random(rng.random()), budget)
            seconds += time.process_time() - start
            if isinstance(result, Found):
                break
            patterns[pattern(graph, result)] += 1
        else:
            failed.append(i)
        results.append((result, seconds * 1e3, tried))
        progress(len(results), args.graphs)
    print(row(nodes, results))
    found = [result for result, _, _ in results if isinstance(result, Found)]
    print(f"    regimes of float inputs: {regimes(found)}")
    for text, count in patterns.most_common(args.top):
        print(f"    {count:4d}  {text}")
    if args.seeds and failed:
        print("    seeds:", *failed)


def row(nodes: int, results: list[tuple[Found | NotFound, float, int]]) -> str:
    times = sorted(ms for _, ms, _ in results)
    found = [r for r, _, _ in results if isinstance(r, Found)]
    first = sum(r.draws == 1 and r.steps == 0 and tried == 1 for r, _, tried in results)
    return (
        f"{nodes:5d}  {100 * len(found) / len(results):7.2f}  {100 * first / len(results):12.1f}"
        f"  {statistics.fmean(times):7.2f}  {statistics.median(times):6.2f}"
        f"  {times[int(len(times) * 0.95)]:3.0f}  {times[-1]:3.0f}"
        f"  {100 * statistics.fmean(r.stable for r in found):8.2f}"
        f"  {statistics.fmean(tried for _, _, tried in results):6.2f}"
        f"  {statistics.fmean(r.steps for r, _, _ in results):14.2f}"
    )


def regimes(results: list[Found]) -> str:
    """The share of the float inputs and weights that show each regime."""
    arrays = [a for r in results for a in (*r.inputs.values(), *r.weights.values()) if a.size]
    floats = [a for a in arrays if DType.of(a.dtype).is_float]
    shown = Counter(regime for a in floats for regime in regime_of(a))
    return ", ".join(f"{r.value} {100 * shown[r] / max(len(floats), 1):.0f} %" for r in Regime)


def pattern(graph: Graph, result: NotFound) -> str:
    """The most violated node and the operators that compute its inputs."""
    node = graph.nodes[max(result.violations, key=result.violations.__getitem__)]
    makers = graph.producer()
    args = (makers[n].op.name if n in makers else "placeholder" for n in node.inputs)
    return f"{node.op.name}({', '.join(args)})"


def progress(done: int, total: int) -> None:
    if sys.stderr.isatty() or done % 100 == 0 or done == total:
        end = "\r" if sys.stderr.isatty() and done < total else "\n"
        print(f"  {done}/{total} graphs", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
