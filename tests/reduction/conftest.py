"""Ten-node findings of a backend with a planted wrong rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.blocking import examine
from nnfuzz.records.finding import Finding
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.signature import Failure

PLUGIN = Path(__file__).parent / "planted.py"
OPERATORS = (
    *("Add", "Mul", "Sub", "Relu", "Tanh", "Abs", "Neg", "Transpose", "Concat", "Softmax"),
    *("MatMul", "Sigmoid", "ReduceSum", "Slice"),
)
CONFIG = CaseConfig(
    nodes=10, exporter="direct", operators=OPERATORS, dtypes={"float32": 3, "float64": 1}
)


@pytest.fixture(scope="session")
def registry():
    return BackendRegistry.discover([PLUGIN])


@pytest.fixture(scope="session")
def producer():
    return Producer(7, CONFIG)


def has_pattern(case: TestCase, dtype: str = "float") -> bool:
    """Whether some Mul of a dtype that begins so reads the result of an Add."""
    types = case.graph.dtypes
    sums = {o for n in case.graph.nodes if n.op == "Add" for o in n.outputs}
    return any(
        n.op == "Mul" and sums & set(n.inputs) and types[n.outputs[0]].startswith(dtype)
        for n in case.graph.nodes
    )


def planted(failures) -> Failure | None:
    """The failure that is the planted rule's doing; onnx.reference has faults of its own."""
    own = [f for f in failures if f.kind == "mismatch" or "cannot fuse" in f.signature.title]
    return own[0] if own else None


def finding_of(producer, registry, server, index: int, **options) -> Finding | None:
    """The finding that a generated test case gives on the planted backend."""
    case = producer.produce(index)
    if not isinstance(case, TestCase) or not has_pattern(case):
        return None
    spec = registry.spec("planted", options)
    seen = judged_by(producer, spec, registry, server, case)
    failure = planted(seen.failures)
    if failure is None:
        return None
    told = seen.verdict, {"onnx": "x"}
    blame = seen.blame(failure)
    return Finding(failure, case, seen.outcomes, spec, as_json(CONFIG), *told, blame=blame)


def judged_by(producer, spec, registry, server, case):
    """The result of an experiment whose judge is a producer of this process."""
    with BackendRunner(spec, registry, server) as runner:
        return examine(
            case, runner, lambda case, outcomes, names, habits: _verdict(producer, case, outcomes)
        )


def _verdict(producer, case, outcomes):
    ok = [o for o in outcomes if o.ok]
    return producer.judge(case, {o.target: o.outputs for o in ok})


@pytest.fixture(scope="session")
def server():
    with ForkServer(("numpy", "onnx", "onnx.reference", "nnfuzz.backend.service")) as server:
        yield server


@pytest.fixture(scope="session")
def findings(producer, registry, server):
    """The first three findings of the wrong rule at O1."""
    found = []
    for index in range(1600):
        finding = finding_of(producer, registry, server, index)
        if finding is not None:
            found.append(finding)
        if len(found) == 3:
            return found
    raise AssertionError("no test case has the pattern")
