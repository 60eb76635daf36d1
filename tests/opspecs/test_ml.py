"""Intervals and labels of ai.onnx.ml operators; test_conformance has their values."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.ml.linear import Affine
from nnfuzz.opspecs.ml.trees import Forest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.intervals import Interval
from tests.inputs.graphs import REGISTRY

STUMP = ("BRANCH_LEQ", 0, 0.5, ((0, 1.0), (1, 2.0)), ((2, 4.0),))
"""1 for the first target and 2 for the second up to 0.5, else 4 for the third."""


def op(name, **attributes):
    return REGISTRY.get(f"ai.onnx.ml.{name}")(**attributes)


def exact(x):
    return Interval(x, x)


def test_an_interval_on_both_sides_of_a_split_gives_what_both_leaves_give():
    x = Interval(torch.tensor([[0.25], [0.0]]), torch.tensor([[0.75], [0.5]]))
    (y,) = Forest((STUMP,), 3).interval(x)
    assert y.lo.tolist() == [[0.0, 0.0, 0.0], [1.0, 2.0, 0.0]]
    assert y.hi.tolist() == [[1.0, 2.0, 4.0], [1.0, 2.0, 0.0]]


@pytest.mark.parametrize(
    ("mode", "surely", "never"),
    [
        ("BRANCH_LT", (0.0, 0.25), (0.5, 1.0)),
        ("BRANCH_GTE", (0.5, 1.0), (0.0, 0.25)),
        ("BRANCH_EQ", (0.5, 0.5), (0.75, 1.0)),
        ("BRANCH_NEQ", (0.75, 1.0), (0.5, 0.5)),
    ],
)
def test_decisions_are_certain_where_both_ends_say_so(mode, surely, never):
    tree = (mode, 0, 0.5, ((0, 1.0),), ((0, 0.0),))
    ends = [torch.tensor([[s], [n]]) for s, n in zip(surely, never)]
    (y,) = Forest((tree,), 1).interval(Interval(*ends))
    assert y.lo.tolist() == y.hi.tolist() == [[1.0], [0.0]]


def test_a_classifier_may_return_either_label_of_equal_scores():
    model = op(
        "LinearClassifier",
        features=1,
        classes=3,
        labels=(7, 2, 5),
        coefficients=(1.0, 1.0, 0.0),
        intercepts=(0.0, 0.0, 0.0),
        post_transform="NONE",
    )
    label, scores = model.torch(torch.tensor([[2.0], [-1.0]]))
    assert scores.tolist() == [[2.0, 2.0, 0.0], [-1.0, -1.0, 0.0]]
    assert label[1] == 5

    def apply(step, *values):
        decided = step.decided(0.0, *values)
        return (decided or step.interval(*values))[0]

    label, _ = model.compose(apply, exact(torch.tensor([[2.0], [-1.0]])))
    assert (label.lo.tolist(), label.hi.tolist()) == ([2, 5], [7, 5])


def test_one_score_of_two_classes_is_that_of_the_second():
    def scored(low, high, transform):
        tree = ("BRANCH_LEQ", 0, 0.0, ((0, low),), ((0, high),))
        given = {"classes": 2, "labels": (3, 4), "trees": (tree,), "post_transform": transform}
        given["base"] = ()
        return op("TreeEnsembleClassifier", **given)

    x = torch.tensor([[-1.0], [1.0]])
    label, scores = scored(0.25, 0.875, "NONE").torch(x)
    assert (label.tolist(), scores.tolist()) == ([3, 4], [[0.75, 0.25], [0.125, 0.875]])
    label, scores = scored(-1.0, 2.0, "LOGISTIC").torch(x)
    both = torch.tensor([[1.0, -1.0], [-2.0, 2.0]]).sigmoid()
    assert label.tolist() == [3, 4] and torch.equal(scores, both)
    for undecided in (scored(0.25, 2.0, "LOGISTIC"), scored(-1.0, 2.0, "NONE")):
        assert not all(undecided.requires(TensorType(DType.FLOAT32, (2, 1))))


def test_an_intercept_widens_no_interval():
    (y,) = Affine([[2.0]], [100.0]).interval(Interval(torch.zeros(1, 1), torch.ones(1, 1)))
    assert (y.lo.item(), y.hi.item()) == pytest.approx((100.0, 102.0))


def test_the_value_that_is_replaced_may_be_met_within_an_interval():
    x = Interval(torch.tensor([[-0.5, 0.0, 1.0]]), torch.tensor([[0.5, 0.0, 2.0]]))
    (y,) = op("Imputer", replaced=0, imputed=(7,)).interval(x)
    assert y.lo.tolist() == [[-0.5, 7.0, 1.0]]
    assert y.hi.tolist() == [[7.0, 7.0, 2.0]]


def test_what_the_standard_leaves_open_is_no_instance():
    trees = {"targets": 1, "trees": (((0, 1.0),),), "aggregate": "SUM", "base": ()}
    linear = {"targets": 1, "features": 1, "coefficients": (1.0,), "intercepts": (0.5,)}
    for name, usual, others in (
        ("TreeEnsembleRegressor", trees, {"trees": (((0, 1.0), (0, 2.0)),)}),
        ("TreeEnsembleRegressor", {**trees, "targets": 3}, {"aggregate": "MIN"}),
        ("LinearRegressor", linear, {"post_transform": "SOFTMAX"}),
        ("LinearRegressor", linear, {"coefficients": (1.0, 2.0)}),
    ):
        for more, admitted in ({}, True), (others, False):
            made = op(name, **{"post_transform": "NONE", **usual, **more})
            assert all(made.requires(TensorType(DType.FLOAT32, (2, 1)))) is admitted


def test_rows_with_negative_elements_have_no_known_maximum_or_sum():
    x = exact(torch.tensor([[1.0, 2.0], [-1.0, 2.0]]))
    for norm in ("MAX", "L1"):
        assert op("Normalizer", norm=norm).undefined(x).tolist() == [[False], [True]]
    assert op("Normalizer", norm="L2").undefined(x) is None


def test_base_values_of_classes_are_added_to_their_scores():
    tree = ("BRANCH_LEQ", 0, 0.0, ((0, 1.0), (1, 2.0), (2, 0.5)), ((0, -1.0), (1, 0.0), (2, 0.25)))
    given = {"labels": (3, 4, 5), "trees": (tree,), "post_transform": "NONE"}
    model = op("TreeEnsembleClassifier", classes=3, base=(0.5, -0.5, 1.0), **given)
    label, scores = model.torch(torch.tensor([[-1.0], [1.0]]))
    assert label.tolist() == [3, 5] and scores.tolist() == [[1.5, 1.5, 1.5], [-0.5, -0.5, 1.25]]
