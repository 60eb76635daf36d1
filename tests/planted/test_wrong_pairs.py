"""Compilers with planted faults in pairs, integers, constants, overflow: each has its model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.planted.wrong_pairs import COMPILERS, GROUPS

HEAD = '<ir_version: 9, opset_import: ["" : 20]> g '
SHOWN_BY = {
    "merges_clips_to_what_both_admit": "(float[3] x) => (float[3] y) <float a = {0.0}, float b = "
    "{1.0}, float c = {2.0}, float d = {3.0}> { v = Clip (x, a, b) y = Clip (v, c, d) }",
    "drops_requantisation": "(uint8[2] x) => (uint8[2] y) <float s = {1.0}, float t = {2.0}, "
    "uint8 z = {0}> { v = DequantizeLinear (x, s, z) y = QuantizeLinear (v, t, z) }",
    "composes_transposes_backwards": "(float[2,2,2] x) => (float[2,2,2] y) { v = Transpose "
    "<perm=[1,2,0]> (x) y = Transpose <perm=[0,2,1]> (v) }",
    "copies_sizes_of_the_first_reshape": "(float[2,6] x) => (float[3,4] y) <int64[2] s = {3, 4}, "
    "int64[2] t = {0, -1}> { v = Reshape (x, s) y = Reshape (v, t) }",
    "takes_the_root_of_a_square_for_nothing": "(float[3] x) => (float[3] y) "
    "{ v = Mul (x, x) y = Sqrt (v) }",
    "reduces_before_expanding": "(float[1] x) => (float[1] y) <int64[1] s = {4}, int64[1] a = {0}> "
    "{ v = Expand (x, s) y = ReduceSum (v, a) }",
    "pads_in_the_pooling": "(float[1,1,4] x) => (float[1,1,5] y) <int64[6] p = {0,0,1,0,0,1}> "
    '{ v = Pad <mode="reflect"> (x, p) y = AveragePool <kernel_shape=[2]> (v) }',
    "pads_in_the_convolution": "(float[1,1,4] x) => (float[1,1,5] y) <int64[6] p = {0,0,1,0,0,1}, "
    'float[1,1,2] w = {1.0, 2.0}> { v = Pad <mode="edge"> (x, p) y = Conv (v, w) }',
    "joins_parts_as_they_were": "(float[4] x) => (float[4] y) { a, b = Split <axis=0, "
    "num_outputs=2> (x) y = Concat <axis=0> (b, a) }",
    "skips_the_narrow_cast": "(int32[10] x) => (int32[10] y) { v = Cast <to=3> (x) "
    "y = Cast <to=6> (v) }",
    "slices_once": "(float[9] x) => (float[2] y) <int64[1] s = {1}, int64[1] e = {8}, int64[1] a = "
    "{0}, int64[1] t = {2}, int64[1] f = {3}, int64[1] o = {1}> "
    "{ v = Slice (x, s, e, a, t) y = Slice (v, s, f, a, o) }",
    "cancels_all_squeezes": "(float[1,2] x) => (float[2,1] y) <int64[1] a = {2}, int64[1] b = {0}> "
    "{ v = Unsqueeze (x, a) y = Squeeze (v, b) }",
    "cancels_integer_quotients": "(int64[3] x) => (int64[3] y) <int64 c = {7}> "
    "{ v = Div (x, c) y = Mul (v, c) }",
    "computes_int64_in_float32": "(int64[3] x) => (int64[3] y) <int64 c = {33554433}> "
    "{ y = Add (x, c) }",
    "packs_kernels_without_bias": "(float[1,1,3] x) => (float[1,1,2] y) <float[1,1,2] w = "
    "{1.0, 1.0}, float[1] b = {5.0}> { y = Conv (x, w, b) }",
    "folds_statistics_without_mean": "(float[1,1] x) => (float[1,1] y) <float[1] s = {1.0}, "
    "float[1] b = {0.0}, float[1] m = {3.0}, float[1] v = {1.0}> "
    "{ y = BatchNormalization (x, s, b, m, v) }",
    "folds_doubles_in_float32": "(double[1] x) => (double[1] y) <double a = {0.1}, double b = "
    "{0.3}> { c = Add (a, b) y = Add (x, c) }",
    "log_sum_exp_without_maximum": "(float[2] x) => (float[1] y) "
    "{ v = Add (x, x) y = ReduceLogSumExp (v) }",
}
INPUTS = np.array([-1.5, 100.0, 3.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 300.0, 12.0, 13.0])


def ran(model: onnx.ModelProto):
    ort = pytest.importorskip("onnxruntime")
    given = model.graph.input[0].type.tensor_type
    shape = [d.dim_value for d in given.shape.dim]
    x = np.resize(INPUTS, shape).astype(onnx.helper.tensor_dtype_to_np_dtype(given.elem_type))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_model_shows_the_fault(name):
    apply = next(c.apply for c in COMPILERS if c.name == name)
    model = parser.parse_model(HEAD + SHOWN_BY[name])
    onnx.checker.check_model(model, full_check=True)
    right = ran(model)
    assert apply(model)
    wrong = ran(model)
    assert right.shape != wrong.shape or not np.array_equal(right, wrong)
    other = parser.parse_model(HEAD + "(float[3] x) => (float[3] y) { y = Relu (x) }")
    assert not apply(other)


def test_every_fault_says_of_which_group_it_is():
    assert len({c.name for c in COMPILERS}) == len(COMPILERS) >= 30
    assert {c.text.partition(":")[0] for c in COMPILERS} == set(GROUPS)
