"""Tensors of dtypes with few PyTorch kernels, held in a wider dtype, the carrier.

PyTorch has few CPU kernels for unsigned integers beyond uint8 and none for 4 bits; 8-bit floats it
can only move and convert. Operators compute such values in `DType.carrier`, and `settled` puts the
results back into range:

- uint16 in int32, uint32 in int64, int4 in int8, uint4 in uint8: arithmetic modulo a larger power
  of two, reduced to the type's own width, is arithmetic modulo the type's own width;
- 8-bit floats in float32: `rounded` rounds numbers to them, and other operators only move them;
- uint64 in int64, bit by bit. Data movement, + - * and bitwise operators (`OpSpec.modular`) give
  the same bits for both; for other operators, numbers of 2^63 or more are excluded (`unfit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec

_WIDTHS = {DType.UINT16: 16, DType.UINT32: 32, DType.UINT4: 4}


def tensor(array: np.ndarray) -> Tensor:
    """A new tensor with the values of an array, in the carrier of the array's dtype.

    Raises: ValueError for a dtype nnfuzz does not know.
    """
    dtype = DType.of(array.dtype)
    if dtype is DType.BFLOAT16:
        return torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    if dtype is DType.UINT64:
        return torch.from_numpy(np.array(array, order="C").view(np.int64))
    return torch.from_numpy(np.array(array, dtype.carrier))


def array(x: Tensor, dtype: DType) -> np.ndarray:
    """The values of a carrier tensor as an array of the dtype; memory may be shared."""
    x = x.detach()
    if dtype is DType.BFLOAT16:
        return x.contiguous().view(torch.int16).numpy().view(dtype.numpy)
    if dtype is DType.UINT64:
        return x.contiguous().numpy().view(np.uint64)
    return x.numpy().astype(dtype.numpy) if dtype.carried else x.numpy()


def settled(x: Tensor, dtype: DType) -> Tensor:
    """An operator's result in a carrier, reduced to the range of an integer dtype.

    Floats are returned unchanged, so that float64 may stand for any float dtype.
    """
    if dtype in _WIDTHS:
        return x & ((1 << _WIDTHS[dtype]) - 1)
    return ((x + 8) & 15) - 8 if dtype is DType.INT4 else x


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """Floats rounded to the nearest value of a floating dtype, in its carrier.

    8-bit floats saturate. Source: ONNX Cast-19, `saturate`.
    """
    if not dtype.carried:
        return x.to(dtype.torch)
    lo, hi = dtype.limits
    return x.float().clamp(lo, hi).to(getattr(torch, dtype.value)).to(dtype.torch)


def unfit(op: OpSpec, inputs: Sequence[Tensor], dtypes: Sequence[DType]) -> bool:
    """Whether the operator would misread an unsigned number of 2^63 or more as negative."""
    return not op.modular and any(
        dtype is DType.UINT64 and bool((x < 0).any()) for x, dtype in zip(inputs, dtypes)
    )
