"""Edits that shrink a model and keep it valid."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from nnfuzz.opspecs.arithmetic import Neg
from nnfuzz.opspecs.math import Sqrt
from nnfuzz.opspecs.resize import ResizeNearest

from nnfuzz.backend.numeric import beyond
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.sizes import copies, operators
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import SizeError, emit_called
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.cuts import apply_opset, propose_opsets
from nnfuzz.reduction.edit import MERGED, ORDER, Edit, groups
from nnfuzz.reduction.passes import FIXING, PASSES, applied, proposed
from nnfuzz.reduction.shapes import OpenSizes, propose_less
from nnfuzz.reduction.subject import (
    Inapplicable,
    Subject,
    at_each_size,
    attribute_cost,
    declaration,
    edited,
    restricted,
    value_cost,
)
from nnfuzz.reduction.values import simpler_values
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

FEWER_NODES = {
    "neighbourhoods",
    "replacements",
    "bypasses",
}


def state(subject: Subject) -> tuple:
    return subject.digest(), subject.measure()


@pytest.mark.parametrize("name", [p for p in ORDER if p != "direct"])
def test_edits_are_valid_or_inapplicable(subjects, name):
    """What comes out verifies, has finite values of the declared types, and is a function."""
    fit = 0
    if name == "rewrites":
        form = "direct+times_one#1+function#2+cast_wider#3"
        subjects = [replace(subject, exporter=form) for subject in subjects[:4]]
    if name == "large":  # the other subjects have nothing for it
        producer = Producer(11, CaseConfig(nodes=3, exporter="direct", large=1.0))
        cases = [producer.produce(index) for index in range(3)]
        subjects = [
            Subject(producer.load(c), {**c.inputs, **c.weights}, c.exporter, opset=c.opset)
            for c in cases
        ]
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


def test_merged_edits_are_halved_down_to_single_ones():
    edits = [Edit("numbers", str(i)) for i in range(5)]
    sizes = [len(group) for group in groups(edits, merge=True)]
    assert sizes == [5, 3, 2, 2, 1, 1, 1, 1, 1]
    assert {e for g in groups(edits, True) if len(g) == 1 for e in g} == set(edits)
    assert list(groups([], merge=True)) == []


def test_groups_leave_out_edits_that_no_longer_fit(subjects):
    subject = subjects[0]
    good = next(iter(PASSES["neighbourhoods"].propose(subject)))
    made = applied(subject, [good, Edit("replacements", "nobody")])
    assert made.digest() == applied(subject, [good]).digest()
    with pytest.raises(Inapplicable, match="gone"):
        applied(subject, [Edit("replacements", "nobody")])


# What single edits cannot do: leaving out two operators at once.


@pytest.fixture(scope="module")
def chain():
    """Ten of Neg and Abs."""
    producer = Producer(0, CaseConfig(nodes=10, exporter="direct", operators=("Neg", "Abs")))
    case = producer.produce(0)
    return Subject(producer.load(case), {**case.inputs, **case.weights}, case.exporter)


# Bodies under reduction: fewer steps, and simpler steps.


def test_bodies_lose_steps_and_their_operators_get_simpler(subject):
    found = [e for e in PASSES["attributes"].propose(subject) if e.value[0] == "then_branch"]
    made = [applied(subject, [read(Edit, as_json(e))]) for e in found]
    bodies = [m.graph.nodes[1].op.then_branch for m in made]
    assert {len(body.steps) for body in bodies} == {1, 2}
    assert any(s.op.attributes == {"min": 0.0, "max": 4.0} for b in bodies for s in b.steps)
    assert all(m.measure() < subject.measure() for m in made)


def test_inputs_that_an_operator_can_do_without_go(subject):
    edits = list(PASSES["operands"].propose(subject))
    assert [(e.target, e.value) for e in edits] == [("a", 2)]
    made = applied(subject, edits)
    assert made.graph.nodes[1].inputs == ("r", "c") and "y" not in made.params
    assert made.graph.nodes[1].op.then_branch.steps[0].inputs == (0, 0)
    assert made.measure() < subject.measure()


# Smaller shapes.


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


# Reducing test cases whose model has a symbolic dimension.


NAMES = ("Add", "Mul", "Relu", "MatMul", "Softmax", "ReduceSum", "Transpose", "Concat", "Abs")
CONFIG = CaseConfig(
    nodes=6, operators=NAMES, dynamic=1.0, exporter="direct", dtypes={"float32": 1.0}
)
MOST = 6


@pytest.fixture(scope="module")
def sized():
    producer = Producer(2, CONFIG)
    cases = [producer.produce(index) for index in range(14)]
    found = [c for c in cases if isinstance(c, TestCase) and c.exporter == CALLED_DIRECT]
    assert len(found) > 3
    return [Subject(producer.load(c), {**c.inputs, **c.weights}, CALLED_DIRECT) for c in found]


def test_a_subject_is_one_per_size_and_comes_together_again(sized):
    for subject in sized:
        parts = at_each_size(subject)
        assert len(parts) == 3
        for part in parts:
            part.checked()
        same = edited(subject, lambda part: part)
        assert same.graph.inputs == subject.graph.inputs
        assert same.measure() == subject.measure()


def test_static_shapes_are_one_edit_away(sized):
    for subject in sized:
        edit = next(edit for edit in proposed(subject, FIXING) if edit.value is None)
        static = applied(subject, [edit])
        assert static.exporter == "direct"
        assert len(static.graph.nodes) == len(subject.graph.nodes)
        assert static.measure() < subject.measure()
        assert operators(static.graph.view()) == 3 * operators(subject.graph.view())


@pytest.mark.parametrize("name", [name for name in PASSES if name != FIXING])
def test_edits_are_made_at_each_size(sized, name):
    seen: Counter[str] = Counter()
    for subject in sized:
        for edit in itertools.islice(proposed(subject, name), MOST):
            try:
                made = applied(subject, [edit])
                emit_called(made.graph, made.params, 20)
            except (Inapplicable, SizeError) as error:
                seen[type(error).__name__] += 1
                continue
            parts = copies(made.graph)
            assert len(parts) == 3
            assert len({tuple(n.op.name for n in part.nodes) for part in parts}) == 1
            seen["made"] += 1
    if name in ("neighbourhoods", "outputs", "numbers"):
        assert seen["made"]


# Signs of zeros: what reduction feeds has none unless a test is at edges.


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


# Simpler numbers.


def test_simplified_numbers_never_cost_more(subjects):
    from nnfuzz.reduction.subject import array_cost
    from nnfuzz.reduction.values import WAYS, _simplified

    rng = np.random.default_rng(random.Random(1).getrandbits(32))
    for dtype in DType:
        array = (rng.normal(0, 20, (3, 4)) ** 2 % 100).astype(np.int64).astype(dtype.numpy)
        for way in WAYS[:2]:
            made = _simplified(array, [way, 0, array.size])
            assert made.dtype == array.dtype
            assert array_cost(made) <= array_cost(array)


# What an attribute costs, also where its modes depend on other attributes.


def resize(mode, transformation="asymmetric"):
    return ResizeNearest(
        scales=(1,),
        by_size=0,
        transformation=transformation,
        region=(0, 1),
        nearest_mode=mode,
    )


def test_modes_that_depend_on_others_become_the_first_that_is_left():
    assert simpler_values(resize("floor"), "nearest_mode", "floor") == [
        "round_prefer_floor",
        "round_prefer_ceil",
    ]
    assert not simpler_values(resize("round_prefer_floor"), "nearest_mode", "round_prefer_floor")
    assert attribute_cost(resize("floor")) > attribute_cost(resize("round_prefer_floor"))


def test_modes_in_a_fixed_order_keep_it():
    plain, other = (resize("floor", name) for name in ("half_pixel", "asymmetric"))
    declared = declaration(plain, "transformation")
    assert declared is plain.declared["transformation"]
    costs = [value_cost("transformation", op.transformation, declared) for op in (plain, other)]
    assert costs == [0, 1]


# Every pass on random graphs: an edit yields a valid, verified test case, or says why not.


MOST_TRIALS = 16
"""The first edits of a pass that are tried per subject: 40 take 15 s more of CPU time, and so does
spreading them, since single elements are then all proposed."""


def propose(subject: Subject, name: str) -> list[Edit]:
    """The first edits of a pass, with the first element of the last output as the failing one."""
    output = subject.graph.outputs[-1]
    place = [output, [0] * subject.graph.type(output).rank]
    return [e.focused(place) for e in itertools.islice(PASSES[name].propose(subject), MOST_TRIALS)]


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


# The pass that tries newer opsets.


X = np.ones((2, 3), np.float32)


def subject(operator: str, **more) -> Subject:
    type_ = TensorType(DType.FLOAT32, (2, 3))
    values = {name: Value(name, type_) for name in "xy"}
    op = OpRegistry.load().get(operator)()
    return Subject(Graph(values, [Node(op, ("x",), ("y",))], ["x"], [], ["y"]), {"x": X}, **more)


def proposals(*given, **more) -> list[int]:
    return [edit.value for edit in propose_opsets(subject(*given, **more))]


def test_the_newest_opset_of_each_version_is_proposed_the_last_one_first():
    assert proposals("Acos", opset=15, newest=26) == [26, 21]
    assert proposals("Acos", opset=22, newest=26) == [26]
    assert proposals("Acos", opset=26, newest=26) == []


def test_opsets_that_were_given_or_that_the_exporter_lacks_are_not_proposed():
    assert proposals("Acos", opset=15) == []
    assert proposals("Acos", exporter="torchscript", opset=15, newest=26) == [20]


def test_a_newer_opset_is_simpler_and_another_candidate():
    old = subject("Acos", opset=15, newest=26)
    new = apply_opset(old, next(iter(propose_opsets(old))))
    assert new.opset == 26 and new.measure() < old.measure() and new.digest() != old.digest()
    assert replace(old, newest=0).measure()[-1] == 0


def test_newer_opsets_come_last():
    assert ORDER[-1] == "opsets"
