"""Losses over C classes: the score of the true class of every position, summed or averaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Bool
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.elementwise import clipped_range, flags, products
from nnfuzz.operators.families.sums import accumulated
from nnfuzz.operators.intervals import Interval, corners, distinct, hull
from nnfuzz.operators.operator import In, OpSpec, Range, per_input
from nnfuzz.operators.rounding import sum_radius


class ClassLoss(OpSpec):
    """(N, C, *S) scores, (N, *S) indices, (C,) weights > 0 -> (N, *S) or a scalar.

    Positions whose index is `ignore_index` do not count.
    """

    since = 12
    inputs = (
        In("T", FLOATS, (2, 5)),
        In("I", (DType.INT64, DType.INT32), (1, 4), index=True),
        In("T", ranks=(1, 1), weight=True, narrow=True),
    )
    variadic = (2, 3)
    reduction = Choice(("none", "sum", "mean"))
    ignore_index = Choice((None, None, None, -1, 0, 2))
    valid = (None, None, (0.1, 4.0))

    # -- types --------------------------------------------------------------------------------

    def requires(self, *inputs: TensorType) -> Iterator[Bool]:
        x, target, *weights = inputs
        yield target.rank == x.rank - 1
        for have, want in zip(target.shape, (x.shape[0], *x.shape[2:])):
            yield have == want
        for weight in weights:
            yield weight.shape[0] == x.shape[1]
        if self.reduction == "mean" and self.ignore_index == 0:
            yield x.shape[1] >= 2

    @per_input
    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        shape = inputs[1].shape if self.reduction == "none" else ()
        return [inputs[0].with_shape(shape)]

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        n, c, *rest = first.shape
        shapes = (first.shape, (n, *rest), (c,))
        return [TensorType(d, s) for d, s in zip(dtypes, shapes)]

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        kinds = ("none",) if output.rank else ("sum", "mean")
        return cls.draw_given(draw, {"reduction": draw.choice(kinds)}, first)

    @classmethod
    def input_rank(cls, draw: Draw, output_rank: int) -> int | None:
        return output_rank + 1 if output_rank else draw.integer(2, 5)

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        n, c, *rest = first.shape
        if self.reduction == "none":
            n, *rest = output.shape
        return self.complete(draw, TensorType(dtypes[0], (n, c, *rest)), dtypes)

    def integer_range(self, *inputs: TensorType) -> tuple[Range | None, ...]:
        return None, (-1 if self.ignore_index == -1 else 0, inputs[0].sizes[1] - 1)

    def cost(self, *inputs: TensorType) -> int:
        return 8 * inputs[0].elements

    def onnx_attributes(self) -> dict[str, Any]:
        return {"reduction": self.reduction, "ignore_index": self.ignore_index}

    # -- numbers ------------------------------------------------------------------------------

    def lost(self, x: Range, *weight: Range) -> Range:
        """Bounds of the result, given bounds of the scores and weights."""
        terms = -x[1], -x[0]
        if self.reduction != "mean":
            terms = products(
                terms, clipped_range(weight[0], self.valid[2]) if weight else (1.0, 1.0)
            )
            if self.ignore_index is not None:
                terms = min(terms[0], 0.0), max(terms[1], 0.0)
        return accumulated(terms) if self.reduction == "sum" else terms

    def certain(self, x: TensorType, *_: TensorType) -> tuple[Range, ...]:
        """The loss 0 of an ignored position, if the operator has one."""
        if self.reduction != "none" or self.ignore_index is None:
            return ()
        classes = x.shape[1]
        most = classes if isinstance(classes, int) else classes.hi
        return ((0, 0),) if self.ignore_index < most else ()

    def picked(self, x: Tensor, target: Tensor) -> Tensor:
        """x at the true class of every position; ignored positions hold any value."""
        index = target.long().clamp(min=0).unsqueeze(1)
        return x.gather(1, index).squeeze(1)

    def factor(self, like: Tensor, target: Tensor, *weight: Tensor) -> Tensor:
        """The weight of every position in the dtype of `like`; 0 for ignored positions."""
        if weight:
            factor = weight[0][target.long().clamp(min=0)]
        else:
            factor = torch.ones(target.shape, dtype=like.dtype)
        if self.ignore_index is None:
            return factor
        return factor.masked_fill(target == self.ignore_index, 0.0)

    def reduced(self, terms: Tensor, factor: Tensor) -> Tensor:
        if self.reduction == "none":
            return terms
        # Of rank 1, since TorchScript's exporter takes float64 of rank 0 for a Python number.
        total = terms.reshape(-1).sum(0, keepdim=True)
        if self.reduction == "mean":
            total = total / factor.reshape(-1).sum(0, keepdim=True)
        return total.reshape(())

    def loss(self, x: Tensor, target: Tensor, *weight: Tensor) -> Tensor:
        factor = self.factor(x, target, *weight)
        return self.reduced(-self.picked(x, target) * factor, factor)

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """A mean needs at least one position that is not ignored."""
        factor = self.factor(*tensors)
        empty = [flags(~(factor > 0).any())] if self.reduction == "mean" else []
        return [*super().domain(*tensors), *empty]

    def proxy(self, *tensors: Tensor) -> Any:
        x, target, *weight = tensors
        return self.torch(x, target.long(), *weight)

    def loss_radius(
        self, u: float, y: Tensor, x: Tensor, off: Tensor | float, target: Tensor, *weight: Tensor
    ) -> Tensor:
        """Rounding error of `loss` if the elements of `x` already have the error `off`."""
        factor = self.factor(x, target, *weight)
        # Without weights nothing is multiplied, and the divisor is an integer.
        products = 2 * u if weight else 0.0
        terms = self.picked(x.abs() * products + off, target) * factor
        if self.reduction == "none":
            return terms
        count = target.numel()
        whole = y if self.reduction == "sum" else y * factor.sum()
        size = (self.picked(x.abs(), target) * factor).sum()
        error = terms.sum() + sum_radius(u, count, size, whole)
        if self.reduction == "sum":
            return error
        known = not weight and count < 1 / u
        return error / factor.sum() + (2 if known else count + 4) * u * y.abs()

    def loss_interval(self, x: Interval, target: Interval, *weight: Interval) -> Interval:
        """The interval of `loss` for exact indices."""
        picked = Interval(
            -self.picked(x.hi, target.lo),
            -self.picked(x.lo, target.lo),
            None if x.any is None else self.picked(x.any, target.lo),
        )
        factors = [self.factor(x.lo, target.lo, *ends) for ends in zip(*map(distinct, weight))]
        factor = Interval(*hull(factors or [self.factor(x.lo, target.lo)]))
        if weight and weight[0].any is not None:
            factor = factor.masked(weight[0].any[target.lo.long().clamp(min=0)])
        terms = corners(torch.mul, picked, factor)
        if self.reduction == "none":
            return terms
        total = Interval(
            terms.lo.sum(), terms.hi.sum(), None if terms.any is None else terms.any.any()
        )
        if self.reduction == "sum":
            return total
        return corners(torch.div, total, Interval(factor.lo.sum(), factor.hi.sum()))
