"""Elements at which onnx.reference contradicts a verdict, and those at which it does not."""

from __future__ import annotations

import numpy as np
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.compare.contradiction import without_contradicted
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.verdict import verdict
from nnfuzz.ir.dtypes import DType

TARGET, ARBITER = Target("c"), Target("onnx.reference", form="direct")
NAN = float("nan")


def split(dtype, expected, actual, theirs, half=0.0, shape=None, finite=True):
    ref = np.array(expected, dtype)
    envelope = Envelope(DType.of(ref.dtype), ref, ref - half, ref + half, np.zeros(ref.shape, bool))
    outputs = {TARGET: {"y": np.array(actual)}, ARBITER: {"y": np.array(theirs)}}
    for own in outputs.values():
        own["y"] = own["y"].astype(dtype) if shape is None else own["y"].reshape(shape)
    bounds = {"y": envelope}
    found = without_contradicted(
        verdict(bounds, outputs), bounds, outputs, ARBITER, outputs[ARBITER], finite
    )
    assert found.mismatches[ARBITER] == ()
    wrong = sum(m.wrong or 1 for m in found.mismatches[TARGET])
    return wrong, [c.count for c in found.contradictions.get(TARGET, ())]


@pytest.mark.parametrize(
    ("actual", "theirs", "wrong", "contradicted"),
    [
        ([1, 0, 0], [1, 0, 0], 0, [1]),
        ([1, 0, 0], [0, 0, 0], 1, []),
        ([1, 0, 0], [2, 0, 0], 1, []),
        ([1, 5, 3], [1, 5, 0], 1, [2]),
        ([1, 5, 3], [0, 0, 3], 2, [1]),
        ([0, 0, 0], [1, 1, 1], 0, []),
    ],
)
def test_integers_agree_bit_for_bit_and_each_for_itself(actual, theirs, wrong, contradicted):
    assert split("int64", [0, 0, 0], actual, theirs) == (wrong, contradicted)


@pytest.mark.parametrize(
    ("actual", "theirs", "contradicted"),
    [(2.0, 2.05, True), (2.0, 2.2, False), (NAN, 2.0, False), (1.2, 1.05, False)],
)
def test_floats_agree_as_far_as_the_envelope_is_wide(actual, theirs, contradicted):
    """The last reference is within the envelope itself, near though the target is to it."""
    found = split("float32", [1.0], [actual], [theirs], half=0.1)
    assert found == ((0, [1]) if contradicted else (1, []))


@pytest.mark.parametrize("theirs", [NAN, -np.inf])
def test_an_overflow_of_onnx_reference_contradicts_nothing(theirs):
    """But where NaN or an infinity is among the inputs."""
    assert split("float32", [1.0], [theirs], [theirs]) == (1, [])
    assert split("float32", [1.0], [theirs], [theirs], finite=False) == (0, [1])


def test_a_shape_is_contradicted_as_a_whole():
    assert split("float32", [[1.0, 2.0]], [1.0, 2.0], [1.0, 2.0], shape=(2,)) == (0, [0])
    assert split("float32", [[1.0, 2.0]], [1.0, 2.0], [1.0, 3.0], shape=(2,)) == (1, [])
