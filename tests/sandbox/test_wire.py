import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nnfuzz.sandbox.wire import ALIGNMENT, WireError, decode, encode, stand_in

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, ">f4", ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_every_dtype_and_shape_survives(dtype, shape):
    array = np.ones(shape).astype(dtype)
    _, blobs = decode(encode({}, {"a": array}))
    assert blobs["a"].dtype == array.dtype
    assert blobs["a"].shape == shape
    assert blobs["a"].tobytes() == array.tobytes()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
arrays = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "<f2", "<i8", "|b1", "|u1"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@given(
    st.dictionaries(st.text(), json_values),
    st.dictionaries(st.text(), arrays | st.binary()),
)
def test_round_trip(header, blobs):
    frame = encode(header, blobs)
    got, back = decode(frame)
    assert got == json.loads(json.dumps(header))
    assert list(back) == list(blobs)
    for name, blob in blobs.items():
        if isinstance(blob, bytes):
            assert back[name] == blob
        else:
            assert (back[name].dtype, back[name].shape) == (blob.dtype, blob.shape)
            assert back[name].tobytes() == blob.tobytes()


def test_a_stand_in_takes_no_memory_and_keeps_dtype_and_shape():
    huge = stand_in(np.broadcast_to(np.float16(1), (1 << 20, 1 << 20)))
    frame = encode({}, {"a": huge, "b": np.broadcast_to(np.int8(7), (2, 3))})
    assert len(frame) < 1000
    _, blobs = decode(frame)
    assert (blobs["a"].dtype, blobs["a"].shape) == (np.float16, (1 << 20, 1 << 20))
    np.testing.assert_array_equal(blobs["b"], np.full((2, 3), 7, np.int8))


def test_arrays_are_aligned_views_of_the_frame():
    frame = encode({"text": "ä"}, {"b": b"123", "a": np.arange(5.0), "c": np.ones((2, 2), "f4")})
    buffer = np.frombuffer(frame, np.uint8)
    _, blobs = decode(frame)
    for name in "ac":
        assert (blobs[name].ctypes.data - buffer.ctypes.data) % ALIGNMENT == 0
        assert not blobs[name].flags.writeable
    assert decode(bytearray(frame))[1]["a"].flags.writeable


def test_strided_arrays_are_made_contiguous():
    array = np.arange(12).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(decode(encode({}, {"a": array}))[1]["a"], array)


@given(st.data())
def test_a_truncated_frame_is_an_error(data):
    frame = encode({"k": [1, 2]}, {"a": np.arange(7), "b": b"12345"})
    cut = data.draw(st.integers(0, len(frame) - 60))
    with pytest.raises(WireError):
        decode(frame[:cut])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"NNF1", b"NNF9", "begins with"),
        (b'"<i8"', b'"<i4"', "does not fill"),
        (b'"<i8"', b'"<i?"', "damaged"),
        (b'"blobs"', b'"blobz"', "damaged"),
        (b'"header"', b'xheader"', "damaged"),
    ],
)
def test_a_damaged_frame_is_an_error(old, new, complaint):
    frame = encode({}, {"a": np.arange(7)}).replace(old, new, 1)
    with pytest.raises(WireError, match=complaint):
        decode(frame)


@pytest.mark.parametrize(
    "blob", [np.array([None]), np.array(["text"]), np.zeros(2, "f4,i4"), [1.0], "text"]
)
def test_what_has_no_wire_form_is_refused_by_name(blob):
    with pytest.raises(WireError, match="'culprit'"):
        encode({}, {"culprit": blob})


def test_a_header_outside_of_json_is_refused():
    with pytest.raises(WireError, match="JSON"):
        encode({"array": np.ones(2)}, {})
