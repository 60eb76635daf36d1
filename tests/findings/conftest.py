"""One test case, tanh(x + w), and findings about it."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.compilers import examine
from nnfuzz.ir.view import GraphView
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Numbered

HERE = Path(__file__).parent
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
W = np.array([1, 2, 3], np.float32)
GRAPH = GraphView.from_json(
    {
        "schema": 1,
        "values": [
            ["x", "float32", [2, 3]],
            ["w", "float32", [3]],
            ["h", "float32", [2, 3]],
            ["y", "float32", [2, 3]],
        ],
        "nodes": [
            {"op": "Add", "attributes": {}, "inputs": ["x", "w"], "outputs": ["h"]},
            {"op": "Tanh", "attributes": {}, "inputs": ["h"], "outputs": ["y"]},
        ],
        "inputs": ["x"],
        "weights": ["w"],
        "outputs": ["y"],
    }
)


def model() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(W, "w")],
    )
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def judge(case, outcomes, names=(), habits=()):
    """A stand-in for the oracle: everything within 1e-5 of the expected values is right."""
    mismatches = {}
    for outcome in outcomes:
        if outcome.outputs is not None:
            found = _compare(case.expected["y"], outcome.outputs["y"])
            mismatches[str(outcome.target)] = found
    return read(Verdict, {"mismatches": mismatches, "comparable": {"y": 1.0}})


BENCH = SimpleNamespace(judge=judge)


def _compare(expected, actual):
    base = {"output": "y", "expected": "", "actual": "", "wrong": 0, "share": 0.0, "worst": None}
    if actual.shape != expected.shape:
        shapes = {"expected": str(list(expected.shape)), "actual": str(list(actual.shape))}
        return [{**base, "kind": "shape", **shapes}]
    off = np.abs(actual - expected)
    if off.max() <= 1e-5:
        return []
    index = np.unravel_index(off.argmax(), off.shape)
    right = float(expected[index])
    worst = {
        "index": [int(i) for i in index],
        "expected": right,
        "actual": float(actual[index]),
        "lo": right - 1e-5,
        "hi": right + 1e-5,
        "excess": 1.0,
    }
    return [{**base, "kind": "value", "wrong": 1, "share": 1 / 6, "worst": worst}]


@pytest.fixture(scope="session")
def server():
    with ForkServer(("numpy", "onnx", "nnfuzz.backend.service")) as server:
        yield server


@pytest.fixture(scope="session")
def registry():
    return BackendRegistry.discover([HERE / "planted.py"])


@pytest.fixture(scope="session")
def case():
    expected = {"y": np.tanh(X + W)}
    return TestCase(Numbered(7, 3), GRAPH, model(), {"x": X}, {"w": W}, expected, "direct", 18)


@pytest.fixture(scope="session")
def runner_of(registry, server):
    """Backend specification -> runner, kept for the session."""
    runners = {}

    def make(text):
        if text not in runners:
            runners[text] = BackendRunner(registry.parse(text), registry, server)
        return runners[text]

    yield make
    for runner in runners.values():
        runner.close()


@pytest.fixture(scope="session")
def finding_of(case, runner_of):
    """Backend specification -> the finding that it gives."""

    def make(text):
        runner = runner_of(text)
        seen = examine(case, runner, BENCH)
        (failure,) = seen.failures
        return Finding(
            failure,
            case,
            seen.outcomes,
            runner.spec,
            as_json(CaseConfig()),
            seen.verdict,
            {"planted": "1.0"},
            Origin(epoch=3),
        )

    return make
