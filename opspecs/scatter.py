"""Putting elements into a tensor by index."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import ALL, NUMBERS
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.index import (
    INDICES,
    Indexed,
    Reduced,
    Scattering,
    from_front,
    put,
    shape_within,
    span,
)
from nnfuzz.operators.families.shape import AXIS, resized
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.unexportable import DECOMPOSED, Unexportable

REDUCED = In("T", NUMBERS, (1, 5))


class Elements(Scattering):
    """Base of scatters with one index per update, its position along the axis."""

    kernel = "ScatterElements"
    inputs = (In("T", ALL, (1, 5)), In("I", INDICES, (1, 5), index=True), In("T", ranks=(1, 5)))
    axis = AXIS

    def requires(self, data, indices, updates):
        yield -data.rank <= self.axis < data.rank == indices.rank == updates.rank
        for i, (have, taken, given) in enumerate(zip(data.shape, indices.shape, updates.shape)):
            yield taken == given
            yield i == self.axis % data.rank or taken <= have

    def complete(self, draw, first, dtypes):
        at = self.axis % first.rank
        shape = list(shape_within(draw, first.shape, [at]))
        shape[at] = self.many(draw, first.shape[at], first.rank)
        return tensor_types(dtypes, first.shape, tuple(shape), tuple(shape))

    def integer_range(self, data, indices, updates):
        return None, span(data.shape[self.axis])

    def along(self, data, indices, updates):
        axis = self.axis % data.dim()
        places = from_front(indices, data.shape[axis])
        return data, axis, places, updates.reshape(indices.shape)


class Slices(Scattering):
    """Base of scatters of slices, at the tuples along the last axis of `indices`."""

    kernel = "ScatterND"
    unexportable = DECOMPOSED
    inputs = (
        In("T", ALL, (1, 5)),
        In("I", INDICES[:1], (1, 5), index=True),
        In("T", ranks=(0, 5)),
    )
    depth = Choice(by=lambda draw, op, first, *_: draw.integer(1, first.rank))

    def requires(self, data, indices, updates):
        yield 1 <= self.depth <= data.rank
        yield indices.shape[-1] == self.depth
        expected = (*indices.shape[:-1], *data.shape[self.depth :])
        yield len(expected) == updates.rank
        for want, given in zip(expected, updates.shape):
            yield want == given

    def complete(self, draw, first, dtypes):
        count = draw.integer(0, min(3, 5 - first.rank + self.depth))
        chosen = tuple(self.many(draw, first.shape[0], count + 2) for _ in range(count))
        rest = first.shape[self.depth :]
        return tensor_types(dtypes, first.shape, (*chosen, self.depth), (*chosen, *rest))

    def integer_range(self, data, indices, updates):
        return None, span(min(data.shape[: self.depth]))

    def along(self, data, indices, updates):
        """Slices become rows of matrices, and index tuples positions of rows."""
        row = indices.new_zeros(indices.shape[:-1])
        for i in range(self.depth):
            row = row * data.shape[i] + from_front(indices[..., i], data.shape[i])
        size = math.prod(data.shape[self.depth :])
        rows = row.reshape(-1, 1).expand(-1, size)
        return data.reshape(-1, size), 0, rows, updates.reshape(rows.shape)

    def onnx_attributes(self):
        return {"reduction": self.reduction} if self.reduction != "none" else {}


@operator
class ScatterElements(Elements):
    """Updates replace elements. Source: ONNX ScatterElements-13."""


@operator
class ScatterND(Slices):
    """Updates replace slices. Source: ONNX ScatterND-13."""


@operator
class ScatterElementsReduce(Reduced, Elements):
    """Updates are combined with the elements they meet. Source: ONNX ScatterElements-18."""

    plain = ScatterElements
    inputs = (REDUCED, *Elements.inputs[1:])
    unexportable = (
        Unexportable("torchscript", "declares a wrong shape in a branch around it (torch 2.13)"),
    )


@operator
class ScatterNDReduce(Reduced, Slices):
    """Updates are combined with the slices they meet. Source: ONNX ScatterND-18."""

    plain = ScatterND
    inputs = (REDUCED, *Slices.inputs[1:])


@operator
class TensorScatter(Indexed):
    """Each batch of updates is written along the axis of a cache from an index on; circular mode
    wraps around.

    Source: ONNX TensorScatter-24.
    """

    since = 24
    inputs = (
        In("T", ALL, (2, 5)),
        In("T", ranks=(2, 5)),
        In("I", INDICES[:1], (1, 1), index=True),
    )
    variadic = (2, 3)
    axis = Choice(by=lambda draw, op, first, *_: draw.integer(1, first.rank - 1))
    mode = Choice(("linear", "circular"))
    from_back = Choice((0, 0, 1), default=0)
    """Whether the model counts the axis from the end."""

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        axis, mode = fields["axis"], fields["mode"]
        return cls(axis=axis % takes[0].rank, mode=mode, from_back=int(axis < 0))

    def onnx(self, emit, data, *others):
        axis = self.axis - emit.type(data).rank if self.from_back else self.axis
        return emit("TensorScatter", data, *others, axis=axis, mode=self.mode)

    def requires(self, data, updates, indices=None):
        yield 1 <= self.axis < data.rank == updates.rank
        for i, (have, given) in enumerate(zip(data.shape, updates.shape)):
            yield given <= have if i == self.axis else given == have
        yield indices is None or indices.shape[0] == data.shape[0]

    def complete(self, draw, first, dtypes):
        updates = resized(first, self.axis, draw.dim(first.rank))
        return [first, updates, *(TensorType(d, first.shape[:1]) for d in dtypes[2:])]

    def infer_input_types(self, draw, first, dtypes, output):
        return self.complete(draw, output, dtypes)

    def integer_range(self, data, updates, indices=None):
        taken = updates.shape[self.axis] if self.mode == "linear" else 1
        return None, None, (0, data.shape[self.axis] - taken)

    def torch(self, data, updates, indices=None):
        size = updates.shape[self.axis]
        start = torch.zeros(len(data), dtype=torch.int64) if indices is None else indices
        place = (start[:, None] + torch.arange(size)) % data.shape[self.axis]
        shape = [len(data), *[1] * (data.dim() - 1)]
        shape[self.axis] = size
        return put(data, self.axis, place.reshape(shape).expand(updates.shape), updates, "none")
