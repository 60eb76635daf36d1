"""Growing and cropping tensors."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, operator


def _pads(draw, op, first, *_):
    """Draws symbolic padding of some axes, mostly the spatial ones, and 0 for the others; only
    constant mode has negative padding.
    """
    least = -4 if op.mode == "constant" else 0
    outer = 2 if first.rank > 2 and draw.chance(0.7) else 0
    axes = draw.subset(range(outer, first.rank), 1)
    sides = [draw.var("pad", least, 6, "offset") if i in axes else 0 for i in range(first.rank)]
    ends = [draw.var("pad", least, 6, "offset") if i in axes else 0 for i in range(first.rank)]
    return (*sides, *ends)


def _fill(op, first, *_):
    """The candidates for the padding constant, mostly within the domains of common functions."""
    if op.mode != "constant":
        return (0,)
    if first.dtype.is_float:
        return (0, 0, 0.5, 1, -2)
    return (0, 1) if first.dtype.is_bool else (0, 1, 7)


def _slice(emit, x, axis, start, end):
    return emit("Slice", x, *(emit.const([n], DType.INT64) for n in (start, end, axis)))


@operator
class Pad(Operands, DataMovement):
    """Extends each axis by a constant, or by mirrored, repeated or wrapped elements; negative
    padding crops.

    stated: whether the model has a constant of 0, which it may leave out. Wrapping is composed of
    slices below opset 19. Source: ONNX Pad-19.
    """

    merges = ("Pad", "Slice")
    takes_empty = True
    inputs = (In("T", ALL, (1, 5)),)
    mode = Choice(("constant", "constant", "reflect", "edge", "wrap"))
    pads = Choice(by=_pads)
    stated = Choice((0, 0, 1), default=0)
    value = Choice(_fill)
    usual: ClassVar = {**Operands.usual, "stated": 0}

    @property
    def whole(self):  # type: ignore[override]
        fills = self.mode == "constant" and self.value % 1
        return "" if fills else "kept"

    def _sides(self, x):
        return zip(x.shape, self.pads[: x.rank], self.pads[x.rank :])

    def requires(self, x):
        yield len(self.pads) == 2 * x.rank
        yield x.dtype.is_float or x.dtype.holds(self.value)
        for size, before, behind in self._sides(x):
            if self.mode == "constant":
                yield size + before >= 0
                yield size + behind >= 0
                yield size + before + behind >= 0
                continue
            # There is nothing to repeat.
            yield size >= 1
            yield before >= 0
            yield behind >= 0
            if self.mode != "edge":
                yield before < size + (self.mode == "wrap")
                yield behind < size + (self.mode == "wrap")

    def type_transfer(self, x):
        return [x.with_shape([d + before + behind for d, before, behind in self._sides(x)])]

    def infer_input_types(self, draw, first, dtypes, output):
        kept = [isinstance(a + b, int) for _, a, b in self._sides(first)]
        shape = tuple(o if k else f for f, o, k in zip(first.shape, output.shape, kept))
        return [TensorType(dtypes[0], shape)]

    def value_range(self, x):
        if self.mode != "constant":
            return x
        return min(x[0], self.value), max(x[1], self.value)

    def certain(self, x):
        grows = any(not isinstance(p, int) or p > 0 for p in self.pads)
        return ((self.value, self.value),) if self.mode == "constant" and grows else ()

    def torch(self, x):
        n = x.dim()
        if self.mode == "constant":
            pairs = [p for i in reversed(range(n)) for p in (self.pads[i], self.pads[n + i])]
            return torch.nn.functional.pad(x, pairs, value=self.value)
        for axis in range(n):
            x = self._extended(x, axis, self.pads[axis], self.pads[n + axis])
        return x

    def _extended(self, x, axis, before, behind):
        """Extends one axis; PyTorch's own modes lack dtypes and ranks."""
        index = (slice(None),) * axis
        size = x.shape[axis]
        if self.mode == "edge":
            parts = (
                [x[(*index, slice(0, 1))]] * before + [x] + [x[(*index, slice(-1, None))]] * behind
            )
        elif self.mode == "wrap":
            parts = [x[(*index, slice(size - before, None))]] if before else []
            parts += [x, x[(*index, slice(0, behind))]] if behind else [x]
        else:
            parts = [x]
            if before:
                parts.insert(0, x[(*index, slice(1, before + 1))].flip(axis))
            if behind:
                parts.append(x[(*index, slice(-1 - behind, -1))].flip(axis))
        return torch.cat(parts, axis) if len(parts) > 1 else x

    def onnx(self, emit, x):
        if self.mode == "wrap" and emit.opset < 19:
            return self._wrapped(emit, x)
        pads = self.integers(emit, x, self.pads)
        given = self.value or (self.stated and self.mode == "constant")
        constant = (emit.const(self.value, emit.type(x).dtype),) if given else ()
        return emit("Pad", x, pads, *constant, mode=self.mode)

    def _wrapped(self, emit, x):
        for axis, (size, before, behind) in enumerate(self._sides(emit.type(x))):
            parts = [x]
            if before:
                parts.insert(0, _slice(emit, x, axis, size - before, size))
            if behind:
                parts.append(_slice(emit, x, axis, 0, behind))
            x = emit("Concat", *parts, axis=axis)
        return x

    def interval(self, interval):
        """The interval of the moved elements; padding with a constant is exact."""
        from nnfuzz.operators.intervals import moved

        mask = None
        if interval.any is not None:
            plain = Pad(**{**self.attributes, "value": 0})
            mask = plain.torch(interval.any)
        (result,) = moved(self, Interval(interval.lo, interval.hi))
        return [Interval(result.lo, result.hi, mask)]
