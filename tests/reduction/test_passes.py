"""Every pass on random graphs: an edit yields a valid, verified test case, or says why not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from nnfuzz.opspecs.arithmetic import Neg
from nnfuzz.opspecs.math import Sqrt

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.reduction.edit import MERGED, ORDER, Edit, groups
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject

MOST = 16
"""The first edits of a pass that are tried per subject: 40 take 15 s more of CPU time, and so does
spreading them, since single elements are then all proposed."""


def propose(subject: Subject, name: str) -> list[Edit]:
    """The first edits of a pass, with the first element of the last output as the failing one."""
    output = subject.graph.outputs[-1]
    place = [output, [0] * subject.graph.type(output).rank]
    return [e.focused(place) for e in itertools.islice(PASSES[name].propose(subject), MOST)]


def test_a_mode_becomes_the_plain_operator(subjects):
    modes = [s for s in subjects if [n.op.name for n in s.graph.nodes] == ["ScatterElementsReduce"]]
    for subject in modes:
        (edit,) = PASSES["plain"].propose(subject)
        made = applied(subject, [edit])
        (node,) = made.graph.nodes
        assert node.op.name == "ScatterElements" and made.measure() < subject.measure()
        assert node.op.axis == subject.graph.nodes[0].op.axis
        assert not list(PASSES["plain"].propose(made))
    assert modes


def test_reduction_without_a_question_reaches_one_node(subjects):
    """If everything is interesting, the passes leave next to nothing; measures only fall."""
    for subject in subjects:
        for name in ORDER:
            for group in groups(propose(subject, name), name in MERGED):
                try:
                    made = applied(subject, group)
                except Inapplicable:
                    continue
                if made.measure() < subject.measure():
                    subject = made
        assert len(subject.graph.nodes) == 1


def test_a_subject_at_edges_keeps_nan_and_infinities():
    """Elsewhere a value that is not finite makes a candidate invalid."""
    x = TensorType(DType.FLOAT32, (3,))
    values = {name: Value(name, x) for name in "xyz"}
    nodes = [Node(Sqrt(), ("x",), ("y",)), Node(Neg(), ("y",), ("z",))]
    given = {"x": np.array([np.nan, np.inf, -1.0], np.float32)}
    subject = Subject(Graph(values, nodes, ["x"], [], ["z"]), given, edges=True)
    assert np.isnan(subject.checked().values["z"]).tolist() == [True, False, True]
    cut = applied(subject, [Edit("neighbourhoods", "input", ["z"])])
    assert cut.params["y"][1] == np.inf and cut.edges
    simpler = applied(subject, [Edit("numbers", "x", ["integers", 0, 3])])
    assert np.isnan(simpler.params["x"][0])
    with pytest.raises(Inapplicable):
        replace(subject, edges=False).checked()
    with pytest.raises(Inapplicable, match="no NaN"):
        applied(subject, [Edit("dtypes", "float32", "int64")])
