"""Every pass on random graphs: an edit yields a valid, verified test case, or says why not."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from nnfuzz.opspecs.arithmetic import Neg
from nnfuzz.opspecs.math import Sqrt

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.reduction.edit import MERGED, ORDER, Edit, groups
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.shapes import OpenSizes
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

MOST = 16
"""The first edits of a pass that are tried per subject: 40 take 15 s more of CPU time, and so does
spreading them, since single elements are then all proposed."""
FEWER_NODES = {"neighbourhoods", "prefixes", "replacements", "bypasses", "pairs", "constants"}


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


def state(subject: Subject) -> tuple:
    return subject.digest(), subject.measure()


def propose(subject: Subject, name: str) -> list[Edit]:
    """The first edits of a pass, with the first element of the last output as the failing one."""
    output = subject.graph.outputs[-1]
    place = [output, [0] * subject.graph.type(output).rank]
    return [e.focused(place) for e in itertools.islice(PASSES[name].propose(subject), MOST)]


@pytest.mark.parametrize("name", [p for p in ORDER if p != "direct"])
def test_edits_are_valid_or_inapplicable(subjects, name):
    """What comes out verifies, has finite values of the declared types, and is a function."""
    fit = 0
    if name == "rewrites":
        form = "direct+times_one#1+function#2+identity#3"
        subjects = [replace(subject, exporter=form) for subject in subjects[:4]]
    for subject in subjects:
        before = state(subject)
        edits = propose(subject, name)
        assert [e.key for e in edits] == [e.key for e in propose(subject, name)]
        for edit in edits:
            assert read(Edit, as_json(edit)) == edit
            try:
                made = applied(subject, [edit])
            except Inapplicable:
                continue
            fit += 1
            made.graph.verify()
            for value, type_ in made.graph.values.items():
                array = made.values[value]
                assert array.shape == type_.type.shape
                assert array.dtype == type_.type.dtype.numpy
            assert set(made.params) == {*made.graph.inputs, *made.graph.weights}
            if name in FEWER_NODES:
                assert made.measure() < subject.measure()
                assert len(made.graph.nodes) < len(subject.graph.nodes)
        assert state(subject) == before
    assert fit


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


def test_merged_edits_are_halved_down_to_single_ones():
    edits = [Edit("numbers", str(i)) for i in range(5)]
    sizes = [len(group) for group in groups(edits, merge=True)]
    assert sizes == [5, 3, 2, 2, 1, 1, 1, 1, 1]
    assert {e for g in groups(edits, True) if len(g) == 1 for e in g} == set(edits)
    assert list(groups([], merge=True)) == []


def test_groups_leave_out_edits_that_no_longer_fit(subjects):
    subject = subjects[0]
    good = next(iter(PASSES["neighbourhoods"].propose(subject)))
    made = applied(subject, [good, Edit("constants", "nobody", "weight")])
    assert made.digest() == applied(subject, [good]).digest()
    with pytest.raises(Inapplicable, match="gone"):
        applied(subject, [Edit("constants", "nobody", "weight")])


def test_simplified_numbers_never_cost_more(subjects):
    from nnfuzz.reduction.simplicity import array_cost
    from nnfuzz.reduction.values import WAYS, _simplified

    rng = np.random.default_rng(random.Random(1).getrandbits(32))
    for dtype in DType:
        array = (rng.normal(0, 20, (3, 4)) ** 2 % 100).astype(np.int64).astype(dtype.numpy)
        for way in WAYS[:2]:
            made = _simplified(array, [way, 0, array.size])
            assert made.dtype == array.dtype
            assert array_cost(made) <= array_cost(array)


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
