"""Results whose size depends on the data, brought to a size that does not: zeros fill them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.ir.dtypes import DType

if TYPE_CHECKING:
    from torch import Tensor


def filled(x: Tensor, axis: int, size: int) -> Tensor:
    """`x` with `size` elements along the axis: cut off, or followed by zeros."""
    import torch

    shape = list(x.shape)
    shape[axis] = size
    return torch.cat([x, x.new_zeros(shape)], axis).narrow(axis, 0, size)


def emit_filled(emit: Any, value: str, dtype: DType, shape: Sequence[int], axis: int) -> str:
    """The same in ONNX; `shape` is that of the result, which Reshape tells shape inference."""
    target = emit.const(list(shape), DType.INT64)
    zeros = emit("ConstantOfShape", target, value=np.zeros(1, dtype.numpy))
    bounds = [emit.const([b], DType.INT64) for b in (0, shape[axis], axis)]
    cut = emit("Slice", emit("Concat", value, zeros, axis=axis), *bounds)
    return emit("Reshape", cut, target)
