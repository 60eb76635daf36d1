"""Attention and the embedding of positions, as they were before ONNX had them."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.attention import MaskedSoftmax
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.quantized import BYTES, SCALES
from nnfuzz.operators.operator import ANY_RANGE, In

from ..arithmetic import Add
from ..attention import Attention
from ..dense import MatMul
from ..rotary import RotaryEmbedding
from . import microsoft
from .products import COLUMNS, SCALE, MatMulIntegerToFloat

FLOAT = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
HEADS = Choice((1, 2, 3, 4))


@microsoft
class OldRotaryEmbedding(RotaryEmbedding):
    """RotaryEmbedding with positions. Source: com.microsoft.RotaryEmbedding-1."""

    name = "RotaryEmbedding"
    since = 13
    variadic = (4, 4)
    order = (0, 2, 3, 1)

    def requires(self, x, cos, sin, positions):
        yield from super().requires(x, cos, sin, positions)
        yield cos.shape[0] >= self._layout(x)[1]  # the kernel's own condition

    def onnx(self, emit, x, cos, sin, positions):
        type_ = emit.type(x)
        heads = type_.shape[1] if type_.rank == 4 else self.num_heads
        said = {"num_heads": heads, "rotary_embedding_dim": 2 * emit.type(cos).shape[-1]}
        own = said if self.partial else {}
        return emit(self.name, x, positions, cos, sin, interleaved=self.interleaved, **own)


class Padded(MaskedSoftmax):
    """MaskedSoftmax whose last keys are padding: kernels add -10000 to their scores."""

    def __init__(self, inner, padding):
        super().__init__(inner.before, inner.after)
        self.padding = padding

    def allowed(self, x, *mask):
        own = super().allowed(x, *mask)
        kept = torch.arange(x.shape[-1]) < x.shape[-1] - self.padding
        return kept.expand(x.shape[-2:]) if own is None else own & kept

    def domain(self, x, *mask):
        """Scores that are far less than what is added."""
        return [*super().domain(x, *mask), x.abs() - 1000]


QUERIES = (In("T", FLOAT, (3, 3)), In("T", ranks=(3, 3)), In("T", ranks=(3, 3)))
"""Q, K and V of rank 3."""


class OptionalInputs(Attention):
    """Attention of tensors of rank 3. `inputs` are `QUERIES` and one pattern for the others."""

    since = 13
    variadic = (3, 7)
    qk = Choice((None,), default=None)
    softmax_precision = Choice((None,), default=None)

    @classmethod
    def signatures(cls):
        return super(Attention, cls).signatures()

    @classmethod
    @lru_cache
    def patterns(cls, count):
        return (*cls.inputs[:3], *cls.inputs[3:] * (count - 3))


@microsoft
class MultiHeadAttention(OptionalInputs):
    """Attention of as many heads of keys as of queries.

    Behind Q, K and V come, each optional, a vector that is added to all of them (where `biased`),
    what is added to the scores, and past keys and values. `padding`: how many of the last keys take
    no part. Source: com.microsoft.MultiHeadAttention-1.
    """

    inputs = (*QUERIES, In("T", ranks=(1, 4)))
    kv_heads = HEADS
    groups = Choice((1,))
    softcap = Choice((0.0,), default=0.0)
    biased = Choice((0, 0, 1), default=0)
    padding = Choice((0, 0, 0, 1, 2), default=0)
    constant_inputs: ClassVar[tuple[str, ...]] = ("key_padding_mask",)

    @classmethod
    def from_onnx(cls, fields, takes, gives, **own):
        mask = [fields[name] for name in cls.constant_inputs[:1] if fields[name]]
        own |= {"padding": mask[0][0].count(0) if mask else 0, "biased": int("bias" not in fields)}
        own |= {"scale": fields.get("scale"), "is_causal": fields.get("unidirectional", 0)}
        return cls(kv_heads=fields["num_heads"], groups=1, **own)

    def _bias(self, inputs):
        return inputs[3:4] if self.biased else ()

    def _parts(self, inputs):
        rest = inputs[4 if self.biased else 3 :]
        return rest[: len(rest) % 2], rest[len(rest) % 2 :]

    def requires(self, q, k, v, *rest):
        given = (q, k, v, *rest)
        (mask, past), bias = self._parts(given), self._bias(given)
        ranks = all(x.rank == 4 for x in (*mask, *past)) and all(x.rank == 1 for x in bias)
        fits = len(rest) >= self.biased and len(past) < 4 and ranks
        yield fits
        if not fits:
            return
        yield from super().requires(*given)
        yield from (x.shape[0] == 2 * q.shape[2] + v.shape[2] for x in bias)
        if past:
            yield v.shape[2] == q.shape[2]
        yield from (x.shape[2] == q.shape[1] for x in mask)
        yield self.scale != 0  # kernels take 0 for a scale that is left out
        if self.is_causal:  # else it is not said which keys are earlier than a query
            yield k.shape[1] == q.shape[1]
        yield self._keys(k.shape[1], past) > self.padding

    def _types(self, draw, q, v, dtypes, heads):
        b, n = q.shape[0], draw.dim(3)
        shapes, rest = [q.shape, (b, n, q.shape[2]), (b, n, v)], len(dtypes) - 3
        if self.biased and rest:
            shapes.append((2 * q.shape[2] + v,))
        pairs = (rest - self.biased) // 2
        earlier = draw.dim(4) if pairs > 0 else 0
        if (rest - self.biased) % 2:
            leading = (1 if draw.chance(0.3) else size for size in (b, heads))
            shapes.append((*leading, q.shape[1], n + earlier))
        shapes += [(b, heads, earlier, size // heads) for size in (q.shape[2], v)] * max(0, pairs)
        return tensor_types(dtypes, *shapes)

    def compose(self, apply, q, k, v, *rest):
        bias = self._bias((q, k, v, *rest))
        if bias:
            size, last = q.shape[2], v.shape[2]
            places = ((0, size), (size, size), (2 * size, last))
            parts = [Moves(lambda t, i=i, n=n: t[i : i + n]) for i, n in places]
            q, k, v = (apply(Add(), x, apply(p, *bias)) for x, p in zip((q, k, v), parts))
        return super().compose(apply, q, k, v, *rest)

    def _weights(self, apply, q, k, mask, softmax):
        return super()._weights(
            apply, q, k, mask, Padded(softmax, self.padding) if self.padding else softmax
        )

    def value_range(self, *ranges):
        return ANY_RANGE if self.biased else super().value_range(*ranges)

    def _padding(self, emit, k, past):
        """The mask of keys, if some take no part."""
        if not self.padding:
            return ""
        b, n, _ = emit.type(k).shape
        keys = self._keys(n, [emit.type(x) for x in past])
        return emit.const(np.tile(np.arange(keys) < keys - self.padding, (b, 1)), DType.INT32)

    def onnx(self, emit, q, k, v, *rest):
        given = (q, k, v, *rest)
        mask, past = self._parts(given)
        bias = self._bias(given)
        return emit(
            self.name,
            *(q, k, v, bias[0] if bias else "", self._padding(emit, k, past)),
            *(mask[0] if mask else "", *past),
            outputs=3 if past else 1,
            num_heads=self.kv_heads,
            scale=self.scale,
            unidirectional=self.is_causal,
        )


@microsoft
class PackedAttention(Composite):
    """Attention of a tensor to itself: queries, keys and values are one product with weights.

    Source: com.microsoft.Attention-1.
    """

    name = "Attention"
    inputs: ClassVar[tuple[In, ...]] = (
        In("T", FLOAT, (3, 3)),
        In("T", ranks=(2, 2), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    num_heads = HEADS
    scale = Choice((None, None, 1.0, 0.5))
    unidirectional = Choice((0, 1))
    variadic = (2, 3)

    def requires(self, x, weights, *bias):
        yield self.scale != 0  # kernels take 0 for a scale that is left out
        yield weights.shape[0] == x.shape[2]
        yield weights.shape[1] % (3 * self.num_heads) == 0
        yield from (b.shape[0] == weights.shape[1] for b in bias)

    def type_transfer(self, x, weights, *_):
        return [x.with_shape((*x.shape[:2], weights.shape[1] // 3))]

    def complete(self, draw, first, dtypes):
        width = 3 * self.num_heads * draw.var("d", 1, 8)
        return [first, *tensor_types(dtypes[1:], (first.shape[2], width), (width,))]

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (*output.shape[:2], first.shape[2]))
        width = 3 * output.shape[2]
        return [x, *tensor_types(dtypes[1:], (first.shape[2], width), (width,))]

    def cost(self, x, weights, *_):
        return 2 * x.elements * weights.shape[1] + 4 * x.elements * x.shape[1]

    def compose(self, apply, x, weights, *bias):
        whole = apply(MatMul(), x, weights)
        return self._attended(apply, apply(Add(), whole, *bias) if bias else whole)

    def _attended(self, apply, whole):
        """Attention of queries, keys and values that stand beside each other."""
        size = whole.shape[2] // 3
        parts = [apply(Moves(lambda t, i=i: t.narrow(2, i * size, size)), whole) for i in range(3)]
        own = {"scale": self.scale, "is_causal": self.unidirectional}
        return Attention(kv_heads=self.num_heads, groups=1, **own).compose(apply, *parts)


@microsoft
class QuantisedAttention(PackedAttention):
    """Attention of a tensor of bytes to itself, whose weights are bytes as well.

    Behind the bias come scales of both, and maybe zero points. Source: com.microsoft.QAttention-1.
    """

    name = "QAttention"
    weight = 4.0  # few values are bytes
    inputs = (
        In("A", (DType.UINT8,), (3, 3)),
        In("B", BYTES, (2, 2), weight=True),
        In("S", (DType.FLOAT32,), (1, 1), weight=True),
        SCALE,
        SCALE,
        In("A", ranks=(0, 1), weight=True),
        In("B", ranks=(0, 1), weight=True),
    )
    variadic = (5, 7)
    output = "S"
    valid = (None, None, None, SCALES, SCALES)
    columns = COLUMNS

    def by_role(self, role, inputs):
        """The parameters of the weights, for the choice of `columns`."""
        return inputs[4:5]

    def _column_shape(self, weights):
        return weights[1:] if self.columns else ()

    def requires(self, x, weights, bias, *params):
        yield from super().requires(x, weights, bias)
        yield from (t.rank == 0 for t in params[::2])
        for t in params[1::2]:
            yield t.rank == self.columns
            yield from (n == weights.shape[1] for n in t.shape)

    def type_transfer(self, x, weights, bias, *_):
        return [TensorType(bias.dtype, (*x.shape[:2], weights.shape[1] // 3))]

    def complete(self, draw, first, dtypes):
        return self._typed(super().complete(draw, first, dtypes[:3]), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        return self._typed(super().infer_input_types(draw, first, dtypes[:3], output), dtypes)

    def _typed(self, own, dtypes):
        column = self._column_shape(own[1].shape)
        return [*own, *tensor_types(dtypes[3:], (), column, (), column)]

    def compose(self, apply, x, weights, bias, *params):
        product = MatMulIntegerToFloat(columns=self.columns, listed=0)
        return self._attended(apply, apply(Add(), apply(product, x, weights, *params), bias))

    def onnx(self, emit, x, weights, bias, scale, other, *zeros):
        given = (x, weights, bias, scale, other, "", *zeros)
        written = {name: v for name, v in self.attributes.items() if name != "columns"}
        return emit(self.name, *given, **written)
