"""Measures how quickly and how far ten-node mismatches of sabotaged real compilers are reduced.

Each test case gets its own wrong rule: a pair of operators that it has in sequence.

    python -m scripts.bench.reduce --backend sabotaged-ort --count 20
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.blocking import examine
from nnfuzz.reduction.case import CaseReduction, Problem, ReduceConfig, reduce_case
from nnfuzz.reduction.servers import Servers
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered


def rule_of(case: TestCase) -> str | None:
    """A pair SECOND/FIRST of the case whose result is a float, so that it can be negated."""
    types = case.graph.dtypes
    makers = {o: node.op for node in case.graph.nodes for o in node.outputs}
    pairs = [
        f"{node.op}/{makers[name]}"
        for node in case.graph.nodes
        for name in node.inputs
        if name in makers and types[node.outputs[0]].startswith("float")
    ]
    return random.Random(case.id.index).choice(pairs) if pairs else None


def problems(
    backend: str,
    registry: BackendRegistry,
    servers: Servers,
    producer: ProducerClient,
    config: CaseConfig,
) -> Iterator[tuple[str, Problem]]:
    """Mismatches of test cases, each with its own rule."""
    index = 0
    while True:
        case = producer.produce(Numbered(1, index))
        index += 1
        rule = rule_of(case) if isinstance(case, TestCase) else None
        if rule is None:
            continue
        spec = registry.spec(backend, {"rule": rule})
        with servers.runner(spec) as runner:
            seen = examine(case, runner, producer.judge)
        for failure in [f for f in seen.failures if f.kind == "mismatch"][:1]:
            levels = tuple(o.level for o in seen.outcomes)
            yield rule, Problem(case, failure, spec, as_json(config), levels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="sabotaged-ort")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--exporter", default="torchscript")
    chosen = parser.parse_args()
    registry = BackendRegistry.discover([Path(__file__).parent / "sabotaged.py"])
    config = CaseConfig(exporter=chosen.exporter)
    results = []
    with (
        Servers(registry.spec(chosen.backend, {}), registry) as servers,
        ProducerClient(1, as_json(config), servers.service) as producer,
    ):
        found = problems(chosen.backend, registry, servers, producer, config)
        for _, (rule, problem) in zip(range(chosen.count), found):
            settings = ReduceConfig(chosen.workers, registry=registry, servers=servers)
            done = reduce_case(problem, settings)
            results.append((done.seconds, done.after[0]))
            print(f"{problem.case.id.index:4} {rule:24} {described(done)}", flush=True)
    seconds, nodes = zip(*results)
    print(
        f"{len(results)} findings: median {statistics.median(seconds):.1f} s, "
        f"max {max(seconds):.1f} s; median {statistics.median(nodes)} nodes, max {max(nodes)}"
    )


def described(done: CaseReduction) -> str:
    nodes = ", ".join(node.op for node in done.case.graph.nodes)
    return (
        f"{done.before[0]:2} -> [{nodes}], {done.before[6]} -> {done.after[6]} elements, "
        f"{done.run} candidates in {done.seconds:.1f} s, confirmed {done.confirmed}; {spent(done)}"
    )


def spent(done: CaseReduction) -> str:
    """The three slowest passes."""
    slow = sorted(done.counters.items(), key=lambda item: -item[1].seconds)[:3]
    return ", ".join(f"{name} {counter.seconds:.1f} s" for name, counter in slow)


if __name__ == "__main__":
    main()
