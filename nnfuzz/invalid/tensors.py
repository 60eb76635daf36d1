"""Faults in initializers: sizes, dtypes, storage."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.site import Site

TENSOR = "onnx.proto, TensorProto"
DEFINITION = "ONNX IR, Tensor Definition"
EXTERNAL = "ONNX External Data, location"
OUTSIDE = "/bin/sh"
"""A public file of every POSIX system, with more bytes than tensors of test models."""
MOST_EXTERNAL_BYTES = 1 << 16


@kind(f"{DEFINITION}: a tensor has as many values as the product of its dimensions")
def wrong_tensor_size(site: Site) -> str:
    """An initializer with fewer or more bytes than its shape asks for."""
    tensor = site.some_weight()
    wanted = len(tensor.raw_data)
    data = {
        "one byte too few": tensor.raw_data[:-1],
        "half of the bytes": tensor.raw_data[: wanted // 2],
        "no data": b"",
        "one byte too many": tensor.raw_data + b"\0",
        "twice the bytes": tensor.raw_data * 2,
    }
    how = site.choice(sorted(data))
    tensor.raw_data = data[how]
    return f"initializer {tensor.name!r}{list(tensor.dims)} has {how}: {len(data[how])} of {wanted}"


@kind(f"{TENSOR}.data_type: must be a valid DataType")
def unknown_tensor_dtype(site: Site) -> str:
    """An initializer of a data type that there is not."""
    tensor = site.some_weight()
    tensor.data_type = site.choice((0, 9999, -1, 2**31 - 1))
    return f"initializer {tensor.name!r} has the data type {tensor.data_type}"


@kind(f"{DEFINITION}: a shape is a list of non-negative integers")
def negative_tensor_dimension(site: Site) -> str:
    """An initializer with a dimension below zero."""
    tensor = site.some_weight(lambda a: a.size > 0 and a.ndim > 0)
    place = site.rng.randrange(len(tensor.dims))
    tensor.dims[place] = site.choice((-1, -tensor.dims[place], -(2**31), -(2**63)))
    return f"initializer {tensor.name!r} has the shape {list(tensor.dims)}"


@kind(f"{DEFINITION}: a tensor has as many values as the product of its dimensions")
def overflowing_tensor_size(site: Site) -> str:
    """An initializer whose number of elements does not fit into 32 or 64 bits: cut to them, some
    are what is there.
    """
    tensor = site.some_weight()
    count, bits = math.prod(tensor.dims), site.choice((32, 63, 64))
    if bits == 64:  # 2**32 * 2**32 is 0
        dims, data = [2**32, 2**32], b""
    elif bits == 63:
        dims, data = [2**62, 4 + count], tensor.raw_data
    else:
        dims, data = [2**32 + count], tensor.raw_data
    tensor.raw_data = data
    del tensor.dims[:]
    tensor.dims.extend(dims)
    return f"initializer {tensor.name!r} has the shape {dims} and {len(data)} bytes"


@kind(f"{TENSOR}: exactly one of the fields stores the elements")
def tensor_with_two_values(site: Site) -> str:
    """An initializer whose elements are in two fields, which differ."""
    tensor = site.some_weight(lambda a: a.size > 0 and a.dtype == np.float32)
    tensor.float_data.extend([1.0] * math.prod(tensor.dims))
    return f"initializer {tensor.name!r} has raw_data and float_data, which differ"


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
    name = tensor.name
    count = math.prod(tensor.dims)
    indices = site.choice(([0, count], [-1, 0], [0, 2**40], [1, 1], [1, 0]))
    site.graph.initializer.remove(tensor)
    sparse = site.graph.sparse_initializer.add(dims=tensor.dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), name))
    for chosen in ([0, count - 1], indices):  # the first ones are right
        sparse.indices.CopyFrom(numpy_helper.from_array(np.array(chosen, np.int64), f"{name}_i"))
        if chosen is not indices:
            site.so_far()
    return f"sparse initializer {name!r} of {count} elements has the indices {indices}"


# -- external data ---------------------------------------------------------------------------------


@kind(f"{EXTERNAL}: relative to the folder of the model, '..' is not allowed")
def external_data_outside(site: Site) -> str:
    """An initializer whose data is in a file outside of the model's folder."""
    path = site.choice((f"../../../../../../../../../..{OUTSIDE}", OUTSIDE))
    return _external(site, location=path, offset="0")


@kind(f"{EXTERNAL}: names the file with the data")
def external_data_missing(site: Site) -> str:
    """An initializer whose data is in a file that does not exist."""
    return _external(site, location=site.choice(("nowhere.bin", "no/where.bin", "")))


@kind(f"{EXTERNAL}: this key is required")
def external_data_nowhere(site: Site) -> str:
    """An initializer whose data is declared as external, without a location."""
    return _external(site, offset="0")


@kind("ONNX External Data: offset and length are integers, of bytes within the file")
def external_data_range(site: Site) -> str:
    """An initializer whose external data has an offset or length that cannot be."""
    wrong = site.choice(("-1", "9223372036854775807", "99999999999999999999", "zero", ""))
    field = site.choice(("offset", "length"))
    return _external(site, **{"location": "nowhere.bin", field: wrong})


def _external(site: Site, **entries: str) -> str:
    """Declares the data of an initializer as external; nothing here reads or writes it."""
    fits = lambda a: 0 < a.nbytes <= MOST_EXTERNAL_BYTES  # noqa: E731
    tensor = site.some_weight(fits)
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"length": str(size), **entries}.items():
        tensor.external_data.add(key=key, value=value)
    where = ", ".join(f"{key} {value!r}" for key, value in entries.items())
    return f"initializer {tensor.name!r} has external data at {where}"


# -- attributes that hold tensors ------------------------------------------------------------------


@kind(f"{DEFINITION}: a tensor has as many values as the product of its dimensions")
def wrong_constant_size(site: Site) -> str:
    """A Constant whose tensor has other bytes than its shape asks for."""
    tensor = site.some_weight()
    name = tensor.name
    site.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
    site.graph.initializer.remove(tensor)
    site.operator = "Constant"
    site.so_far()
    value = site.graph.node[0].attribute[0].t
    wanted = len(value.raw_data)
    value.raw_data = site.choice((value.raw_data[:-1], b"", value.raw_data * 2))
    return f"Constant {name!r}{list(value.dims)} has {len(value.raw_data)} of {wanted} bytes"
