"""Texts and maps at the ends of a model."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.base.packed_values import (
    PackedValue,
    PackingError,
    PackingKind,
    packed,
    packing_of,
    unpacked,
)

TEXT = PackedValue(PackingKind.TEXT, "int16", {"d": (2,)})
PACKING = {"t": TEXT}
ARRAYS = {"x": np.zeros(3), "d": np.array([-5, 60], np.int16)}


def declared(name: str, value: PackedValue) -> onnx.ValueInfoProto:
    text = helper.make_tensor_type_proto(TensorProto.STRING, None)
    return onnx.ValueInfoProto(name=name, type=text, doc_string=value.doc_string)


def test_a_declaration_says_what_it_packs():
    ends = [declared(name, value) for name, value in PACKING.items()]
    plain = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3], TEXT.doc_string)
    assert packing_of([plain, *ends]) == PACKING
    for text in ("", "packs ", "packs [1]", 'packs ["int8", {"a": 1}]', 'packs ["no", {"a": []}]'):
        ends[0].doc_string = f"nnfuzz {text}"
        assert packing_of(ends[:1]) == {}


def test_a_zip_map_packs_the_matrix_that_it_reads():
    """Its keys name the columns in the order of the node, which need not be that of a map."""
    labels = {"domain": "ai.onnx.ml", "classlabels_int64s": [7, 3]}
    node = helper.make_node("ZipMap", ["x"], ["m"], **labels)
    packing = packing_of([onnx.ValueInfoProto(name="m")], [node])
    matrix = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    maps = packed(packing, {"m": matrix})["m"]
    assert maps == [{7: 0.25, 3: 0.75}, {7: 1.0, 3: 0.0}]
    back = unpacked(packing, {"m": [dict(sorted(row.items())) for row in maps]})["m"]
    assert back.dtype == matrix.dtype and np.array_equal(back, matrix)
    for wrong in ([{7: 0.25}], [{7: 0.25, 3: 0.75, 1: 0.0}], [0.25], matrix):
        with pytest.raises(PackingError):
            unpacked(packing, {"m": wrong})


def test_what_is_packed_comes_back():
    given = packed(PACKING, ARRAYS)
    assert given.keys() == {"x", *PACKING}
    assert given["t"].tolist() == ["-5", "60"] and type(given["t"][0]) is str
    back = unpacked(PACKING, given)
    assert back.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


@pytest.mark.parametrize("wrong", [np.array(["1.5", "2"], object), "text", [None]])
def test_strings_that_are_no_numbers_are_an_error(wrong):
    with pytest.raises(PackingError, match="'t' has no numbers"):
        unpacked(PACKING, {"t": wrong})


def test_what_is_missing_stays_missing():
    assert unpacked(PACKING, {"x": 1, "t": None}) == {"x": 1}
