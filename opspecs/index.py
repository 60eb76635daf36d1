"""Operators that leave a tensor as it is, or take parts of it."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import ALL, FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Real
from nnfuzz.operators.families.index import INDICES, Indexed, span
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.shape import AXES, Along, DataMovement, ZeroFilled, Zeros, positive
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, operator


@operator
class Identity(DataMovement):
    takes_empty = True
    torch = staticmethod(torch.clone)


@operator
class Dropout(DataMovement):
    """Dropout at inference: nothing is dropped for any ratio; the mask, if requested, is all true.

    `form`: whether the lowering relies on the default or writes an explicit `training_mode`.
    Source: ONNX Dropout-13.
    """

    takes_empty = True
    inputs = (In("T", FLOATS),)
    ratio = Real(0.0, 0.9)
    form = Choice(("plain", "ratio", "training_mode"))
    mask = Choice((False, False, True))
    seed = Choice((None, None, 7), default=None)
    """The seed of training, which has no effect at inference."""

    def type_transfer(self, x):
        return [x, x.with_dtype(DType.BOOL)] if self.mask else [x]

    def torch(self, x):
        return (x.clone(), torch.ones_like(x, dtype=torch.bool)) if self.mask else x.clone()

    def proxy(self, x):
        return (x, torch.ones_like(x)) if self.mask else x

    def interval(self, x):
        kept = torch.ones_like(x.lo, dtype=torch.bool)
        return [x, Interval(kept, kept)] if self.mask else [x]

    def further(self, x):
        return (((1, 1),),) if self.mask else ()

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        ratio, training = fields.get("ratio"), fields.get("training_mode")
        form = "plain" if ratio is None else "ratio" if training is None else "training_mode"
        mine = {"ratio": ratio or 0.0, "form": form, "mask": len(gives) > 1}
        return super().from_onnx({"seed": None, **fields, **mine}, takes, gives)

    def onnx(self, emit, x):
        """Below opset 12 the ratio is an attribute, and the mask at inference is not defined, so
        that it is computed."""
        if emit.opset < 12:
            kept = emit("Dropout", x, ratio=None if self.form == "plain" else self.ratio)
            if not self.mask:
                return kept
            given = emit("Cast", x, to=DType.BOOL)
            return kept, emit("Or", given, emit("Not", given))
        inputs = [x] if self.form == "plain" else [x, emit.const(self.ratio, DType.FLOAT32)]
        if self.form == "training_mode":
            inputs.append(emit.const(False, DType.BOOL))
        return emit("Dropout", *inputs, outputs=2 if self.mask else 1, seed=self.seed)


FAR = 2**63 - 1
STEPS = (1, 1, 1, 2, 3, -1, -2)


def _per_axis(draw_one):
    """Draws one value per sliced axis by `draw_one(draw, step)`."""
    return Choice(by=lambda draw, op, *_: tuple(draw_one(draw, s) for s in op.steps))


def _ends(draw, op, *_):
    """Draws the end of each range; now and then a range is empty."""
    ends = [draw.var("to", 1 if step > 0 else -1, 96) for step in op.steps]
    if ends and draw.chance(0.06):
        at = draw.integer(0, len(ends) - 1)
        ends[at] = op.starts[at]
    return tuple(ends)


def _clamped(start, end, step):
    """The end of a range; that of an empty one is its start."""
    return max(start, end) if step > 0 else min(start, end)


@operator
class Slice(Operands, DataMovement):
    """Ranges [start, end) along axes; a negative step walks down from `start`, `end` excluded.

    Starts and ends are positions; an end of -1 is the position before the first element. `style`:
    whether the lowering writes them as they are, counted from the end, or beyond the tensor, where
    clamping gives the same. Source: ONNX Slice-13.
    """

    merges = ("Slice", "Pad")
    takes_empty = True
    inputs = (In("T", ALL, (1, 5)),)
    axes = AXES
    steps = Choice(by=lambda draw, op, *_: tuple(draw.choice(STEPS) for _ in op.axes))
    starts = _per_axis(lambda draw, step: draw.var("from", 0, 95))
    ends = Choice(by=_ends)
    style = Choice(("plain", "negative", "beyond"))
    usual: ClassVar = {**Operands.usual, "style": "plain"}

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        """Reads an ONNX Slice; ends beyond the tensor are clamped, as ONNX does."""
        starts, ends = fields["starts"], fields["ends"]
        axes = fields.get("axes") or tuple(range(len(starts)))
        steps = fields.get("steps") or (1,) * len(starts)
        sizes = [takes[0].shape[a] for a in axes]
        parts = [slice(*p).indices(s) for *p, s in zip(starts, ends, steps, sizes)]
        first = tuple(part[0] for part in parts)
        last = tuple(_clamped(*part) for part in parts)
        return cls(axes=axes, steps=steps, starts=first, ends=last, style="plain")

    def _parts(self, x):
        """Per sliced axis: the axis, its size, start, end and step."""
        axes = positive(self.axes, x.rank)
        yield from zip(axes, (x.shape[a] for a in axes), self.starts, self.ends, self.steps)

    def requires(self, x):
        yield all(-x.rank <= a < x.rank for a in self.axes)
        yield len(set(positive(self.axes, x.rank))) == len(self.axes)
        yield len(self.axes) == len(self.starts) == len(self.ends) == len(self.steps)
        yield 0 not in self.steps
        for _, size, start, end, step in self._parts(x):
            yield start >= 0
            if step > 0:
                yield start <= size
                yield end <= size
                yield end >= start
            else:
                yield start < size
                yield end >= -1
                yield end <= start

    def type_transfer(self, x):
        shape = list(x.shape)
        for axis, _, start, end, step in self._parts(x):
            span = end - start if step > 0 else start - end
            shape[axis] = (span - 1) // abs(step) + 1
        return [x.with_shape(shape)]

    def torch(self, x):
        for axis, start, end, step in zip(self.axes, self.starts, self.ends, self.steps):
            axis %= x.dim()
            before = (slice(None),) * axis
            if step > 0 or start == end:
                x = x[(*before, slice(start, end, abs(step)))]
            else:
                last = start - (start - end - 1) // -step * -step
                x = x[(*before, slice(last, start + 1, -step))].flip(axis)
        return x

    def onnx(self, emit, x):
        parts = list(self._parts(emit.type(x)))
        starts = [self._start(*part[1:]) for part in parts]
        ends = [self._end(size, end, step) for _, size, _, end, step in parts]
        bounds = [self.integers(emit, x, column) for column in (starts, ends)]
        more = (emit.const(list(column), DType.INT64) for column in (self.axes, self.steps))
        return emit("Slice", x, *bounds, *more)

    def _start(self, size, start, end, step):
        """A range that is empty may begin behind its end."""
        last = size - 1 if step < 0 else size
        if self.style == "beyond" and (start == last if step < 0 else start == end):
            return FAR
        return start - size if self.style == "negative" and start < size else start

    def _end(self, size, end, step):
        if end == -1:
            return -FAR if self.style == "beyond" else -size - 1
        if self.style == "beyond" and end == size:
            return FAR
        return end - size if self.style == "negative" and end < size else end


@operator
class Gather(Along, Indexed):
    """data[:axis] + indices + data[axis + 1:]; negative indices count from the end.

    Source: ONNX Gather-13.
    """

    merges = ("Gather",)
    copies = picks = True
    inputs = (
        In("T", ALL, (1, 5)),
        In("I", INDICES, (0, 5), index=True),
    )

    def type_transfer(self, data, indices):
        at = self.axis % data.rank
        return [data.with_shape((*data.shape[:at], *indices.shape, *data.shape[at + 1 :]))]

    def complete(self, draw, first, dtypes):
        rank = draw.integer(0, min(3, 6 - first.rank))
        shape = tuple(draw.dim(first.rank + rank - 1) for _ in range(rank))
        return [first, TensorType(dtypes[1], shape)]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return draw.integer(max(1, output_rank - 2), min(5, output_rank + 1))

    def infer_input_types(self, draw, first, dtypes, output):
        at, count = self.axis % first.rank, output.rank - first.rank + 1
        taken = output.shape[at : at + count]
        data = (*output.shape[:at], first.shape[at], *output.shape[at + count :])
        return [TensorType(dtypes[0], data), TensorType(dtypes[1], taken)]

    def integer_range(self, data, indices):
        return None, span(data.shape[self.axis])

    def torch(self, data, indices):
        at = self.axis % data.dim()
        i = indices.long()
        taken = data[(*(slice(None),) * at, i.reshape(-1) if i.dim() == 0 else i)]
        return taken.select(at, 0) if i.dim() == 0 else taken


@operator
class Trilu(Zeros, ZeroFilled, DataMovement):
    """The upper or lower triangle of the last two axes, 0 elsewhere. Source: ONNX Trilu-14."""

    since = 14
    inputs = (In("T", ALL, (2, 5)),)
    as_inputs = ("k",)
    k = Choice((0, 0, 1, -1, 2, -3))
    upper = Choice((0, 1))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        k = fields["k"] or 0
        return cls(k=k[0] if isinstance(k, tuple) else k, upper=fields["upper"])

    def torch(self, x):
        return torch.triu(x, self.k) if self.upper else torch.tril(x, self.k)
