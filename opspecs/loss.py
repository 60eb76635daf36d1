"""Losses of a classification: class scores on axis 1 and indices of the true classes."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.loss import ClassLoss
from nnfuzz.operators.families.norm import log_radius, log_shares, spread_mask
from nnfuzz.operators.families.shape import may_be_one
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import operator


@operator
class NegativeLogLikelihoodLoss(ClassLoss):
    """-x[n, target, ...] times the class's weight: all of them, their sum, or their weighted mean.

    Source: ONNX NegativeLogLikelihoodLoss-13, its function body for the mean.
    """

    def torch(self, x, target, *weight):
        return self.loss(x, target, *weight)

    def value_range(self, x, target, *weight):
        return self.lost(x, *weight)

    def radius(self, u, y, x, target, *weight):
        return self.loss_radius(u, y, x, 0.0, target, *weight)

    def interval(self, x, target, *weight):
        return [self.loss_interval(x, target, *weight)]


@operator
class SoftmaxCrossEntropyLoss(ClassLoss):
    """NegativeLogLikelihoodLoss of LogSoftmax(x), which is a second output if `log_prob` is set.

    Source: ONNX SoftmaxCrossEntropyLoss-13.
    """

    log_prob = Choice((0, 1))

    def type_transfer(self, x, target, *weight):
        return [*super().type_transfer(x, target, *weight), *[x] * self.log_prob]

    def onnx(self, emit, x, target, *weight):
        """Below opset 22 the operator's function body is not valid for bfloat16, which is computed
        in float32."""
        narrow = emit.type(x).dtype is DType.BFLOAT16 and emit.opset < 22
        if narrow:
            x, *weights = (emit("Cast", v, to=DType.FLOAT32) for v in (x, *weight))
            weight = tuple(weights)
        count = 1 + self.log_prob
        y = emit(self.name, x, target, *weight, outputs=count, **self.onnx_attributes())
        if not narrow:
            return y
        return [emit("Cast", v, to=DType.BFLOAT16) for v in ([y] if count == 1 else y)]

    def torch(self, x, target, *weight):
        y = torch.log_softmax(x, 1)
        return [self.loss(y, target, *weight), *[y] * self.log_prob]

    def value_range(self, x, target, *weight):
        return self.lost((-math.inf, 0.0), *weight)

    def further(self, x, target, *weight):
        """Range of the logarithms of probabilities: 0 for a single class; else one of them is at
        most log(1/3)."""
        return (((-math.inf, 0.0), (0.0, 0.0), (-math.inf, math.log(1 / 3))),) * self.log_prob

    def certain(self, x, *_):
        """0 occurs where there may be a single class, since its probability is 1."""
        alone = ((0, 0),) if may_be_one(x.shape[1]) else ()
        return (*alone, *super().certain(x))

    def radius(self, u, y, x, target, *weight):
        """`y` is the loss or, with the rank of x, the logarithms."""
        off = log_radius(u, torch.log_softmax(x, 1), x, 1)
        if y.dim() == x.dim():
            return off
        return self.loss_radius(u, y, torch.log_softmax(x, 1), off, target, *weight)

    def interval(self, x, target, *weight):
        logs = log_shares(x, 1)
        y = Interval(logs.lo, logs.hi, spread_mask(x.any, (1,)))
        return [self.loss_interval(y, target, *weight), *[y] * self.log_prob]
