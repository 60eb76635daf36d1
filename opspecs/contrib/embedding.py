"""The embedding of words, places and segments."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.norm import Normalization
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, OpSpec

from ..arithmetic import Add
from ..index import Gather
from ..norm import LayerNormalization
from . import microsoft

WORDS = In("T", (DType.FLOAT32, DType.FLOAT16), (2, 2), weight=True)
TABLE = In("T", ranks=(2, 2), weight=True)
VECTOR = In("T", ranks=(1, 1), weight=True)
IDS = In("I", (DType.INT32,), (2, 2), index=True)


class Length(OpSpec):
    """How many ones each row of a mask begins with. Kernels also count ones behind a zero; without
    a mask, where the ids of words stand in its place, it can be anything."""

    def __init__(self, masked):
        self.masked = masked

    def torch(self, mask):
        return (mask == 1).to(mask.dtype).cumprod(1).sum(1).to(mask.dtype)

    def decided(self, u, mask):
        least = self.torch(mask.lo)
        ones = mask.lo == 1 if self.masked and mask.exact else torch.ones_like(mask.lo)
        least = least if self.masked and mask.exact else torch.zeros_like(least)
        return [Interval(least, ones.sum(1).to(least.dtype))]


@microsoft
class EmbedLayerNormalization(Composite):
    """The normalised sum of the rows that ids select from tables of words, places and segments.

    Inputs are ids of words, the tables of words and places, scale and shift, and maybe ids of
    segments with their table, a mask, and ids of places, without which the table of places is read
    from its start. `placed`: whether ids of places are given, and not the mask, where only one of
    both is. Further outputs are the length of each row, and, where `summed`, the sum.
    Source: com.microsoft.EmbedLayerNormalization-1.
    """

    inputs = (IDS, WORDS, TABLE, VECTOR, VECTOR, IDS, TABLE, IDS, IDS)
    variadic = (5, 9)
    order = (0, 2, 3, 5, 6, 1, 4, 7, 8)
    epsilon = Normalization.epsilon
    summed = Choice((0, 0, 1))
    placed = Choice((0, 1), default=0)

    def _parts(self, more):
        """Ids and table of segments, the mask, ids of places; each of them maybe empty."""
        segments = more[: len(more) // 2 * 2][:2]
        both = more[len(segments) :]
        if len(both) == 1:
            return (segments, (), both) if self.placed else (segments, both, ())
        return segments, both[:1], both[1:]

    def requires(self, ids, words, places, scale, shift, *more):
        segments, mask, chosen = self._parts(more)
        yield from (t.shape[-1] == words.shape[1] for t in (places, scale, shift, *segments[1:]))
        for t in (*segments[:1], *mask, *chosen):
            yield from (a == b for a, b in zip(t.shape, ids.shape))
        if not chosen:
            yield places.shape[0] >= ids.shape[1]

    def type_transfer(self, ids, words, *_):
        y = TensorType(words.dtype, (*ids.shape, words.shape[1]))
        return [y, TensorType(ids.dtype, ids.shape[:1]), *[y] * self.summed]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 2 if output_rank == 3 else None

    def complete(self, draw, first, dtypes):
        return self._typed(draw, first.shape, draw.dim(2), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        return self._typed(draw, output.shape[:2], output.shape[2], dtypes)

    def _typed(self, draw, ids, width, dtypes):
        places = ids[1] + draw.var("more", 0, 8)
        tables = [(rows, width) for rows in (draw.dim(2), places, draw.var("segments", 1, 3))]
        segments = (ids, tables[2]) if len(dtypes) > 6 else ()
        return tensor_types(dtypes, ids, *tables[:2], (width,), (width,), *segments, ids, ids)

    def integer_range(self, ids, words, places, scale, shift, *more):
        segments, mask, chosen = self._parts(more)
        rows = [(0, words.shape[0] - 1), *[None] * 4]
        rows += [(0, segments[1].shape[0] - 1), None] if segments else []
        return (*rows, *[(0, 1) for _ in mask], *[(0, places.shape[0] - 1) for _ in chosen])

    def compose(self, apply, ids, words, places, scale, shift, *more):
        segments, mask, chosen = self._parts(more)
        count, gather = ids.shape[1], Gather(axis=0)
        near = [apply(gather, places, t) for t in chosen]
        near = near or [apply(Moves(lambda t: t[:count]), places)]
        total = apply(Add(), apply(gather, words, ids), *near)
        if segments:
            total = apply(Add(), total, apply(gather, segments[1], segments[0]))
        y = apply(LayerNormalization(axis=-1, epsilon=self.epsilon), total, scale, shift)
        length = apply(Length(bool(mask)), *(mask or (ids,)))
        return [y, length, *[total] * self.summed]

    def onnx(self, emit, ids, words, places, scale, shift, *more):
        segments, mask, chosen = self._parts(more)
        own = segments or ("", "")
        given = [ids, own[0], words, places, own[1], scale, shift]
        given += [*(mask or [""]), *chosen] if mask or chosen else []
        return emit(self.name, *given, outputs=2 + self.summed, epsilon=self.epsilon)
