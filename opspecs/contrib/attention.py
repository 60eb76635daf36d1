"""Attention and the embedding of positions, as they were before ONNX had them."""

from __future__ import annotations

from functools import lru_cache

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.operator import In, operator

from ..arithmetic import Add
from ..attention import Attention
from ..linalg import MatMul
from ..rotary import ANGLES, RotaryEmbedding
from .activation import RARE

FLOAT = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
HEADS = Choice((1, 2, 3, 4))


@operator
class OldRotaryEmbedding(RotaryEmbedding):
    """RotaryEmbedding with positions. Source: com.microsoft.RotaryEmbedding-1."""

    name = "com.microsoft.RotaryEmbedding"
    since = 13
    weight = RARE
    inputs = (
        In("T", FLOAT, (3, 4)),
        ANGLES,
        ANGLES,
        In("I", (DType.INT64,), (2, 2), index=True),
    )
    variadic = (4, 4)

    def requires(self, x, cos, sin, positions):
        yield from super().requires(x, cos, sin, positions)
        yield cos.shape[0] >= self._layout(x)[1]  # the kernel's own condition

    def onnx(self, emit, x, cos, sin, positions):
        type_ = emit.type(x)
        heads = type_.shape[1] if type_.rank == 4 else self.num_heads
        said = {"num_heads": heads, "rotary_embedding_dim": 2 * emit.type(cos).shape[-1]}
        own = said if self.partial else {}
        return emit(self.name, x, positions, cos, sin, interleaved=self.interleaved, **own)


@operator
class MultiHeadAttention(Attention):
    """Attention of as many heads of keys as of queries, with what is added to the scores and past
    keys and values. Source: com.microsoft.MultiHeadAttention-1.
    """

    name = "com.microsoft.MultiHeadAttention"
    since = 13
    weight = RARE
    inputs = (
        In("T", FLOAT, (3, 3)),
        In("T", ranks=(3, 3)),
        In("T", ranks=(3, 3)),
        In("T", ranks=(4, 4)),
    )
    kv_heads = HEADS
    groups = Choice((1,))
    scale = Choice((None, None, 1.0, 0.5, 0.25))
    softcap = Choice((0.0,))
    is_causal = Choice((0, 0, 1))
    qk = Choice((None,))
    softmax_precision = Choice((None,))

    @classmethod
    def signatures(cls):
        return super(Attention, cls).signatures()

    @classmethod
    @lru_cache
    def patterns(cls, count):
        past = (In("T", ranks=(4, 4)),) * 2 if count > 4 else ()
        return (*cls.inputs[: 3 if count in (3, 5) else 4], *past)

    def _mask(self, draw, leading, keys):
        batch, heads, queries = leading
        return (*(1 if draw.chance(0.3) else n for n in (batch, heads)), queries, keys)

    def requires(self, q, k, v, *rest):
        yield from super().requires(q, k, v, *rest)
        if len(rest) > 1:
            yield v.shape[2] == q.shape[2]
        mask, _ = self._parts((q, k, v, *rest))
        yield from (x.shape[2] == q.shape[1] for x in mask)
        if self.is_causal:  # else it is not said which keys are earlier than a query
            yield k.shape[1] == q.shape[1]

    def onnx(self, emit, q, k, v, *rest):
        mask, past = self._parts((q, k, v, *rest))
        return emit(
            self.name,
            *(q, k, v, "", "", mask[0] if mask else "", *past),
            outputs=3 if past else 1,
            num_heads=self.kv_heads,
            scale=self.scale,
            unidirectional=self.is_causal,
        )


@operator
class PackedAttention(Composite):
    """Attention of a tensor to itself: queries, keys and values are one product with weights.

    Source: com.microsoft.Attention-1.
    """

    name = "com.microsoft.Attention"
    since = 13
    weight = RARE
    inputs = (
        In("T", FLOAT, (3, 3)),
        In("T", ranks=(2, 2), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    num_heads = HEADS
    scale = Choice((None, None, 1.0, 0.5))
    unidirectional = Choice((0, 1))

    def requires(self, x, weights, bias):
        yield weights.shape[0] == x.shape[2]
        yield weights.shape[1] % (3 * self.num_heads) == 0
        yield bias.shape[0] == weights.shape[1]

    def type_transfer(self, x, weights, bias):
        return [x.with_shape((*x.shape[:2], weights.shape[1] // 3))]

    def complete(self, draw, first, dtypes):
        width = 3 * self.num_heads * draw.var("d", 1, 8)
        shapes = ((first.shape[2], width), (width,))
        return [first, *(TensorType(d, s) for d, s in zip(dtypes[1:], shapes))]

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (*output.shape[:2], first.shape[2]))
        width = 3 * output.shape[2]
        shapes = ((first.shape[2], width), (width,))
        return [x, *(TensorType(d, s) for d, s in zip(dtypes[1:], shapes))]

    def cost(self, x, weights, bias):
        return 2 * x.elements * weights.shape[1] + 4 * x.elements * x.shape[1]

    def compose(self, apply, x, weights, bias):
        size = weights.shape[1] // 3
        whole = apply(Add(), apply(MatMul(), x, weights), bias)
        parts = [apply(Moves(lambda t, i=i: t.narrow(2, i * size, size)), whole) for i in range(3)]
        attends = Attention(
            kv_heads=self.num_heads,
            groups=1,
            scale=self.scale,
            softcap=0.0,
            is_causal=self.unidirectional,
            qk=None,
            softmax_precision=None,
        )
        return attends.compose(apply, *parts)

    def onnx(self, emit, *values):
        said = {"num_heads": self.num_heads, "scale": self.scale}
        return emit(self.name, *values, unidirectional=self.unidirectional, **said)
