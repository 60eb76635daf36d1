"""Attention of decoders: grouped heads, positions by rotation, a window, a cache of past keys."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.attention import MaskedSoftmax
from nnfuzz.operators.families.composite import Moves
from nnfuzz.operators.operator import In
from nnfuzz.operators.waiver import Waiver

from ..rotary import RotaryEmbedding
from . import microsoft
from .attention import FLOAT, QUERIES, MultiHeadAttention, OptionalInputs

BLOCK = 8
"""Features of a head come in such blocks; with rotations in two of them (the kernel's own
condition)."""


def _holds(q, blocks):
    """Whether the features of a tensor can be so many blocks, or equal parts of them."""
    width = q.shape[2]
    if isinstance(width, int):
        return width % (BLOCK * blocks) == 0
    return width.hi >= BLOCK * blocks


class WithSink(MaskedSoftmax):
    """MaskedSoftmax of scores whose last key takes part in every row."""

    def allowed(self, x, *mask):
        found = super().allowed(x[..., :-1], *mask)
        if found is None:
            return None
        return torch.cat([found, torch.ones_like(found[..., :1])], -1)


@microsoft
class GroupQueryAttention(OptionalInputs):
    """Attention whose heads share keys and values by groups, and which appends to a cache.

    Behind Q, K and V come past keys and values, cosines and sines (where `rotary` is not None),
    and what is added to the scores; each is optional. `window`: how many keys, its own the last, a
    query attends to; 0 means all earlier ones. `smooth`: whether 1 is added to the sum of
    exponentials. All sequences of a batch have one length.

    Source: com.microsoft.GroupQueryAttention-1.
    """

    weight = 4.0  # few other nodes have values that fit
    inputs = (*QUERIES, In("T", ranks=(2, 4)))
    kv_heads = Choice(lambda op, q, *_: [n for n in (1, 1, 1, 2) if _holds(q, n)] or (1,))
    groups = Choice(
        lambda op, q, *_: [n for n in (1, 2, 2, 3) if _holds(q, n * op.kv_heads)] or (1,)
    )
    is_causal = Choice((1, 1, 1, 0))
    rotary = Choice(
        lambda op, q, *_: (
            (None, None, "halves", "pairs") if _holds(q, 2 * op.kv_heads * op.groups) else (None,)
        )
    )
    keys_seen = Choice(lambda op, *_: (0, 0, 1, 2, 5) if op.is_causal else (0,))
    smooth = Choice((-1, -1, 0, 1))
    constant_inputs = ("seqlens_k", "total_sequence_length")

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        kv_heads, kinds = fields["kv_num_heads"], ("halves", "pairs")
        return cls(
            scale=fields.get("scale"),
            softcap=fields.get("softcap", 0.0),
            kv_heads=kv_heads,
            groups=fields["num_heads"] // kv_heads,
            is_causal=fields["causal"],
            rotary=kinds[fields["rotary_interleaved"]] if fields["do_rotary"] else None,
            keys_seen=max(0, fields["local_window_size"]),
            smooth=fields["smooth_softmax"],
        )

    @property
    def window(self):
        return (self.keys_seen - 1 if self.keys_seen else None), None

    def _pairs(self, inputs):
        """Past keys and values, then cosines and sines, where they are given."""
        rest = inputs[3:]
        return rest[: len(rest) // 2 * 2]

    def _angles(self, inputs):
        return self._pairs(inputs)[-2:] if self.rotary else ()

    def _parts(self, inputs):
        rest, pairs = inputs[3:], self._pairs(inputs)
        past = pairs[:-2] if self.rotary else pairs
        return rest[len(pairs) :], past[:2]

    def requires(self, q, k, v, *rest):
        given = (q, k, v, *rest)
        pairs, (bias, past) = self._pairs(given), self._parts(given)
        angles = self._angles(given)
        yield len(pairs) == len(past) + len(angles)
        ranks = all(x.rank == 4 for x in (*bias, *past)) and all(x.rank == 2 for x in angles)
        yield ranks
        if not ranks:
            return
        yield from super().requires(*given)
        size = q.shape[2] // (self.kv_heads * self.groups)
        yield size % (2 * BLOCK if self.rotary else BLOCK) == 0
        yield v.shape[2] == k.shape[2]
        yield k.shape[1] == q.shape[1]
        yield from (x.shape[2] == q.shape[1] for x in bias)
        yield self.scale != 0  # kernels take 0 for a scale that is left out
        if past:  # the kernel's own condition
            yield (q.shape[0] == 1) | (q.shape[1] == 1)
        for x in angles:
            yield x.shape[0] >= self._keys(q.shape[1], past)
            yield x.shape[0] == angles[0].shape[0]
            yield x.shape[1] * 2 == size

    def complete(self, draw, first, dtypes):
        (b, s, width), heads = first.shape, self.kv_heads * self.groups
        pairs = (len(dtypes) - 3) // 2
        own = (b, s, width // self.groups)
        past = pairs > bool(self.rotary)
        earlier = draw.dim(4) if past else 0
        shapes = [first.shape, own, own]
        if past:
            shapes += [(b, self.kv_heads, earlier, width // heads)] * 2
        if self.rotary and pairs:
            shapes += [(s + earlier + draw.var("more", 0, 16), width // heads // 2)] * 2
        shapes += [own] * (3 + 2 * pairs - len(shapes))
        if len(dtypes) % 2 == 0:
            leading = (1 if draw.chance(0.3) else n for n in (b, heads))
            shapes.append((*leading, s, s + earlier))
        return tensor_types(dtypes, *shapes)

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, TensorType(dtypes[0], output.shape), dtypes)

    def compose(self, apply, q, k, v, *rest):
        given = (q, k, v, *rest)
        angles, past = self._angles(given), self._parts(given)[1]
        if angles:
            start, count = past[0].shape[2] if past else 0, q.shape[1]
            taken = Moves(lambda t: t[start : start + count].unsqueeze(0))
            angles = [apply(taken, t) for t in angles]
            q = self._rotated(apply, self.kv_heads * self.groups, q, *angles)
            k = self._rotated(apply, self.kv_heads, k, *angles)
        return super().compose(apply, q, k, v, *rest)

    def _rotated(self, apply, heads, x, *angles):
        pairs = int(self.rotary == "pairs")
        return RotaryEmbedding(interleaved=pairs, partial=False, num_heads=heads).compose(
            apply, x, *angles
        )[0]

    def _weights(self, apply, q, k, mask, softmax):
        if self.smooth < 1:
            return super()._weights(apply, q, k, mask, softmax)
        *stages, _ = super()._weights(apply, q, k, mask, softmax)
        grown = apply(Moves(lambda t: torch.cat([t, torch.zeros_like(t[..., :1])], -1)), stages[2])
        shares = apply(WithSink(softmax.before, softmax.after), grown)
        return (*stages, apply(Moves(lambda t: t[..., :-1]), shares))

    def onnx(self, emit, q, k, v, *rest):
        given = (q, k, v, *rest)
        bias, past = self._parts(given)
        angles = self._angles(given)
        b, s, _ = emit.type(q).shape
        keys = s + (emit.type(past[0]).shape[2] if past else 0)
        lengths = emit.const(np.full(b, keys - 1), DType.INT32), emit.const(keys, DType.INT32)
        names = emit(
            self.name,
            *(q, k, v, *(past or ("", "")), *lengths, *(angles or ("", "")), "", *bias),
            outputs=3 if past else 1,
            num_heads=self.kv_heads * self.groups,
            kv_num_heads=self.kv_heads,
            scale=self.scale,
            softcap=self.softcap or None,
            do_rotary=1 if angles else None,
            rotary_interleaved=1 if self.rotary == "pairs" else None,
            local_window_size=self.keys_seen or None,
            causal=None if self.is_causal else 0,
            smooth_softmax=self.smooth,
        )
        return names


@microsoft
class DecoderMaskedMultiHeadAttention(MultiHeadAttention):
    """MultiHeadAttention of one query, with a cache that has room for more keys, which is a further
    output with the new ones.

    `position`: how many keys the cache holds. Source:
    com.microsoft.DecoderMaskedMultiHeadAttention-1.
    """

    weight = 4.0  # few other nodes have values that fit
    order = (0, 1, 2, 10, 3, 4, 5, 6, 7, 8, 9)
    inputs = (In("T", FLOAT[:2], (3, 3)), *MultiHeadAttention.inputs[1:])
    is_causal = Choice((0,))
    position = Choice((0, 1, 1, 2, 4))
    constant_inputs = ("mask_index", "past_sequence_length")

    @classmethod
    def from_onnx(cls, fields, takes, gives, **own):
        (held,) = fields["past_sequence_length"] or (0,)
        return super().from_onnx(fields, takes, gives, position=held, **own)

    def requires(self, q, k, v, *rest):
        yield q.shape[1] == 1
        yield k.shape[1] == 1
        yield v.shape[2] == q.shape[2]  # the kernel's own condition
        yield from super().requires(q, k, v, *rest)
        for x in self._parts((q, k, v, *rest))[1]:
            yield x.rank == 4 and x.shape[2] > self.position

    def _keys(self, n, past):
        return n + self.position if past else n

    def type_transfer(self, q, k, v, *rest):
        return [q.with_shape(v.shape), *self._parts((q, k, v, *rest))[1]]

    def _types(self, draw, q, v, dtypes, heads):
        found = super()._types(draw, q, q.shape[2], dtypes, heads)
        _, past = self._parts(found)
        found[1], found[2] = q, q
        room = self.position + draw.var("room", 1, 8)
        for i in range(len(found) - len(past), len(found)):
            b, count, _, size = found[i].shape
            found[i] = found[i].with_shape((b, count, room, size))
        mask, _ = self._parts(found)
        if mask:
            at = found.index(mask[0])
            found[at] = mask[0].with_shape((*mask[0].shape[:-1], self._keys(1, past)))
        return found

    def compose(self, apply, q, k, v, *rest):
        _, past = self._parts((q, k, v, *rest))
        held = Moves(lambda t: t[:, :, : self.position])
        kept = [apply(held, t) for t in past]
        others = rest[: len(rest) - len(past)]
        y, *written = super().compose(apply, q, k, v, *others, *kept)
        room = Moves(lambda new, t: torch.cat([new, t[:, :, self.position + 1 :]], 2))
        return [y, *(apply(room, new, t) for new, t in zip(written, past))]

    def onnx(self, emit, q, k, v, *rest):
        given = (q, k, v, *rest)
        mask, past = self._parts(given)
        length = (emit.const([self.position], DType.INT32),) if past else ()
        bias = ("", "", *self._bias(given)) if self._bias(given) else ()
        before = (*(past or ("", "")), *(length or ("",)))
        return emit(
            self.name,
            *(q, k, v, self._padding(emit, k, past), mask[0] if mask else "", *before, *bias),
            outputs=3 if past else 1,
            num_heads=self.kv_heads,
            scale=self.scale,
            past_present_share_buffer=1 if past else None,
        )


WAIVERS = {
    DecoderMaskedMultiHeadAttention.name: (
        Waiver(
            "onnxruntime",
            "ignores the bias where there are no past keys (onnxruntime 1.31)",
            "ContribOperators.md: Bias tensor with shape (hidden_size + hidden_size + "
            "v_hidden_size) from input projection",
            where=lambda op, *inputs: op.biased and 3 < len(inputs) < 6,
        ),
    )
}
