from __future__ import annotations

import pytest
from nnfuzz.opspecs.sequence import SequenceAt, SplitToSequence

from tests.opspecs.samples import ramp, t


@pytest.mark.parametrize(
    ("attributes", "picked"),
    [
        ({"position": 3}, 0),  # place 0 of 3
        ({"position": 2}, 2),  # place -1
        ({"position": 3, "insert": 2}, 2),  # the last one at place 0 of two
        ({"position": 2, "insert": 1}, 1),  # in front of the last but one
        ({"position": 2, "erase": 3}, 1),  # the first is gone, place 0 of two
    ],
)
def test_inserted_and_erased_tensors_move_the_others(attributes, picked):
    op = SequenceAt(**{"empty": 0, "insert": None, "erase": None, **attributes})
    xs = [ramp(n) for n in (1, 2, 3)]
    assert op.torch(*xs).shape == xs[picked].shape
    assert op.type_transfer(*(t(n) for n in (1, 2, 3)))[0].shape == (picked + 1,)


@pytest.mark.parametrize(
    ("stacked", "target", "shape"), [(0, 0, (4, 2)), (0, 1, (2, 4)), (1, 2, (2, 2, 2))]
)
def test_parts_are_put_together_along_another_axis(stacked, target, shape):
    op = SplitToSequence(axis=1, parts=2, stacked=stacked, target=target, style="list")
    x = ramp(2, 4)
    assert op.torch(x).shape == shape == op.type_transfer(t(2, 4))[0].shape
