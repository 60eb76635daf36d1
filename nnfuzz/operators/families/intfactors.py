"""Operands of integer products: matrices, or images with kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.conv import Convolution
from nnfuzz.operators.families.intproduct import IntegerProduct, as_scalar
from nnfuzz.operators.families.matmul import (
    factor_shapes,
    left_rank,
    multiplies,
    product_shape,
    right_factor,
)


def _granularity(*options: int) -> Choice:
    """Whether b has parameters per channel; where types are given, as they have it."""

    def options_of(op: Any, *types: TensorType) -> Sequence[int]:
        params = op.by_role("q", types)
        if not params:
            return options
        shape = params[0].shape
        single = 1 in op.listed_options(types) and len(shape) == 1 and isinstance(shape[0], int)
        return (int(bool(shape) and not (single and shape[0] == 1)),)

    return Choice(options_of)


class MatMulProduct(IntegerProduct):
    """Matrix products; the parameters of b are for all or per column (a being no vector).

    ONNX has parameters per row of a as well. No runtime here implements those, onnx.reference
    included, which subtracts them from the columns.
    """

    columns = _granularity(0, 0, 1)

    def multiplies(self, a, b):
        yield from multiplies(a.shape, b.shape)

    def product_shape(self, a, b):
        return product_shape(a.shape, b.shape)

    def lists(self, a, b):
        """The product of two vectors is a scalar, to which a vector would add an axis."""
        return a.rank > 1 or b.rank > 1

    def right_shape(self, draw, a):
        return right_factor(draw, a.shape)

    @classmethod
    def input_rank(cls, draw, output_rank):
        return left_rank(draw, output_rank)

    def operand_shapes(self, draw, first, out):
        return factor_shapes(draw, first.shape, out.shape)

    def param_shape(self, role, a, b):
        if role != "q" or not self.columns or b.rank == 1 or a.rank == 1 < b.rank - 1:
            return self.single if self.lists(a, b) else ()
        return b.shape[-1:] if b.rank == 2 else (*b.shape[:-2], 1, b.shape[-1])

    def on_operand(self, role, param, operand):
        return as_scalar(param)

    def on_result(self, role, param, a, b):
        return as_scalar(param)

    def multiply(self, a, b):
        return torch.matmul(a, b)

    def terms(self, a, b):
        return a.shape[-1]

    def cost(self, *inputs):
        a, b = self.operands(inputs)
        return 2 * product((*self.product_shape(a, b), a.shape[-1]))

    def onnx_attributes(self):
        return {}


class ConvProduct(Convolution, IntegerProduct):
    """Convolutions; parameters of the kernels for all or per output channel."""

    channels = _granularity(0, 1)
    sized = Choice((0, 1), default=0)
    """Whether the model states the shape of the kernels as an attribute too."""

    def convolvees(self, *inputs):
        return self.operands(inputs)

    def multiplies(self, a, b):
        yield from self.convolves(a, b)

    def product_shape(self, a, b):
        return self.convolved_shape(a, b)

    def right_shape(self, draw, a):
        return self.kernel_shape(draw, a)

    def operand_shapes(self, draw, first, out):
        x = first.with_shape((out.shape[0], *first.shape[1:]))
        return x.shape, self.kernel_shape(draw, x, out.shape[1])

    def param_shape(self, role, a, b):
        return b.shape[:1] if role == "c" or (role == "q" and self.channels) else self.single

    def on_operand(self, role, param, operand):
        return param.reshape(-1, *[1] * (operand.dim() - 1)) if param.dim() else param

    def on_result(self, role, param, a, b):
        return param.reshape(-1, *[1] * (a.dim() - 2)) if param.dim() else param

    def multiply(self, a, b):
        return self.convolve(a, b)

    def terms(self, a, b):
        return product(b.shape[1:])

    def onnx_attributes(self):
        attributes = super().onnx_attributes()
        return {k: v for k, v in attributes.items() if k not in ("channels", "sized", "listed")}

    def onnx(self, emit, *values):
        kernel = emit.type(self.operands(values)[1]).shape[2:] if self.sized else None
        return emit(self.name, *values, kernel_shape=kernel, **self.onnx_attributes())
