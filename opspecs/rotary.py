"""Positions as rotations of pairs of features."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.operator import In, operator

from .arithmetic import Add, Mul, Sub
from .index import Gather

ANGLES = In("T", ranks=(2, 3), weight=True)
PER_TOKEN = Moves(lambda x: x.transpose(1, 2))
PER_HEAD = Moves(lambda x: x.unsqueeze(2))


@operator
class RotaryEmbedding(Composite):
    """(x1, x2) -> (cos x1 - sin x2, sin x1 + cos x2) for pairs of features.

    Input is (B, H, S, D), or (B, S, H * D) with `num_heads`. Cosines and sines are (B, S, R), or
    (P, R) with a further input of positions (B, S). Pairs are neighbours (interleaved) or R apart;
    features from 2 R on stay as they are (partial). Source: ONNX RotaryEmbedding-23.
    """

    since = 23
    inputs = (
        In("T", (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16), (3, 4)),
        ANGLES,
        ANGLES,
        In("I", (DType.INT64,), (2, 2), index=True),
    )
    variadic = (3, 4)
    interleaved = Choice((0, 1))
    partial = Choice((False, False, True))
    num_heads = Choice(lambda op, x, *_: (1,) if x.rank == 4 else (1, 2, 3))

    def _layout(self, x):
        """B, S and D."""
        if x.rank == 4:
            return x.shape[0], x.shape[2], x.shape[3]
        return x.shape[0], x.shape[1], x.shape[2] // self.num_heads

    def requires(self, x, cos, sin, *positions):
        b, s, d = self._layout(x)
        yield d >= 2 * cos.shape[-1] if self.partial else d == 2 * cos.shape[-1]
        if x.rank == 3:
            yield x.shape[2] % self.num_heads == 0
        yield cos.rank == sin.rank == 3 - len(positions)
        yield from (m == n for m, n in zip(cos.shape, sin.shape))
        for where in positions or (cos,):
            yield where.shape[0] == b
            yield where.shape[1] == s

    def complete(self, draw, first, dtypes):
        """Fewer angles than tokens are rare, because ONNX Runtime refuses them."""
        b, s, d = self._layout(first)
        pairs = draw.dim(4) if self.partial else d // 2
        rows = draw.dim(2) if draw.chance(0.1) else s + draw.var("more", 0, 16)
        angles = (rows, pairs) if len(dtypes) == 4 else (b, s, pairs)
        return tensor_types(dtypes, first.shape, angles, angles, (b, s))

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, TensorType(dtypes[0], output.shape), dtypes)

    def integer_range(self, x, cos, sin, *positions):
        return (None, None, None, (0, cos.shape[0] - 1)) if positions else ()

    def compose(self, apply, x, cos, sin, *positions):
        flat = len(x.shape) == 3
        pairs = cos.shape[-1]
        x = apply(Moves(lambda t: t.unflatten(2, (self.num_heads, -1))) if flat else PER_TOKEN, x)
        if positions:
            cos, sin = (apply(Gather(axis=0), t, *positions) for t in (cos, sin))
        cos, sin = (apply(PER_HEAD, t) for t in (cos, sin))
        one, two = (apply(Moves(part), x) for part in self._halves(pairs))
        real = apply(Sub(), apply(Mul(), cos, one), apply(Mul(), sin, two))
        other = apply(Add(), apply(Mul(), sin, one), apply(Mul(), cos, two))
        y = apply(Moves(self._joined), real, other, x)
        return [apply(Moves(lambda t: t.flatten(2)) if flat else PER_TOKEN, y)]

    def _halves(self, pairs):
        """Functions that select the first and the second features of all pairs."""
        if self.interleaved:
            return lambda x: x[..., : 2 * pairs : 2], lambda x: x[..., 1 : 2 * pairs : 2]
        return lambda x: x[..., :pairs], lambda x: x[..., pairs : 2 * pairs]

    def _joined(self, real, other, x):
        rest = x[..., 2 * real.shape[-1] :]
        if self.interleaved:
            return torch.cat([torch.stack([real, other], -1).flatten(-2), rest], -1)
        return torch.cat([real, other, rest], -1)

    def onnx(self, emit, x, cos, sin, *positions):
        partial = 2 * emit.type(cos).shape[-1] if self.partial else None
        heads = self.num_heads if emit.type(x).rank == 3 else None
        return emit(
            "RotaryEmbedding",
            *(x, cos, sin, *positions),
            interleaved=self.interleaved,
            rotary_embedding_dim=partial,
            num_heads=heads,
        )
