"""Ten-node findings of a backend with a planted wrong rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.reduced import problem_of
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import ReduceConfig, reduce_case
from nnfuzz.reduction.subject import Subject
from nnfuzz.reduction.trials import Servers
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


def first_failing(producer, registry) -> TestCase:
    """The first test case of float32 with the pattern on which the planted rule shows: what
    follows may hide it, as a Softmax hides a constant that is added.
    """
    made = (producer.produce(index) for index in range(200))
    cases = (c for c in made if isinstance(c, TestCase) and has_pattern(c, "float32"))
    with BackendRunner(registry.spec("planted", {}), registry) as runner:
        return next(c for c in cases if planted(examine(c, runner, _bench(producer)).failures))


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
        return examine(case, runner, _bench(producer))


def _bench(producer):
    """What judges as ProducerClient does, in this process."""

    def judge(case, outcomes, names, habits):
        return producer.judge(case, {o.target: o.outputs for o in outcomes if o.ok})

    return SimpleNamespace(judge=judge)


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


@pytest.fixture(scope="module")
def subjects():
    producer = Producer(11, CaseConfig(nodes=7, exporter="direct"))
    bodies = Producer(11, CaseConfig(nodes=3, exporter="direct", operators=("If", "Loop", "Scan")))
    modes = Producer(
        11, CaseConfig(nodes=1, exporter="direct", operators=("ScatterElementsReduce",))
    )
    made = [*(producer.produce(i) for i in range(24)), *(bodies.produce(i) for i in range(4))]
    made += [modes.produce(i) for i in range(2)]
    cases = [case for case in made if isinstance(case, TestCase)]
    settled = [{**c.inputs, **c.weights} for c in cases]
    return [
        Subject(producer.load(c), params, c.exporter, opset=c.opset, newest=26)
        for c, params in zip(cases, settled)
    ]


@pytest.fixture(scope="module")
def servers(registry):
    """Fork servers that are started once."""
    with Servers(registry.spec("planted", {}), registry) as servers:
        yield servers


@pytest.fixture(scope="module")
def reduced(registry, servers):
    """Reduces findings."""

    def reduce(finding, config=None, backend=None):
        problem = problem_of(finding, backend)
        config = replace(config or ReduceConfig(), registry=registry, servers=servers)
        return reduce_case(problem, config)

    return reduce


@pytest.fixture(scope="module")
def reductions(findings, reduced):
    return [reduced(finding) for finding in findings]


ADD_CLIP = {
    "arguments": 2,
    "steps": [["Add", {}, [0, 1]], ["Clip", {"min": -2.5, "max": 4.0}, [2]]],
    "outputs": [3, 0],
}
NEGATION = {"arguments": 2, "steps": [["Neg", {}, [1]]], "outputs": [2, 0]}


@pytest.fixture
def subject():
    """relu(x) goes through an If whose second output is what went in."""
    registry = OpRegistry.load()
    attributes = {"others": 1, "results": 2, "then_branch": ADD_CLIP, "else_branch": NEGATION}
    x, scalar = TensorType(DType.FLOAT32, (2, 3)), TensorType(DType.BOOL, ())
    types = {"x": x, "y": x, "c": scalar, "r": x, "a": x, "b": x, "s": x}
    nodes = [
        Node(registry.get("Relu")(), ("x",), ("r",)),
        Node(registry.get("If").from_json(attributes), ("r", "c", "y"), ("a", "b")),
        Node(registry.get("Tanh")(), ("b",), ("s",)),
    ]
    values = {name: Value(name, type_) for name, type_ in types.items()}
    graph = Graph(values, nodes, ["x", "c"], ["y"], ["a", "s"])
    y = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    return Subject(graph, {"x": y * 3, "y": y, "c": np.array(True)}, "direct")
