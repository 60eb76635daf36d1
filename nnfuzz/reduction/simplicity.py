"""How far attributes, dtypes and arrays are from the simplest ones: small integers, 0 is best."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Attribute, Choice
from nnfuzz.operators.body import Body
from nnfuzz.operators.operator import OpSpec

SIZES = frozenset({"shape", "split", "ends", "kernel_shape", "hidden_size"})
"""Attributes that follow from shapes: small where these are small."""
ONES = frozenset({"strides", "dilations", "group", "repeats", "steps", "alpha", "beta", "scales"})
"""Attributes whose simplest value is 1 and not 0."""
_DTYPES = {
    DType.FLOAT32: 0, DType.BOOL: 0, DType.INT64: 1, DType.INT32: 2, DType.FLOAT64: 1,
    DType.FLOAT16: 2, DType.INT8: 3, DType.UINT8: 3, DType.INT16: 4, DType.BFLOAT16: 3,
    DType.UINT64: 5, DType.UINT32: 5, DType.UINT16: 5, DType.INT4: 6, DType.UINT4: 6,
    DType.FLOAT8_E4M3FN: 6, DType.FLOAT8_E5M2: 6, DType.FLOAT8_E4M3FNUZ: 7,
    DType.FLOAT8_E5M2FNUZ: 7,
}  # fmt: skip


def dtype_cost(dtype: DType) -> int:
    return _DTYPES[dtype]


def attribute_cost(op: OpSpec) -> int:
    """Over all attributes; 0 where each has its simplest value."""
    return sum(
        value_cost(name, value, declaration(op, name))
        for name, value in op.attributes.items()
        if name not in SIZES
    )


def declaration(op: OpSpec, name: str) -> Attribute:
    """How an attribute is declared; where the modes to choose from depend on attributes before it,
    as it would be with those of this operator.
    """
    declared = op.declared[name]
    options = getattr(declared, "options", None)
    if not callable(options) or not isinstance(op.attributes[name], str):
        return declared
    try:
        return Choice(tuple(options(op)))
    except TypeError:  # they depend on the types of inputs
        return declared


def value_cost(name: str, value: Any, declared: object = None) -> int:
    """Of one attribute."""
    if isinstance(value, Body):
        return sum(3 + attribute_cost(step.op) for step in value.steps)
    if isinstance(value, tuple):
        if name == "perm":
            return sum(i != p for i, p in enumerate(value))
        return sum(1 if isinstance(v, str) else value_cost(name, v) for v in value)
    if isinstance(value, DType):
        return dtype_cost(value)
    if isinstance(value, str):
        options = getattr(declared, "options", None)
        return options.index(value) if isinstance(options, tuple) and value in options else 0
    best = 1 if name in ONES else 0
    if value is None or value == best:
        return 0
    return (
        (1 if float(value).is_integer() else 4) + (2 if value < 0 else 0) + min(int(abs(value)), 9)
    )


def array_cost(array: np.ndarray) -> int:
    """The sum over the elements: 0, 1, a digit, an integer, few decimals, anything else."""
    if array.dtype == bool:
        return int(np.count_nonzero(array))
    array = array.astype(np.float64)
    wide = np.abs(array)
    cost = np.full(wide.shape, 8)
    with np.errstate(invalid="ignore", over="ignore"):
        cost[np.abs(wide * 10 - np.round(wide * 10)) < 1e-3] = 5
    whole = wide == np.round(wide)
    cost[whole] = 4
    cost[whole & (wide < 10)] = 3
    cost[wide == 1] = 1
    cost[wide == 0] = 0
    return int(cost.sum()) + int(np.count_nonzero(np.signbit(array)))
