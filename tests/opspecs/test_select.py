from __future__ import annotations

import io

import onnx
import pytest
import torch
from nnfuzz.opspecs.select import TopK
from onnx.reference import ReferenceEvaluator

from nnfuzz.materialize.scoped import quiet
from nnfuzz.operators.intervals import Interval
from tests.opspecs.samples import ramp


def top(k, **attributes):
    return TopK(**{"axis": 0, "k": k, "largest": 1, "sorted": 1, **attributes})


@pytest.mark.parametrize(
    ("attributes", "values", "places"),
    [
        ({}, [3, 3, 2], [1, 3, 0]),
        ({"largest": 0}, [1, 2, 2], [2, 0, 4]),
        ({"sorted": 0}, [2, 3, 3], [0, 1, 3]),
    ],
)
def test_of_equal_elements_the_first_comes_first(attributes, values, places):
    found = top(3, **attributes).torch(torch.tensor([2, 3, 1, 3, 2]))
    assert [x.tolist() for x in found] == [values, places]


@pytest.mark.parametrize("sorted_", [0, 1])
def test_only_places_that_rounding_can_not_turn_over_are_known(sorted_):
    """The second and the third may change places, the first and the last two may not."""
    lo = torch.tensor([9.0, 5.0, 5.05, 1.0, 1.0]).double()
    hi = torch.tensor([9.1, 5.1, 5.15, 1.0, 1.0]).double()
    _, places = top(4, sorted=sorted_).interval(Interval(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([True] * 4 if not sorted_ else [True, False, False, True])
    _, places = top(2, sorted=sorted_).interval(Interval(lo, hi))
    known = (places.lo == places.hi) & ~places.mask()
    assert known.tolist() == ([False, False] if not sorted_ else [True, False])


def test_equal_elements_of_a_constant_keep_their_order_in_an_export():
    """PyTorch's tracer runs what depends on no input by itself, and its topk is not stable."""

    class Module(torch.nn.Module):
        def forward(self, x):
            values, places = top(6).torch(torch.arange(21) % 3)
            return x + values, places

    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(Module(), (torch.ones(6),), buffer, dynamo=False, opset_version=20)
    model = onnx.load_from_string(buffer.getvalue())
    places = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: ramp(6).numpy()})[1]
    assert places.tolist() == [2, 5, 8, 11, 14, 17]
