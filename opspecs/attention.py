"""Attention and the embedding of positions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from nnfuzz.ir.dtypes import BOOLS, FLOATS, DType
from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.attention import (
    MERGED,
    MaskedSoftmax,
    Scores,
    Softcap,
    repeated_heads,
    split_heads,
)
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.intervals import uncertain
from nnfuzz.operators.operator import In, OpSpec, operator

from .arithmetic import Add
from .dense import MatMul


class Biased(Add):
    """Scores plus a mask of floats; a mask of booleans is applied by the softmax."""

    def torch(self, x, mask):  # type: ignore[override]
        return x if mask.dtype is torch.bool else x + mask

    def domain(self, x, mask):
        return [] if mask.dtype is torch.bool else super().domain(x, mask)

    def radius(self, u, y, x, mask):
        return 0.0 if mask.dtype is torch.bool else super().radius(u, y, x, mask)


PRECISE = {
    DType.FLOAT64: (DType.FLOAT64,),
    DType.FLOAT32: (DType.FLOAT32, DType.FLOAT64),
    DType.FLOAT16: (DType.FLOAT16, DType.FLOAT32),
    DType.BFLOAT16: (DType.BFLOAT16, DType.FLOAT32),
}
APPENDED = Moves(lambda past, new: torch.cat([past, new], 2))
LAYOUTS = (3, 4)


@operator
class Attention(Composite):
    """softmax(mask(softcap(scale Q K^T))) V, in heads that share K and V by groups.

    Inputs are (B, H, S, D), or (B, S, H * D) with the number of heads as attributes. Three inputs
    are Q, K and V; four have a mask too; five have past keys and values; six have all of them. `qk`
    asks for the scores at one of their stages as a further output. The bare scores are not asked
    for where there is a cap, because onnx.reference (onnx 1.23) returns the capped ones. A row
    whose keys are all masked yields 0. Source: ONNX Attention-23.
    """

    since = 23
    inputs = (
        In("T", FLOATS, LAYOUTS),
        In("T", ranks=LAYOUTS),
        In("T", ranks=LAYOUTS),
        In("M", (*FLOATS, *BOOLS), (2, 4)),
    )
    variadic = (3, 6)
    kv_heads = Choice(lambda op, q, *_: (1,) if q.rank == 4 else (1, 2, 3))
    groups = Choice((1, 1, 2, 3))
    scale = Choice((None, None, 1.0, 0.5, 0.25))
    softcap = Choice((0.0, 0.0, 2.0, 10.0), default=0.0)
    is_causal = Choice((0, 0, 1))
    qk = Choice(lambda op, *_: (None, None, None, 1 if op.softcap else 0, 3), default=None)
    softmax_precision = Choice(lambda op, q, *_: (None, None, *PRECISE[q.dtype]), default=None)
    """The softmax is never less precise than the elements."""
    window: Any = (None, None)

    @classmethod
    @lru_cache
    def patterns(cls, count):
        past = (In("T", ranks=(4, 4)),) * 2 if count > 4 else ()
        return (*cls.inputs[: 3 if count in (3, 5) else 4], *past)

    @classmethod
    def signatures(cls):
        """A mask of floats has the type of the others."""
        return [s for s in super().signatures() if s[0]["M"] in (s[0]["T"], DType.BOOL)]

    def _parts(self, inputs):
        """The inputs mask, past keys and past values, each None if it is absent."""
        return inputs[3:4] if len(inputs) in (4, 6) else (), inputs[-2:] if len(inputs) > 4 else ()

    def _layout(self, q, k, v):
        """B, query heads, S, D, key heads, L and D of values."""
        if q.rank == 4:
            return (*q.shape, k.shape[1], k.shape[2], v.shape[3])
        heads = self.kv_heads * self.groups
        sizes = q.shape[2] // heads, v.shape[2] // self.kv_heads
        return q.shape[0], heads, q.shape[1], sizes[0], self.kv_heads, k.shape[1], sizes[1]

    def requires(self, q, k, v, *rest):
        # The scores after the mask have -inf where a causal mask is: no stage of `compose` has.
        yield self.qk != 2 or not self.is_causal
        if not q.rank == k.rank == v.rank:
            yield False
            return
        mask, past = self._parts((q, k, v, *rest))
        b, heads, s, d, kv_heads, n, dv = self._layout(q, k, v)
        yield from (x.shape[0] == b for x in (k, v, *past))
        if q.rank == 4:
            yield kv_heads * self.groups == heads
            yield v.shape[1] == kv_heads
            yield k.shape[3] == d
            yield v.shape[2] == n
        else:
            yield q.shape[2] % heads == 0
            yield v.shape[2] % kv_heads == 0
            yield k.shape[2] * self.groups == q.shape[2]
            yield v.shape[1] == n
        for x, size in zip(past, (d, dv)):
            yield x.shape[1] == kv_heads
            yield x.shape[2] == past[0].shape[2]
            yield x.shape[3] == size
        for x in mask:
            yield x.shape[-1] == self._keys(n, past)
            for have, want in zip(reversed(x.shape[:-1]), (s, heads, b)):
                yield (have == want) | (have == 1)

    def _keys(self, n, past):
        return n + past[0].shape[2] if past else n

    def type_transfer(self, q, k, v, *rest):
        _, past = self._parts((q, k, v, *rest))
        b, heads, s, d, kv_heads, n, dv = self._layout(q, k, v)
        shape = (b, heads, s, dv) if q.rank == 4 else (b, s, v.shape[2] * self.groups)
        keys = self._keys(n, past)
        kept = [q.with_shape((b, kv_heads, keys, size)) for size in (d, dv)] if past else []
        scores = [] if self.qk is None else [q.with_shape((b, heads, s, keys))]
        return [q.with_shape(shape), *kept, *scores]

    def complete(self, draw, first, dtypes):
        heads = self.kv_heads * self.groups
        if first.rank == 4:
            dv = first.shape[3] if draw.chance(0.5) else draw.dim(4)
        else:
            dv = draw.dim(3)
        v = dv if first.rank == 4 else dv * self.kv_heads
        return self._types(draw, first, v, dtypes, heads)

    def infer_input_types(self, draw, first, dtypes, output):
        shape = list(output.shape)
        heads = self.kv_heads * self.groups
        if first.rank == 4:
            shape[3], v = first.shape[3], output.shape[3]
        else:
            shape[2], v = draw.dim(3) * heads, output.shape[2] // self.groups
        return self._types(draw, TensorType(dtypes[0], tuple(shape)), v, dtypes, heads)

    def _types(self, draw, q, v, dtypes, heads):
        """All types, given that of Q and the last dimension of V."""
        b, n = q.shape[0], draw.dim(q.rank)
        if q.rank == 4:
            kv_heads, s, d, dv = q.shape[1] // self.groups, q.shape[2], q.shape[3], v
            shapes = [q.shape, (b, kv_heads, n, d), (b, kv_heads, n, v)]
            heads = q.shape[1]
        else:
            kv_heads, s = self.kv_heads, q.shape[1]
            d, dv = q.shape[2] // heads, v // kv_heads
            shapes = [q.shape, (b, n, q.shape[2] // self.groups), (b, n, v)]
        earlier = draw.dim(4)
        past = [(b, kv_heads, earlier, size) for size in (d, dv)] if len(dtypes) > 4 else []
        if len(dtypes) in (4, 6):
            shapes.append(self._mask(draw, (b, heads, s), n + earlier if past else n))
        return tensor_types(dtypes, *shapes, *past)

    def _mask(self, draw, leading, keys):
        kept = leading[draw.integer(0, 2) :]
        return (*(1 if draw.chance(0.3) else size for size in kept[:-1]), kept[-1], keys)

    def cost(self, q, k, v, *rest):
        b, heads, s, d, _, n, dv = self._layout(q, k, v)
        keys = self._keys(n, self._parts((q, k, v, *rest))[1])
        return 2 * product((b, heads, s, keys, d + dv))

    def compose(self, apply, q, k, v, *rest):
        return self._composed(apply, q, k, v, *self._parts((q, k, v, *rest)))

    def _composed(self, apply, q, k, v, mask, past, *there):
        """there: a mask of the keys that each query reads, or nothing. Such a mask leaves out what
        comes later as well, so that the softmax need not."""
        flat = len(q.shape) == 3
        if flat:
            q = apply(split_heads(self.kv_heads * self.groups), q)
            k, v = (apply(split_heads(self.kv_heads), x) for x in (k, v))
        kept = k, v = [apply(APPENDED, p, x) for p, x in zip(past, (k, v))] if past else [k, v]
        if self.groups > 1:
            k, v = (apply(repeated_heads(self.groups), x) for x in (k, v))
        earlier = past[0].shape[2] if past else 0
        left, right = self.window
        right = min(0, right or 0) if self.is_causal else right
        after = None if left is None else earlier - left
        before = None if right is None else earlier + right
        softmax = MaskedSoftmax(None if there else before, after)
        stages = self._weights(apply, q, k, mask, softmax, *there)
        y = apply(MatMul(), stages[3], v)
        scores = [] if self.qk is None else [stages[self.qk]]
        return [apply(MERGED, y) if flat else y, *(kept if past else ()), *scores]

    def _weights(self, apply, q, k, mask, softmax, *there):
        """The scores: bare, capped, with the mask added, and as probabilities."""
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        scores = apply(Scores(scale), q, k)
        capped = apply(Softcap(self.softcap), scores) if self.softcap else scores
        added = apply(Biased(), capped, *mask) if mask else capped
        allowed = [apply(Joint(), *there, *mask)] if there else mask
        return scores, capped, added, apply(softmax, added, *allowed)

    def value_range(self, *ranges):
        """The range of the values, and 0; unbounded with scores as an output or past values as an
        input."""
        if self.qk is not None or len(ranges) > 4:
            return -math.inf, math.inf
        return min(0.0, ranges[2][0]), max(0.0, ranges[2][1])

    def onnx(self, emit, q, k, v, *rest):
        return self._emitted(emit, q, k, v, *self._parts((q, k, v, *rest)))

    def _emitted(self, emit, q, k, v, mask, past, *lengths):
        heads = {}
        if emit.type(q).rank == 3:
            heads = {"q_num_heads": self.kv_heads * self.groups, "kv_num_heads": self.kv_heads}
        names = emit(
            "Attention",
            *(q, k, v, mask[0] if mask else "", *(past or ("", "")), *lengths),
            outputs=4 if self.qk is not None else 3 if past else 1,
            scale=self.scale,
            softcap=self.softcap,
            is_causal=self.is_causal,
            qk_matmul_output_mode=self.qk,
            softmax_precision=self.softmax_precision,
            left_window_size=self.window[0],
            right_window_size=self.window[1],
            **heads,
        )
        if self.qk is None:
            return names
        return names if past else (names[0], names[3])


@operator
class AttentionWindowed(Attention):
    """Attention to the keys within some positions to the left and right of the query's own; None
    means any number. Source: ONNX Attention-25, `left_window_size`.
    """

    since = 25
    plain = Attention
    window = Choice(((0, None), (2, None), (None, 1), (1, 2), (3, 0)))


class Present(OpSpec):
    """(B,) lengths -> (B, 1, S, L): True for the first keys, as many as the length says.

    If `causal`, a query reads no key behind its own place; the last query stands at the last of
    these keys.
    """

    def __init__(self, queries, keys, causal):
        self.queries, self.keys, self.causal = queries, keys, causal

    def torch(self, lengths):
        lengths, key = lengths.reshape(-1, 1, 1, 1), torch.arange(self.keys)
        query = torch.arange(self.queries).unsqueeze(1)
        there = (key < lengths).expand(-1, -1, self.queries, -1)
        return there & (key <= query + lengths - self.queries) if self.causal else there

    def interval(self, lengths):
        return [uncertain(self.torch, lengths)]


class Joint(OpSpec):
    """Where two masks are true. The second one may be left out, or consist of floats: these are
    added to the scores elsewhere, and not read here."""

    def torch(self, there, *mask):
        return there & mask[0] if mask and mask[0].dtype is torch.bool else there.clone()

    def interval(self, there, *mask):
        return [uncertain(self.torch, there, *(m for m in mask if m.lo.dtype is torch.bool))]


@operator
class AttentionPadded(Attention):
    """Attention to as many keys as the last input says for each element of the batch.

    Source: ONNX Attention-24, `nonpad_kv_seqlen`.
    """

    since = 24
    inputs = (*Attention.inputs, In("L", (DType.INT64,), (1, 1), index=True))  # type: ignore[assignment]
    variadic = (4, 5)
    qk = Choice((None,))  # onnx counts the present keys in front of the scores as a cache

    @classmethod
    @lru_cache
    def patterns(cls, count):
        return cls.inputs if count == 5 else (*cls.inputs[:3], cls.inputs[4])

    def _parts(self, inputs):
        return inputs[3:-1], ()

    def integer_range(self, q, k, v, *rest):
        return (*[None] * (2 + len(rest)), (1, self._layout(q, k, v)[5]))

    def requires(self, q, k, v, *rest):
        yield from super().requires(q, k, v, *rest)
        yield rest[-1].shape[0] == q.shape[0]

    def _types(self, draw, q, v, dtypes, heads):
        types = super()._types(draw, q, v, dtypes[:-1], heads)
        return [*types, TensorType(dtypes[-1], q.shape[:1])]

    def compose(self, apply, q, k, v, *rest):
        *mask, lengths = rest
        queries, keys = (int(x.shape[1 if len(q.shape) == 3 else 2]) for x in (q, k))
        there = apply(Present(queries, keys, self.is_causal), lengths)
        return self._composed(apply, q, k, v, mask, (), there)

    def onnx(self, emit, q, k, v, *rest):
        *mask, lengths = rest
        return self._emitted(emit, q, k, v, mask, (), lengths)
