"""What families of operators share."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import onnx
import pytest
import torch
from nnfuzz.opspecs.conv import Conv
from nnfuzz.opspecs.integer import MatMulInteger
from nnfuzz.opspecs.quantize import (
    QuantizeLinear,
)
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import emit_model
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.equation import labels_of, random_equation, ranks
from nnfuzz.operators.families.resample import cubic, interpolation, nearest, positions, triangle
from tests.inputs.graphs import REGISTRY
from tests.opspecs.samples import ramp, solved
from tests.opspecs.test_quantize import U, exact, inside

# Weights and positions of resampling.


WHOLE = (Fraction(0), Fraction(1))


@pytest.mark.parametrize("kernel", [triangle, cubic(-0.5), cubic(-0.75)])
def test_weights_add_up_to_one(kernel):
    places = positions("half_pixel", 5, 10, Fraction(2), WHOLE)
    for outside in (False, True):
        matrix = interpolation(places, 5, kernel, exclude_outside=outside)
        assert np.allclose(matrix.sum(1), 1)


def test_positions_of_a_single_element():
    half = Fraction(1, 2)
    assert positions("half_pixel", 2, 1, half, WHOLE) == (half,)
    assert positions("pytorch_half_pixel", 2, 1, half, WHOLE) == (0,)
    assert positions("align_corners", 2, 1, half, WHOLE) == (0,)
    assert positions("tf_crop_and_resize", 3, 1, Fraction(1, 3), WHOLE) == (1,)


def test_nearest_stays_inside():
    assert nearest(Fraction(-1, 4), "floor", 3) == 0
    assert nearest(Fraction(9, 4), "ceil", 3) == 2


# Convolutions.


def test_convolutions_vary():
    drawn = list(solved(Conv, DType.FLOAT32, 300))
    assert {x.rank for _, (x, *_) in drawn} == {3, 4, 5}
    assert any(op.group == x.shape[1] > 1 for op, (x, *_) in drawn), "depthwise"
    assert any(op.symmetric() and any(op.pads) for op, _ in drawn)
    assert any(not op.symmetric() for op, _ in drawn)
    assert {len(types) for _, types in drawn} == {2, 3}


# Products of small integers.


I8 = DType.INT8


def test_heavy_int8_weights_are_out_of_bounds():
    a, light = torch.ones(1, 2, dtype=torch.uint8), torch.full((2, 1), 64, dtype=torch.int8)
    op = MatMulInteger(columns=0)
    assert all(bool((term <= 0).all()) for term in op.domain(a, light))
    assert not all(bool((term <= 0).all()) for term in op.domain(a, -light * 2))


# Equations of Einsum.


@pytest.mark.parametrize(
    ("equation", "shapes", "terms", "out"),
    [
        ("ij,jk->ik", (2, 2), ("ij", "jk"), "ik"),
        ("ba, b", (2, 1), ("ba", "b"), "a"),
        ("...ij,...j->...i", (4, 3), ("01ij", "01j"), "01i"),
        ("...i->i...", (3,), ("01i",), "i01"),
        ("ii->", (2,), ("ii",), ""),
    ],
)
def test_equations_are_read(equation, shapes, terms, out):
    labels = labels_of(equation, shapes)
    assert (labels.terms, labels.out) == (terms, out)


@pytest.mark.parametrize(
    ("equation", "shapes"), [("ij->i", (3,)), ("i,j->i", (1,)), ("...i,...j->...", (2, 3))]
)
def test_equations_for_other_ranks_are_not(equation, shapes):
    assert labels_of(equation, shapes) is None


def test_drawn_equations_fit_and_cover_what_einsum_can_do():
    found = []
    for seed in range(400):
        draw = Draw(random.Random(seed))
        first, result = draw.integer(1, 5), draw.integer(0, 5)
        equation = random_equation(draw, first, result if seed % 2 else None)
        labels = labels_of(equation, ranks(equation, first))
        assert labels and len(labels.terms[0]) == first and len(labels.out) <= 5
        assert set(labels.out) <= set("".join(labels.terms))
        found.append((equation, labels))
    assert any("->" not in e for e, _ in found) and any("..." in e for e, _ in found)
    assert {len(found.terms) for _, found in found} == {1, 2, 3}
    assert any(len(set(term)) < len(term) for _, labels in found for term in labels.terms)
    assert any(labels.summed for _, labels in found)


# Integers that shape a result mean the same in whatever way the model writes them.


FORMS = ("initializer", "constant", "shape", "shapes")


def values(**shapes):
    return {n: Value(n, TensorType(DType.FLOAT32, shape)) for n, shape in shapes.items()}


def written(form, opset=20):
    """x -> Relu -> y; z -> Reshape to sizes of x and other numbers -> out."""
    relu = Node(REGISTRY.get("Relu")(), ("x",), ("y",))
    reshape = REGISTRY.get("Reshape")(shape=(3, 5, 8), inferred=-1, operand=form)
    nodes = [relu, Node(reshape, ("z",), ("out",))]
    known = values(x=(3, 5), y=(3, 5), z=(4, 30), out=(3, 5, 8))
    return emit_model(Graph(known, nodes, ["x", "z"], [], ["y", "out"]), {}, opset)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [13, 20])
def test_every_form_is_valid_and_means_the_same(form, opset):
    model = written(form, opset)
    onnx.checker.check_model(model, full_check=True)
    fed = {"x": np.ones((3, 5), np.float32), "z": np.arange(120, dtype=np.float32).reshape(4, 30)}
    _, out = ReferenceEvaluator(model).run(None, fed)
    assert np.array_equal(out, fed["z"].reshape(3, 5, 8))


def test_shapes_are_read_of_earlier_values_only_where_the_form_says_so():
    reads = {form: _read_by_shape(written(form)) for form in FORMS}
    assert reads["initializer"] == reads["constant"] == set()
    assert reads["shape"] == {"z"}
    assert reads["shapes"] & {"x", "y"}


def test_a_number_beyond_every_size_stays_a_constant():
    op = REGISTRY.get("Slice")
    far = op(axes=(0,), steps=(1,), starts=(1,), ends=(4,), style="beyond", operand="shape")
    graph = Graph(values(x=(4,), y=(3,)), [Node(far, ("x",), ("y",))], ["x"], [], ["y"])
    model = emit_model(graph, {}, 20)
    held = [onnx.numpy_helper.to_array(t).tolist() for t in model.graph.initializer]
    assert [2**63 - 1] in held
    (y,) = ReferenceEvaluator(model).run(None, {"x": np.arange(4, dtype=np.float32)})
    assert y.tolist() == [1, 2, 3]


def _read_by_shape(model):
    return {node.input[0] for node in model.graph.node if node.op_type == "Shape"}


# Rounding to integers with a scale.


def test_next_to_a_tie_both_neighbours_are_right():
    op = QuantizeLinear(axis=None, to=I8)
    scale, x = torch.tensor(0.3, dtype=torch.float64), torch.tensor([0.75, 0.76], dtype=float)
    (interval,) = op.decided(U, *exact(x, scale))
    assert (interval.lo.tolist(), interval.hi.tolist()) == ([2, 3], [3, 3])
    assert float(op.margins(x, scale)[0][0]) < 1e-9


def test_powers_of_two_divide_exactly():
    (interval,) = QuantizeLinear(axis=None, to=I8).decided(
        U, *exact(ramp(9) / 4, torch.tensor(0.5))
    )
    assert torch.equal(interval.lo, interval.hi)


def test_an_odd_zero_point_may_be_added_before_ties_are_rounded():
    x, scale = torch.tensor([-0.125, 0.1]), torch.tensor(0.25)
    for zero, both in ((1, True), (2, False)):
        intervals = exact(x, scale, torch.tensor(zero, dtype=torch.int8))
        (interval,) = QuantizeLinear(axis=None, to=I8).decided(U, *intervals)
        first = (x / scale + zero).round()
        assert (interval.lo <= first).all() and (first <= interval.hi).all()
        assert (interval.lo != interval.hi).tolist() == [both, False]


def test_reciprocals_and_quotients_lie_in_the_box_and_what_is_further_off_does_not():
    generator = torch.Generator().manual_seed(0)
    op = QuantizeLinear(axis=None, to=I8)
    for _ in range(50):
        scale = torch.rand((), generator=generator) * 0.1 + 0.01
        x = ((torch.rand(400, generator=generator) * 200 - 100).round() + 0.5) * scale
        (interval,) = op.decided(U, *exact(x, scale))
        for v in (x / scale, x * (1 / scale)):
            assert inside(interval, v.round().clamp(-128, 127))
    assert not inside(interval, (x / scale - 1.6).round().clamp(-128, 127))
