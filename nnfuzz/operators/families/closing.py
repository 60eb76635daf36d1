"""Results whose size depends on data, and what makes the size known again.

A graph knows all sizes, so the lowering of such an operator goes on until the result has a shape
that depends on no values. What lies between is of unknown size for every compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

CLOSINGS = ("filled", "filled", "shape", "sum")


class OpenSize(OpSpec):
    """Base of operators that yield integers along a last axis of unknown size.

    closing: how they are closed. "filled": cut to `size` elements, or continued by zeros. "shape":
    their shape is returned. "sum": their sum along the last axis is returned.
    """

    size = Sym(1, 64)
    closing: Any = Choice(CLOSINGS, default="filled")
    usual: ClassVar = {"closing": "filled"}

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        ways = [cls.draw_given(draw, {"closing": closing}, first) for closing in CLOSINGS]
        made = [(op, op.type_transfer(first)[0]) for op in ways]
        fit = [op for op, t in made if t.rank == output.rank and t.dtype is output.dtype]
        return draw.choice(fit)

    def closed(self, opened: TensorType) -> TensorType:
        """The type of the result. opened: the type before closing, with any last size."""
        if self.closing == "shape":
            return TensorType(DType.INT64, (opened.rank,))
        return opened.with_shape((*opened.shape[:-1], *[self.size][self.closing == "sum" :]))

    def closed_tensor(self, x: Tensor) -> Tensor:
        """The result. x: the integers before closing."""
        if self.closing == "shape":
            return torch.tensor(x.shape)
        return x.sum(-1).to(x.dtype) if self.closing == "sum" else filled(x, -1, self.size)

    def emit_closed(self, emit: Any, value: str, opened: TensorType) -> str:
        """`closed_tensor` in ONNX."""
        if self.closing == "shape":
            return str(emit("Shape", value))
        if self.closing == "filled":
            shape = self.closed(opened).sizes
            return emit_filled(emit, value, opened.dtype, shape, opened.rank - 1)
        axes = [] if opened.rank == 1 else [emit.const([opened.rank - 1], DType.INT64)]
        return str(emit("ReduceSum", value, *axes, keepdims=0))


def filled(x: Tensor, axis: int, size: int) -> Tensor:
    """`x` with `size` elements along the axis, truncated or followed by zeros."""
    shape = list(x.shape)
    shape[axis] = size
    return torch.cat([x, x.new_zeros(shape)], axis).narrow(axis, 0, size)


def emit_filled(emit: Any, value: str, dtype: DType, shape: Sequence[int], axis: int) -> str:
    """`filled` in ONNX. shape: that of the result, which a Reshape states for shape inference."""
    target = emit.const(list(shape), DType.INT64)
    zeros = emit("ConstantOfShape", target, value=np.zeros(1, dtype.numpy))
    bounds = [emit.const([b], DType.INT64) for b in (0, shape[axis], axis)]
    cut = emit("Slice", emit("Concat", value, zeros, axis=axis), *bounds)
    return str(emit("Reshape", cut, target))
