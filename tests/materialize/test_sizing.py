"""Sizes and small constants of models."""

from __future__ import annotations

from nnfuzz.materialize.sizing import UNKNOWN_SIZE
from tests.materialize.test_importing import read


def test_defaults_and_constant_inputs_become_attributes():
    graph = read(
        """m (float[N, 4, 6] x) => (float[K, 2] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] far = {99}, int64[2] shape = {-1, 2}> {
            t = Transpose(x)
            s = Slice(t, one, far, zero)
            r = ReduceMean(s, zero)
            y = Reshape(r, shape)
        }"""
    )
    assert graph.type(graph.inputs[0]).shape == (UNKNOWN_SIZE, 4, 6)
    assert not graph.weights
    names = [node.op.name for node in graph.nodes]
    assert names == ["Transpose", "Slice", "ReduceMean", "Reshape"]
    assert graph.nodes[0].op.perm == (2, 1, 0)
    assert (graph.nodes[1].op.starts, graph.nodes[1].op.ends) == ((1,), (6,))
    assert graph.nodes[3].op.inferred == 0
