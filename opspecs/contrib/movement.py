"""Operators that select, move or compare elements."""

from __future__ import annotations

from nnfuzz.ir.dtypes import INTS, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import emit_filled
from nnfuzz.operators.operator import In

from ..gather import GatherND
from ..index import Trilu
from ..pick import Unique
from ..pool import MaxPool
from ..shape import Unsqueeze
from . import microsoft

MOVED = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, *INTS, DType.BOOL)


@microsoft
class OldTrilu(Trilu):
    """Trilu as it was before ONNX had it. Source: com.microsoft.Trilu-1."""

    name = "Trilu"
    since = 13
    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64, DType.INT64), (2, 5)),)


@microsoft
class OldGatherND(GatherND):
    """GatherND without batches. Source: com.microsoft.GatherND-1."""

    name = "GatherND"
    unexportable = ()
    inputs = (In("T", MOVED, (1, 5)), In("I", (DType.INT64,), (1, 6), index=True))
    batch_dims = Choice((0,))

    def onnx(self, emit, data, indices):
        return emit(self.name, data, indices)


@microsoft
class ExpandDims(Unsqueeze):
    """Unsqueeze by one axis. Source: com.microsoft.ExpandDims-1."""

    inputs = (In("T", MOVED, (0, 4)),)
    constant_inputs = ("axis",)
    axes = Choice(by=lambda draw, op, x, *_: (draw.integer(-x.rank - 1, x.rank),))
    listed = Choice((0, 1))
    """Whether the operand has rank 1."""

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        axis = fields["axis"]
        listed = isinstance(axis, tuple)
        return cls(axes=axis if listed else (axis,), listed=int(listed))

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank - 1

    def requires(self, x):
        yield len(self.axes) == 1
        yield from super().requires(x)

    def onnx(self, emit, x):
        axis = self.axes if self.listed else self.axes[0]
        return emit(self.name, x, emit.const(axis, DType.INT32))


@microsoft
class NhwcMaxPool(MaxPool):
    """MaxPool of bytes with channels last. Source: com.microsoft.NhwcMaxPool-1."""

    weight = 2.0
    inputs = (In("T", (DType.UINT8, DType.INT8), (3, 5)),)

    def _first(self, t):
        """A type with channels second."""
        return t.with_shape((t.shape[0], t.shape[-1], *t.shape[1:-1]))

    def _last(self, t):
        return t.with_shape((t.shape[0], *t.shape[2:], t.shape[1]))

    def requires(self, x):
        yield from super().requires(self._first(x))

    def type_transfer(self, x):
        return [self._last(t) for t in super().type_transfer(self._first(x))]

    def infer_input_types(self, draw, first, dtypes, output):
        own = super().infer_input_types(draw, self._first(first), dtypes, self._first(output))
        return [self._last(t) for t in own]

    def torch(self, x):
        y = MaxPool(**self.attributes).torch(x.movedim(-1, 1))
        return y.movedim(1, -1).contiguous()


IN_ORDER = Unique(axis=None, sorted=0)


@microsoft
class OldUnique(Unique):
    """The distinct elements in order of occurrence, followed by zeros; the place and the count of
    each. Source: com.microsoft.Unique-1.
    """

    name = "Unique"
    inputs = (In("T", (DType.FLOAT32,), (1, 1)),)
    axis = Choice((None,))
    sorted = Choice((0,))

    def type_transfer(self, x):
        return super().type_transfer(x)[:3]

    def torch(self, x):
        y, _, which, counts = IN_ORDER.torch(x)
        return y, which, counts

    def interval(self, x):
        y, _, which, counts = IN_ORDER.interval(x)
        return [y, which, counts]

    def onnx(self, emit, x):
        found = emit(self.name, x, outputs=3)
        types = zip(found, self.type_transfer(emit.type(x)))
        return [emit_filled(emit, name, t.dtype, t.shape, 0) for name, t in types]
