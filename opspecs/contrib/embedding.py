"""The embedding of words, places and segments."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.norm import Normalization
from nnfuzz.operators.operator import In

from ..arithmetic import Add
from ..index import Gather
from ..norm import LayerNormalization
from . import microsoft

TABLE = In("T", ranks=(2, 2), weight=True)
VECTOR = In("T", ranks=(1, 1), weight=True)
IDS = In("I", (DType.INT32,), (2, 2), index=True)


@microsoft
class EmbedLayerNormalization(Composite):
    """The normalised sum of the rows that ids select from tables of words, places and segments.

    Inputs are ids of words, the tables of words and places, scale and shift, and maybe ids of
    segments with their table. `summed`: whether the sum is a further output. The table of places is
    read from its start, since no ids of places are given. Source:
    com.microsoft.EmbedLayerNormalization-1.
    """

    inputs = (
        IDS,
        In("T", (DType.FLOAT32, DType.FLOAT16), (2, 2), weight=True),
        TABLE,
        VECTOR,
        VECTOR,
        IDS,
        TABLE,
    )
    variadic = (5, 7)
    epsilon = Normalization.epsilon
    summed = Choice((0, 0, 1))

    def requires(self, ids, words, places, scale, shift, *segments):
        width = words.shape[1]
        yield len(segments) != 1
        yield from (t.shape[-1] == width for t in (places, scale, shift, *segments[1:]))
        yield places.shape[0] >= ids.shape[1]
        yield from (a == b for t in segments[:1] for a, b in zip(t.shape, ids.shape))

    def type_transfer(self, ids, words, *_):
        y = TensorType(words.dtype, (*ids.shape, words.shape[1]))
        return [y, y] if self.summed else [y]

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
        return tensor_types(dtypes, ids, *tables[:2], (width,), (width,), ids, tables[2])

    def integer_range(self, ids, words, places, scale, shift, *segments):
        rows = [(0, words.shape[0] - 1), None, None, None, None]
        return (*rows, (0, segments[1].shape[0] - 1)) if segments else rows

    def compose(self, apply, ids, words, places, scale, shift, *segments):
        count = ids.shape[1]
        total = apply(Gather(axis=0), words, ids)
        near = apply(Moves(lambda t: t[:count]), places)
        total = apply(Add(), total, near)
        if segments:
            total = apply(Add(), total, apply(Gather(axis=0), segments[1], segments[0]))
        y = apply(LayerNormalization(axis=-1, epsilon=self.epsilon), total, scale, shift)
        return [y, total] if self.summed else [y]

    def onnx(self, emit, ids, words, places, scale, shift, *segments):
        own = segments or ("", "")
        given = (ids, own[0], words, places, own[1], scale, shift)
        names = emit(self.name, *given, outputs=3 if self.summed else 2, epsilon=self.epsilon)
        return (names[0], names[2]) if self.summed else names[0]
