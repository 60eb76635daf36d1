"""How small the tensors of reduced models get: kernels that are wrong for some elements or sizes.

    python scripts/bench_data.py [RULE or OPERATOR ...]

One row per planted fault of tests/reduction/faults.py: elements of the model before and after, and
how many there are at least; different numbers in its inputs; candidates that were run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nnfuzz.execute.registry import BackendRegistry
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.experiment.blocking import examine
from nnfuzz.reduction.case import Problem, ReduceConfig, Reduction, reduce_case
from nnfuzz.reduction.servers import Servers
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.producer import Producer

sys.path.append(str(Path(__file__).parent.parent))
from nnfuzz.writing import as_json
from tests.reduction.faults import FAULTS, PLUGIN, Fault, elements


def main() -> None:
    chosen = sys.argv[1:]
    faults = [f for f in FAULTS if not chosen or {f.op, f.rule} & set(chosen)]
    registry = BackendRegistry.discover([PLUGIN])
    config = CaseConfig(exporter="direct")
    producer, results = Producer(0, config), []
    with (
        Servers(registry.spec("elements", {}), registry) as servers,
        ProducerClient(0, as_json(config), servers.service) as client,
    ):
        for fault in faults:
            spec, case = registry.spec("elements", fault.options), fault.case(producer)
            with BackendRunner(spec, registry, servers.backend) as runner:
                (failure,) = examine(case, runner, client.judge).failures
            problem = Problem(case, failure, spec, as_json(config))
            config = ReduceConfig(1, registry=registry, servers=servers)
            done = reduce_case(problem, config)
            print(row(fault, elements(case), done), flush=True)
            results.append((elements(done.case), done.run, fault.least))
    counts, runs, least = (sum(column) for column in zip(*results))
    print(f"{counts} elements in all, {least} at least; {runs} candidates")


def row(fault: Fault, before: int, done: Reduction) -> str:
    shapes = " ".join(str(list(a.shape)) for a in done.case.inputs.values())
    distinct = len({x for a in done.case.inputs.values() for x in a.ravel().tolist()})
    return (
        f"{fault.op:15} {fault.rule:14} {before:5} -> {elements(done.case):4} elements "
        f"(least {fault.least:2}), {distinct:3} numbers, {done.run:3} candidates, "
        f"{done.seconds:4.1f} s, confirmed {done.confirmed}; {shapes}"
    )


if __name__ == "__main__":
    main()
