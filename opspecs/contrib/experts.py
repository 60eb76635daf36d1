"""Mixtures of experts: every token goes through the few networks that a router prefers."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import product
from nnfuzz.ir.types import tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.elementwise import Increasing, itself
from nnfuzz.operators.families.quantized import SCALES
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, OpSpec
from nnfuzz.operators.waiver import Waiver

from ..activation import Clip, Relu
from ..arithmetic import Add, Div, Mul
from ..dense import MatMul
from ..gates import Swish
from ..norm import Softmax
from ..reduce import ReduceSum
from . import microsoft
from .packed import Unpacked

KINDS = ("relu", "silu", "identity", "swiglu")
"""Without gelu: the documentation does not say which."""
TURNED = Moves(lambda t: t.transpose(1, 2))
BESIDE = Moves(lambda t: t.unsqueeze(1))
SUMMED = ReduceSum(axes=(-1,), keepdims=1)
OVER_EXPERTS = ReduceSum(axes=(0,), keepdims=0)


class Shifted(Increasing):
    """x + beta."""

    def __init__(self, beta):
        self.beta = beta

    def torch(self, x):
        return x + self.beta

    def radius(self, u, y, x):
        return u * y.abs() if self.beta else 0.0


class Preferred(OpSpec):
    """1 for the `count` largest elements of each row, 0 for the others."""

    def __init__(self, count):
        self.count = count

    def torch(self, x):
        return torch.zeros_like(x).scatter(-1, x.topk(self.count, -1).indices, 1.0)

    proxy = staticmethod(itself)

    def margins(self, x):
        if self.count == x.shape[-1]:
            return []
        ordered = x.sort(-1, descending=True).values
        return [ordered[..., self.count - 1] - ordered[..., self.count]]

    def decided(self, u, x):
        """Which one of two equal numbers is preferred is not specified."""
        others = ~torch.eye(x.lo.shape[-1], dtype=torch.bool)
        above = (x.lo.unsqueeze(-2) > x.hi.unsqueeze(-1)) & others
        near = (x.hi.unsqueeze(-2) >= x.lo.unsqueeze(-1)) & others
        lo = (near.sum(-1) < self.count).to(x.lo.dtype)
        hi = (above.sum(-1) < self.count).to(x.lo.dtype)
        mask = None if x.any is None else x.any.any(-1, keepdim=True).expand_as(x.any)
        return [Interval(lo, hi, mask)]


class Mixture(Composite):
    """What both operators share: sizes, the router, the activation.

    `per`: how many experts a token goes through. `activation`: "swiglu" takes pairs of neighbours.
    """

    per = Choice((1, 2, 2, 3))
    activation = Choice(KINDS)
    normalize_routing_weights = Choice((0, 1))
    alpha = Choice((1.0, 1.702))
    beta = Choice((0.0, 1.0))
    limit = Choice((None, None, 1.0, 7.0))

    @property
    def parts(self):
        """How many features make one of the middle layer."""
        return 2 if self.activation == "swiglu" else 1

    def cost(self, x, router, first, *_):
        return 4 * x.elements * first.shape[0] * first.shape[1]

    def _middle(self, apply, h):
        """The activation of the middle layer."""
        if self.activation != "swiglu":
            if self.activation == "identity":
                return h
            return apply(Relu() if self.activation == "relu" else Swish(alpha=1.0), h)
        gate, line = (apply(Moves(lambda t, i=i: t[..., i::2]), h) for i in (0, 1))
        if self.limit is not None:
            gate = apply(Clip(min=None, max=self.limit), gate)
            line = apply(Clip(min=-self.limit, max=self.limit), line)
        return apply(Mul(), apply(Swish(alpha=self.alpha), gate), apply(Shifted(self.beta), line))

    def _shares(self, apply, router):
        """The weight of every expert for every token, (N, E) -> (E, N, 1).

        Experts are preferred by their scores or by what the softmax makes of them, where rounding
        may bring about equal ones.
        """
        likely = apply(Softmax(axis=-1), router)
        shares = apply(Mul(), likely, apply(Preferred(self.per), likely))
        if self.normalize_routing_weights:
            shares = apply(Div(), shares, apply(SUMMED, shares))
        return apply(Moves(lambda t: t.t().unsqueeze(-1)), shares)

    def _mixed(self, apply, x, router, first, bias, second, last):
        """All experts on all tokens, and the sum of the preferred ones.

        Weights are (E, N, K); a bias is a value or ().
        """
        flat = apply(Moves(lambda t: t.flatten(0, -2).unsqueeze(0)), x)
        h = apply(MatMul(), flat, apply(TURNED, first))
        h = apply(Add(), h, apply(BESIDE, *bias)) if bias else h
        y = apply(MatMul(), self._middle(apply, h), apply(TURNED, second))
        y = apply(Add(), y, apply(BESIDE, *last)) if last else y
        weighted = apply(Mul(), y, self._shares(apply, router))
        whole = apply(OVER_EXPERTS, weighted)
        shape = tuple(x.shape)
        return apply(Moves(lambda t: t.reshape(shape)), whole)

    def shared_attributes(self):
        """The attributes that both operators have."""
        found = {"k": self.per, "activation_type": self.activation}
        found["normalize_routing_weights"] = self.normalize_routing_weights
        if self.activation == "swiglu":
            found |= {"swiglu_fusion": 1, "activation_alpha": self.alpha}
            found |= {"activation_beta": self.beta, "swiglu_limit": self.limit}
        return found


@microsoft
class MoE(Mixture):
    """Two layers per expert, with biases or without.

    Inputs are tokens, the router's scores (tokens, E), the weights of both layers, and biases of
    both. Source: com.microsoft.MoE-1.
    """

    inputs = (
        In("T", (DType.FLOAT32, DType.FLOAT16), (2, 3)),
        In("T", ranks=(2, 2)),
        In("T", ranks=(3, 3), weight=True),
        In("T", ranks=(3, 3), weight=True),
        In("T", ranks=(2, 2), weight=True),
        In("T", ranks=(2, 2), weight=True),
    )
    variadic = (4, 6)
    order = (0, 1, 2, 4, 3, 5)

    def requires(self, x, router, first, second, *biases):
        experts = router.shape[1]
        yield router.shape[0] == product(x.shape[:-1])
        yield experts >= self.per
        yield from (t.shape[0] == experts for t in (first, second, *biases))
        yield first.shape[1] == self.parts * second.shape[2]
        yield first.shape[2] == x.shape[-1]
        yield second.shape[1] == x.shape[-1]
        yield from (b.shape[1] == t.shape[1] for b, t in zip(biases, (first, second)))

    def complete(self, draw, first, dtypes):
        experts = draw.var("experts", self.per, 6)
        width, middle = first.shape[-1], draw.dim(3)
        inner = self.parts * middle
        return tensor_types(
            dtypes,
            first.shape,
            (product(first.shape[:-1]), experts),
            (experts, inner, width),
            (experts, width, middle),
            (experts, inner),
            (experts, width),
        )

    def compose(self, apply, x, router, first, second, *biases):
        bias, last = biases[:1], biases[1:]
        return [self._mixed(apply, x, router, first, bias, second, last)]

    def onnx(self, emit, x, router, first, second, *biases):
        bias, last = (biases[:1] or ("",)), biases[1:]
        return emit(self.name, x, router, first, *bias, second, *last, **self.shared_attributes())


@microsoft
class QMoE(Mixture):
    """MoE without biases, whose weights are numbers of 4 or 8 bits with a scale per row, or per
    block of a row.

    Inputs are tokens, the router's scores, and weights and scales of both layers. With weights of 8
    bits, or blocks, kernels may quantise tokens as well, so there are no blocks of 8 bits. Source:
    com.microsoft.QMoE-1.
    """

    inputs = (
        In("T", (DType.FLOAT32, DType.FLOAT16), (2, 3)),
        In("T", ranks=(2, 2)),
        In("B", (DType.UINT8,), (3, 3), weight=True),
        In("T", ranks=(2, 3), weight=True, narrow=True),
        In("B", ranks=(3, 3), weight=True),
        In("T", ranks=(2, 3), weight=True, narrow=True),
    )
    bits = Choice((4, 4, 8))
    block = Choice(lambda op, *_: (0, 16) if op.bits == 4 else (0,))
    valid = (None, None, None, SCALES, None, SCALES)

    def _bytes(self, count):
        """Bytes of a row of so many numbers."""
        return count * self.bits // 8

    def _scales(self, rows, count):
        """The shape of the scales of a matrix, behind the experts."""
        return (rows, count // self.block) if self.block else (rows,)

    def requires(self, x, router, first, scales, second, others):
        experts, width = router.shape[1], x.shape[-1]
        middle = second.shape[2] * 8 // self.bits
        yield router.shape[0] == product(x.shape[:-1])
        yield experts >= self.per
        yield from (t.shape[0] == experts for t in (first, scales, second, others))
        yield first.shape[1] == self.parts * middle
        yield first.shape[2] * 8 == width * self.bits
        yield second.shape[1] == width
        if self.block:
            yield width % self.block == 0
            yield middle % self.block == 0
        for t, rows, count in ((scales, first, width), (others, second, middle)):
            shape = self._scales(rows.shape[1], count)
            yield t.rank == len(shape) + 1
            yield from (a == b for a, b in zip(t.shape[1:], shape))

    def complete(self, draw, first, dtypes):
        experts = draw.var("experts", self.per, 6)
        width = first.shape[-1]
        middle = (self.block or 2) * draw.var("blocks", 1, 2 if self.block else 8)
        inner = self.parts * middle
        return tensor_types(
            dtypes,
            first.shape,
            (product(first.shape[:-1]), experts),
            (experts, inner, self._bytes(width)),
            (experts, *self._scales(inner, width)),
            (experts, width, self._bytes(middle)),
            (experts, *self._scales(width, middle)),
        )

    def compose(self, apply, x, router, first, scales, second, others):
        weights = [self._floats(apply, *pair) for pair in ((first, scales), (second, others))]
        return [self._mixed(apply, x, router, weights[0], (), weights[1], ())]

    def _floats(self, apply, packed, scales):
        experts, rows, size = packed.shape
        count = size * 8 // self.bits
        group = np.arange(count) // (self.block or count)
        flat = apply(Moves(lambda t: t.flatten(0, 1)), packed)
        near = apply(Moves(lambda t: t.reshape(experts * rows, -1)), scales)
        whole = apply(Unpacked(self.bits, group), flat, near)
        return apply(Moves(lambda t: t.unflatten(0, (experts, rows))), whole)

    def onnx(self, emit, x, router, first, scales, second, others):
        given = (x, router, first, scales, "", second, others)
        attributes = {**self.shared_attributes(), "expert_weight_bits": self.bits}
        return emit(self.name, *given, block_size=self.block or None, **attributes)


WAIVERS = {
    QMoE.name: (
        Waiver(
            "onnxruntime",
            "normalises the weights of experts whatever the attribute says (onnxruntime 1.31)",
            "ContribOperators.md: normalize_routing_weights: Whether to normalize routing weights",
            where=lambda op, x, router, *_: (
                not op.normalize_routing_weights and op.per < router.shape[1]
            ),
        ),
    ),
}
