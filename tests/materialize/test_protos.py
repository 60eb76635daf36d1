"""Attributes and tensors as messages of ONNX."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import OPSETS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1),
        (-3, -3),
        (np.int64(4), 4),
        (0.5, 0.5),
        ("tanh", b"tanh"),
        (DType.FLOAT16, onnx.TensorProto.FLOAT16),
        ((1, 2), [1, 2]),
        ([1, 0.5], [1.0, 0.5]),
        (["a", "b"], [b"a", b"b"]),
        ([], []),
    ],
)
def test_attributes_have_the_type_of_their_value(value, expected):
    assert onnx.helper.get_attribute_value(protos.attribute("k", value)) == expected


@pytest.mark.parametrize("value", [object(), [1, "a"], {"a": 1}])
def test_attributes_without_an_onnx_form_are_refused(value):
    with pytest.raises(TypeError, match="attribute k"):
        protos.attribute("k", value)


@pytest.mark.parametrize("dtype", list(DType))
def test_constants_come_back(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    back = onnx.numpy_helper.to_array(protos.constant_proto("c", array))
    assert back.dtype == dtype.numpy
    np.testing.assert_array_equal(back, array)


def test_ir_version_is_the_oldest_that_goes_with_the_opset():
    versions = [protos.ir_version(opset) for opset in range(OPSETS[0], OPSETS[1] + 1)]
    assert versions == sorted(versions)
    assert versions[0] == 4  # in version 3 all initializers had to be inputs
    assert versions[-1] <= protos.MAX_IR_VERSION
