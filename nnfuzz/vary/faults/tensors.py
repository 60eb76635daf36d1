"""Faults in tensors: sizes, dtypes, storage."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.vary.faults.site import Site, kind

TENSOR = "onnx.proto, TensorProto"
SIZE = "ONNX IR, Tensor Definition: a tensor has as many values as the product of its dimensions"
OUTSIDE = "/bin/sh"
"""A public file of every POSIX system, with more bytes than tensors of test models."""
PLACES = (
    {"location": f"../../../../../../../../../..{OUTSIDE}", "offset": "0"},
    {"location": OUTSIDE, "offset": "0"},
    {"location": "nowhere.bin"},
    {"location": ""},
    {"offset": "0"},
    *({"location": "nowhere.bin", "offset": text} for text in ("-1", "zero", "", "9" * 20)),
    *({"location": "nowhere.bin", "length": text} for text in ("-1", "zero", "", "9" * 20)),
)
"""Entries of external data that no model may have: a file outside of the model's folder, one that
is not there, no file at all, and numbers that are none."""


@kind(SIZE)
def wrong_tensor_size(site: Site) -> str:
    """An initializer or a Constant with fewer or more bytes than its shape asks for."""
    tensor = site.some_weight()
    name, right = tensor.name, tensor.raw_data
    if site.rng.random() < 0.5:
        site.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
        site.graph.initializer.remove(tensor)
        site.at(site.nodes[0])
        site.keep_valid()
        tensor = site.nodes[0].attribute[0].t
    wrong = (right[:-1], right[: len(right) // 2], b"", right + b"\0", right * 2)
    tensor.raw_data = site.choice([data for data in wrong if data != right])
    bytes_ = f"{len(tensor.raw_data)} of {len(right)} bytes"
    return f"{site.operator or 'initializer'} {name!r}{list(tensor.dims)} has {bytes_}"


@kind("ONNX IR, Tensor Definition: a data type, and a shape of non-negative integers")
def impossible_tensor_type(site: Site) -> str:
    """An initializer of a data type that there is not, with a negative dimension, or whose number
    of elements exceeds 32 or 64 bits: cut to these, some products are that of the elements.
    """
    if site.rng.random() < 0.3:
        tensor = site.some_weight()
        tensor.data_type = site.choice((0, 9999, -1, 2**31 - 1))
        return f"initializer {tensor.name!r} has the data type {tensor.data_type}"
    tensor = site.some_weight(lambda a: a.size > 0 and a.ndim > 0)
    count = math.prod(tensor.dims)
    shapes = ([2**32, 2**32], [2**62, 4 + count], [2**32 + count], [-1], [-count], [-(2**63)])
    wrong = site.choice(shapes)
    if wrong == [2**32, 2**32]:  # 0 in 64 bits
        tensor.raw_data = b""
    del tensor.dims[:]
    tensor.dims.extend(wrong)
    return f"initializer {tensor.name!r} has the shape {wrong} and {len(tensor.raw_data)} bytes"


@kind(f"{TENSOR}: where int64_data is present, the data type must be INT64")
def tensor_in_wrong_field(site: Site) -> str:
    """An initializer whose elements are in the field of another data type."""
    tensor = site.some_weight(lambda a: a.size > 0 and a.dtype != np.int64)
    tensor.ClearField("raw_data")
    tensor.int64_data.extend([1] * math.prod(tensor.dims))
    name = TensorProto.DataType.Name(tensor.data_type)
    return f"initializer {tensor.name!r} is {name}, its elements are in int64_data"


@kind("onnx.proto, SparseTensorProto.indices: within the shape, ascending, without duplicates")
def broken_sparse_tensor(site: Site) -> str:
    """A sparse initializer whose indices are outside of its shape, twice the same or descending."""
    tensor = site.some_weight(lambda a: a.size > 1 and a.dtype == np.float32)
    name, count = tensor.name, math.prod(tensor.dims)
    indices = site.choice(([0, count], [-1, 0], [0, 2**40], [1, 1], [1, 0]))
    site.graph.initializer.remove(tensor)
    sparse = site.graph.sparse_initializer.add(dims=tensor.dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), name))
    for chosen in ([0, count - 1], indices):  # the first ones are right
        sparse.indices.CopyFrom(numpy_helper.from_array(np.array(chosen, np.int64), f"{name}_i"))
        if chosen is not indices:
            site.keep_valid()
    return f"sparse initializer {name!r} of {count} elements has the indices {indices}"


@kind("ONNX External Data: location, a file within the model's folder; offset and length, integers")
def wrong_external_data(site: Site) -> str:
    """An initializer whose data is said to be in a file that cannot be, or at no place of it."""
    tensor, entries = site.some_weight(), site.choice(PLACES)
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"length": str(size), **entries}.items():
        tensor.external_data.add(key=key, value=value)
    where = ", ".join(f"{key} {value!r}" for key, value in entries.items())
    return f"initializer {tensor.name!r} has external data at {where}"
