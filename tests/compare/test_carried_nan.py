"""Every operator that carries NaN: PyTorch and the reference implementation of ONNX do as well."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.check import reference_implementations
from nnfuzz.check.instances import OpInstance
from nnfuzz.check.runtimes import Unavailable, run_reference
from nnfuzz.compare.edges import enveloped_at_edges
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.registry import OpRegistry
from tests.compare.test_operators import native, samples

REGISTRY = OpRegistry.load()
NEWEST = 26
NATIVE = (DType.FLOAT32, DType.FLOAT64)
"""Types that onnx.reference computes in."""
CARRYING = [
    spec.name
    for spec in REGISTRY.of_domains(())
    if spec.carries_nan and not spec.edges and set(spec.inputs[0].dtypes) & {*NATIVE}
]


def with_nan(graph: Graph, params: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The parameters with NaN in the middle of one of them."""
    array = np.array(params[name])
    array.flat[array.size // 2] = np.nan
    return {**params, name: array}


def of_the_standard(graph: Graph, params: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx.reference computes at opset NEWEST. Raises: Unavailable."""
    (node,) = graph.nodes
    takes, gives = graph.types(graph.inputs), graph.types(graph.outputs)
    model = reference_implementations.one_node(OpInstance(node.op, takes), gives, NEWEST)
    return run_reference(model, [params[n] for n in graph.inputs])


@pytest.mark.parametrize("name", CARRYING)
def test_a_nan_that_is_asked_for_is_one_in_pytorch_and_in_onnx(name):
    for graph, params in samples(REGISTRY, name):
        for place in graph.inputs:
            if graph.type(place).dtype not in NATIVE or not params[place].size:
                continue
            given = with_nan(graph, params, place)
            found = enveloped_at_edges(graph, given).envelopes
            asked = [np.isnan(found[n].lo) & found[n].comparable for n in graph.outputs]
            own = native(graph, given)
            assert all(np.isnan(own[n][mask]).all() for n, mask in zip(graph.outputs, asked))
            try:
                theirs = of_the_standard(graph, given)
            except Unavailable:
                continue
            assert all(np.isnan(y[mask]).all() for y, mask in zip(theirs, asked)), given
