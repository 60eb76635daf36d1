"""Smaller shapes."""

from __future__ import annotations

import numpy as np
from nnfuzz.opspecs.arithmetic import Neg

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.reduction.edit import ORDER, Edit
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.shapes import OpenSizes, propose_less
from nnfuzz.reduction.subject import Inapplicable, Subject


def test_every_graph_has_a_symbolic_form(subjects):
    """And what it says of the present sizes is true."""
    for subject in subjects:
        symbolic = OpenSizes(subject.graph)
        same = symbolic.concrete(symbolic.now)
        same.verify()
        assert [repr(n) for n in same.nodes] == [repr(n) for n in subject.graph.nodes]
        assert all(same.type(name).same(v.type) for name, v in subject.graph.values.items())


def test_shrinking_reaches_single_elements(subjects):
    """Nearly all graphs can have all of their dimensions small at once."""
    small = 0
    for subject in subjects:
        before = sum(v.type.numel for v in subject.graph.values.values())
        for cap in (1, 2, 3, 4):
            try:
                made = applied(subject, [Edit("shrinking", "*", [cap, "head"])])
            except Inapplicable:
                continue
            small += sum(v.type.numel for v in made.graph.values.values()) < before
            break
    assert small >= 0.7 * len(subjects)


def test_large_tensors_shrink_before_nodes_go():
    """Caps come first, from the smallest on, then a half; a small case has nothing to shrink."""
    x = TensorType(DType.FLOAT32, (257, 512))
    graph = Graph({n: Value(n, x) for n in ("x", "y")}, [Node(Neg(), ("x",), ("y",))])
    graph.inputs, graph.outputs = ["x"], ["y"]
    subject = Subject(graph, {"x": np.ones((257, 512), np.float32)}, opset=20)
    edits = [e for e in propose_less(subject) if e.value[1] == "head"]
    assert ORDER.index("large") < ORDER.index("halves") and PASSES["large"].propose is propose_less
    assert [e.value[0] for e in edits] == [4, 16, 64, 256, 0]
    shapes = [applied(subject, [e]).graph.type("y").shape for e in edits]
    assert shapes == [(4, 4), (16, 16), (64, 64), (256, 256), (129, 256)]
    assert not list(propose_less(applied(subject, [edits[-1]])))
