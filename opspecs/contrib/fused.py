"""Products with what optimisers merge into them: transpositions, factors, sums, activations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.broadcast import (
    factor_shapes,
    multiplies,
    product_shape,
    right_factor,
)
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, OpSpec

from ..activation import Clip, Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, Softsign, Tanh
from ..arithmetic import Add
from ..conv import Conv
from ..dense import SCALES, Gemm
from . import microsoft

SINGLES = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16)


@microsoft
class TransposeMatMul(Summing):
    """alpha * op(A) @ op(B), of matrices or stacks of them; op may transpose the last two axes.

    Source: com.microsoft.TransposeMatMul-1.
    """

    exactness = ""
    inputs = (In("T", (*SINGLES, DType.BFLOAT16), (2, 5)), In("T", ranks=(2, 5)))
    transA = Choice((0, 1))
    transB = Choice((0, 1))
    alpha = SCALES
    batchA: Any = 0
    batchB: Any = 0

    def _order(self, rank, side):
        """The permutation that op(A) or op(B) is of a stored operand."""
        batch, turned = (self.batchA, self.transA) if side == "A" else (self.batchB, self.transB)
        order = [*range(1, rank - 1), 0, rank - 1] if batch else [*range(rank)]
        return [*order[:-2], order[-1], order[-2]] if turned else order

    def _moved(self, shape, side):
        return tuple(shape[i] for i in self._order(len(shape), side))

    def _stored(self, shape, side):
        """The shape that `_moved` makes this one of."""
        order = self._order(len(shape), side)
        return tuple(shape[order.index(i)] for i in range(len(shape)))

    def requires(self, a, b):
        yield not self.batchA or a.rank > 2
        yield not self.batchB or b.rank > 2
        yield not (self.batchA or self.batchB) or a.rank == b.rank  # the kernel's own condition
        yield from multiplies(self._moved(a.shape, "A"), self._moved(b.shape, "B"))

    def type_transfer(self, a, b):
        shapes = self._moved(a.shape, "A"), self._moved(b.shape, "B")
        return [a.with_shape(product_shape(*shapes))]

    def complete(self, draw, first, dtypes):
        b = right_factor(draw, self._moved(first.shape, "A"))
        b = b if len(b) > 1 else (*b, draw.dim(2))
        if self.batchB:
            b = (*self._moved(first.shape, "A")[:-2], *b[-2:])
        return [first, TensorType(dtypes[1], self._stored(b, "B"))]

    def infer_input_types(self, draw, first, dtypes, output):
        shapes = factor_shapes(draw, self._moved(first.shape, "A"), output.shape)
        pairs = zip(dtypes, shapes, "AB")
        return [TensorType(d, self._stored(s, side)) for d, s, side in pairs]

    def cost(self, a, b):
        return 2 * self.type_transfer(a, b)[0].numel * self._moved(a.shape, "A")[-1]

    def torch(self, a, b):
        a, b = a.permute(self._order(a.dim(), "A")), b.permute(self._order(b.dim(), "B"))
        y = torch.matmul(a, b)
        return y if self.alpha == 1 else y * self.alpha

    def terms(self, a, b):
        return a.shape[-2 if self.transA else -1] + 1

    def absolute(self, a, b):
        plain = type(self)(**{**self.attributes, "alpha": max(1.0, abs(self.alpha))})
        return plain.torch(a.abs(), b.abs())

    def interval(self, a, b):
        return [linear(self.torch, a, b, weights=(0, 1), absolute=self.absolute)]


@microsoft
class FusedMatMul(TransposeMatMul):
    """TransposeMatMul in which op may move the first axis behind the other axes of the stack, too.

    Source: com.microsoft.FusedMatMul-1.
    """

    batchA = Choice(lambda op, a, *_: (0, 0, 1) if a.rank > 2 else (0,))
    batchB = Choice(lambda op, *_: (op.batchA,))

    def onnx(self, emit, a, b):
        said = {"transBatchA": self.batchA, "transBatchB": self.batchB}
        said |= {"transA": self.transA, "transB": self.transB, "alpha": self.alpha}
        return emit(self.name, a, b, **said)


FUNCTIONS: Mapping[str, tuple[OpSpec, tuple[float, ...]]] = {
    "Relu": (Relu(), ()),
    "Tanh": (Tanh(), ()),
    "Sigmoid": (Sigmoid(), ()),
    "Softplus": (Softplus(), ()),
    "Softsign": (Softsign(), ()),
    "LeakyRelu": (LeakyRelu(alpha=0.25), (0.25,)),
    "Elu": (Elu(alpha=0.5), (0.5,)),
    "HardSigmoid": (HardSigmoid(alpha=0.25, beta=0.5), (0.25, 0.5)),
    "Clip": (Clip(min=0.0, max=6.0), (0.0, 6.0)),
}
"""Activation functions by name, with the parameters that models state."""


class Activated(Composite):
    """An operator, the sum with a further input if there is one, and an activation function."""

    exactness = ""
    core: ClassVar[type[OpSpec]]
    activation: Any

    def first(self):
        """The operator that comes first, with the attributes that it shares with this one."""
        return self.core(**{name: getattr(self, name) for name in self.core.declared})

    def function(self):
        """The activation function."""
        return FUNCTIONS[self.activation][0]

    def compose(self, apply, *values):
        return [apply(self.function(), apply(self.first(), *values))]

    def certain(self, *inputs):
        return ()

    def value_range(self, *ranges):
        return self.function().value_range(self.first().value_range(*ranges))


@microsoft
class FusedGemm(Activated, Gemm):
    """An activation of Gemm. Source: com.microsoft.FusedGemm-1."""

    core = Gemm
    weight = 2.0
    takes_empty = False
    inputs = (
        In("T", SINGLES, (2, 2)),
        In("T", ranks=(2, 2), weight=True),
        In("T", ranks=(0, 2), weight=True),
    )
    activation = Choice([name for name in FUNCTIONS if name != "Clip"])

    def onnx(self, emit, *values):
        numbers = FUNCTIONS[self.activation][1]
        names = ("activation_alpha", "activation_beta")
        said = {"alpha": self.alpha, "beta": self.beta}
        said |= {"transA": self.transA, "transB": self.transB, **dict(zip(names, numbers))}
        return emit(self.name, *values, activation=self.activation, **said)


@microsoft
class FusedConv(Activated, Conv):
    """An activation of Conv. Source: com.microsoft.FusedConv-1."""

    core = Conv
    inputs: ClassVar[tuple[In, ...]] = (  # type: ignore[assignment]
        In("T", SINGLES, (3, 5)),
        In("T", ranks=(3, 5), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    activation = Choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"))

    def onnx(self, emit, *values):
        numbers = FUNCTIONS[self.activation][1]
        kernel = emit.type(values[1]).shape[2:]
        said = {**self.onnx_attributes(), "kernel_shape": kernel, "activation": self.activation}
        return emit(FusedConv.name, *values, **said, activation_params=numbers or None)


@microsoft
class FusedConvSum(FusedConv):
    """An activation of Conv plus a tensor of the result's shape, the fourth input of FusedConv.

    Source: com.microsoft.FusedConv-1, Z.
    """

    inputs = (*FusedConv.inputs, In("T", ranks=(3, 5)))
    variadic = (4, 4)

    def requires(self, x, w, bias, z):
        yield from super().requires(x, w, bias)
        (y,) = self.type_transfer(x, w)
        yield z.rank == x.rank
        for have, want in zip(z.shape, y.shape):
            yield have == want

    def _typed(self, x, kernels, dtypes):
        found = super()._typed(x, kernels, dtypes)
        w = TensorType(dtypes[1], kernels)
        return [*found, TensorType(dtypes[3], self.type_transfer(x, w)[0].shape)]

    def compose(self, apply, x, w, bias, z):
        return [apply(self.function(), apply(Add(), apply(self.first(), x, w, bias), z))]

    def value_range(self, x, w, bias, z):
        summed = Add().value_range(self.first().value_range(x, w, bias), z)
        return self.function().value_range(summed)
