"""Signs of zeros: what reduction feeds has none unless a test is at edges."""

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.backend.agreement import beyond
from nnfuzz.backend.target import Target
from nnfuzz.ir.graph import Graph
from nnfuzz.reduction.subject import Subject, restricted
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "bool"])
@pytest.mark.parametrize("edges", [False, True])
def test_values_of_the_whole_lose_the_sign_of_their_zeros(dtype, edges):
    import ml_dtypes  # noqa: F401  (makes the dtypes known to NumPy)

    x = np.array([-0.0, 0.0, 1.0]).astype(dtype)
    graph = Graph({}, [], ["x"], [], [])
    found = restricted(Subject(graph, {}, edges=edges), graph, {"x": x}).params
    assert found["x"].dtype == x.dtype and (found["x"] == x).all()
    assert beyond(found) == (edges and dtype in ("float32", "bfloat16"))


def test_a_zero_that_arithmetic_made_may_have_any_sign():
    """Neg of 0 is -0.0, which nobody asked for; of an input with -0.0 it is asked for."""
    producer = Producer(3, CaseConfig(nodes=1, exporter="direct", operators=("Neg",), motifs=0))
    cases = (producer.produce(index) for index in range(100))
    case = next(
        c for c in cases if isinstance(c, TestCase) and "float32" in [*c.graph.dtypes.values()]
    )
    (name,), (output,) = case.inputs, case.expected
    for zero, agrees in ((0.0, True), (-0.0, False)):
        x = np.full_like(case.inputs[name], zero)
        given = replace(case, inputs={name: x}, expected={output: -x})
        target = Target("toy")
        found = producer.judge(given, {target: {output: x}})
        assert (not found.mismatches[target]) is agrees
