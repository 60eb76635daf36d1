"""Normalisations with what optimisers merge into them: a sum in front, a gate behind."""

from __future__ import annotations

from typing import ClassVar

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.norm import Normalization
from nnfuzz.operators.operator import In, OpSpec

from ..activation import Sigmoid, Softplus
from ..arithmetic import Add, Mul
from ..gates import Swish
from ..norm import LayerNormalization
from ..scaling import RMSNormalization
from . import microsoft

TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
VECTOR = In("T", ranks=(1, 1), weight=True)


class Grouped(Composite):
    """The family of these operators, one of which takes another one's place in near misses."""


class SkipNormalization(Grouped):
    """The normalisation along the last axis of a sum of two tensors, and maybe a vector.

    `total`: whether the sum is a further output, the fourth one of the operator.
    """

    epsilon = Normalization.epsilon
    total = Choice((0, 0, 1))
    vectors: ClassVar[int]
    """How many vectors the normalisation itself takes at most; one more is added in front."""

    def requires(self, x, skip, *vectors):
        yield skip.rank <= x.rank
        yield from (a == b for a, b in zip(reversed(x.shape), reversed(skip.shape)))
        yield from (v.shape[0] == x.shape[-1] for v in vectors)

    def type_transfer(self, x, *_):
        return [x, x] if self.total else [x]

    def complete(self, draw, first, dtypes):
        vectors = [first.shape[-1:]] * (len(dtypes) - 2)
        return [first, *tensor_types(dtypes[1:], first.shape, *vectors)]

    def compose(self, apply, x, skip, *vectors):
        own, bias = vectors[: self.vectors], vectors[self.vectors :]
        total = apply(Add(), x, skip)
        total = apply(Add(), total, *bias) if bias else total
        y = apply(self.normalises(), total, *own)
        return [y, total] if self.total else [y]

    def normalises(self) -> OpSpec:
        """The normalisation of the sum."""
        raise NotImplementedError

    def onnx(self, emit, *values):
        said = {"epsilon": self.epsilon}
        if not self.total:
            return emit(self.name, *values, **said)
        names = emit(self.name, *values, outputs=4, **said)
        emit.nodes[-1].output[1:3] = ["", ""]  # the statistics, which training needs
        return names[0], names[3]


@microsoft
class SkipLayerNormalization(SkipNormalization):
    """LayerNormalization of a sum. Source: com.microsoft.SkipLayerNormalization-1."""

    inputs = (In("T", TYPES, (3, 3)), In("T", ranks=(2, 3)), VECTOR, VECTOR, VECTOR)
    variadic = (3, 5)
    vectors = 2

    def normalises(self):
        return LayerNormalization(axis=-1, epsilon=self.epsilon)

    def complete(self, draw, first, dtypes):
        found = super().complete(draw, first, dtypes)
        if draw.chance(0.2):
            found[1] = found[1].with_shape(first.shape[1:])
        return found


@microsoft
class SkipSimplifiedLayerNormalization(SkipNormalization):
    """RMSNormalization of a sum. Source: com.microsoft.SkipSimplifiedLayerNormalization-1."""

    inputs = (In("T", TYPES, (2, 3)), In("T", ranks=(2, 3)), VECTOR, VECTOR)
    variadic = (3, 4)
    vectors = 1

    def requires(self, x, skip, *vectors):
        yield skip.rank == x.rank
        yield from super().requires(x, skip, *vectors)

    def normalises(self):
        return RMSNormalization(axis=-1, epsilon=self.epsilon, stash_type=None)


@microsoft
class GatedRMSNorm(Grouped):
    """RMSNormalization of groups of the last axis, times Swish or Sigmoid of a gate.

    Source: com.microsoft.GatedRMSNorm-1.
    """

    inputs = (In("T", TYPES, (2, 4)), VECTOR, In("T", ranks=(2, 4)))
    epsilon = Normalization.epsilon
    activation = Choice(("silu", "swish", "sigmoid"))
    groups = Choice((1, 1, 2, 3))

    def requires(self, x, scale, gate):
        yield scale.shape[0] * self.groups == x.shape[-1]
        yield gate.rank == x.rank
        yield from (a == b for a, b in zip(x.shape, gate.shape))

    def complete(self, draw, first, dtypes):
        return [first, *tensor_types(dtypes[1:], (first.shape[-1] // self.groups,), first.shape)]

    def compose(self, apply, x, scale, gate):
        parts = apply(Moves(lambda t: t.unflatten(-1, (self.groups, -1))), x)
        norm = RMSNormalization(axis=-1, epsilon=self.epsilon, stash_type=None)
        y = apply(Moves(lambda t: t.flatten(-2)), apply(norm, parts, scale))
        opens = Sigmoid() if self.activation == "sigmoid" else Swish(alpha=1.0)
        return [apply(Mul(), y, apply(opens, gate))]

    def onnx(self, emit, *values):
        return emit(self.name, *values, epsilon=self.epsilon, activation=self.activation)


@microsoft
class BranchwiseRMSNorm(Grouped):
    """RMSNormalization along the last axis, or along equal parts of it, with a scale.

    `flat`: whether the last axis holds `branches` parts. Source: com.microsoft.BranchwiseRMSNorm-1.
    """

    inputs = (In("T", TYPES, (2, 4)), In("T", ranks=(1, 2), weight=True))
    epsilon = Normalization.epsilon
    branches = Choice((0, 0, 1, 2, 3))
    """Into how many parts the last axis falls; 0: the axis before it has them."""

    def _parts(self, x):
        """Number and size of the parts."""
        if self.branches:
            return self.branches, x.shape[-1] // self.branches
        return x.shape[-2], x.shape[-1]

    def requires(self, x, scale):
        yield not self.branches or x.shape[-1] % self.branches == 0
        count, size = self._parts(x)
        yield scale.shape[-1] == size
        if scale.rank == 2:
            yield scale.shape[0] == count

    def complete(self, draw, first, dtypes):
        shape = self._parts(first)
        return [first, TensorType(dtypes[1], shape if draw.chance(0.5) else shape[1:])]

    def compose(self, apply, x, scale):
        norm = RMSNormalization(axis=-1, epsilon=self.epsilon, stash_type=None)
        if not self.branches:
            return [apply(norm, x, scale)]
        parts = apply(Moves(lambda t: t.unflatten(-1, (self.branches, -1))), x)
        return [apply(Moves(lambda t: t.flatten(-2)), apply(norm, parts, scale))]

    def onnx(self, emit, x, scale):
        branches = self.branches or None
        return emit(self.name, x, scale, epsilon=self.epsilon, num_branches=branches)


@microsoft
class GatedAdd(Grouped):
    """x + y * gate, one gate for each row. Source: com.microsoft.GatedAdd-1."""

    inputs = (In("T", TYPES, (1, 4)), In("T", ranks=(1, 4)), In("T", ranks=(1, 4)))

    def requires(self, x, y, gate):
        yield x.rank == y.rank == gate.rank
        yield from (a == b for a, b in zip(x.shape, y.shape))
        yield from (a == b for a, b in zip((*x.shape[:-1], 1), gate.shape))

    def complete(self, draw, first, dtypes):
        return [first, *tensor_types(dtypes[1:], first.shape, (*first.shape[:-1], 1))]

    def compose(self, apply, x, y, gate):
        return [apply(Add(), x, apply(Mul(), y, gate))]


@microsoft
class LinearAttentionGate(Grouped):
    """scale * Softplus(a + bias), with vectors along the last axis, and maybe Sigmoid(b).

    Source: com.microsoft.LinearAttentionGate-1.
    """

    inputs = (In("T", (DType.FLOAT32,), (3, 3)), VECTOR, VECTOR, In("T", ranks=(3, 3)))
    variadic = (3, 4)

    def requires(self, a, bias, scale, *b):
        yield from (v.shape[0] == a.shape[-1] for v in (bias, scale))
        yield from (m == n for x in b for m, n in zip(a.shape, x.shape))

    def type_transfer(self, a, bias, scale, *b):
        return [a, *b]

    def complete(self, draw, first, dtypes):
        vector = first.shape[-1:]
        return [first, *tensor_types(dtypes[1:], vector, vector, first.shape)]

    def compose(self, apply, a, bias, scale, *b):
        decay = apply(Mul(), apply(Softplus(), apply(Add(), a, bias)), scale)
        return [decay, *(apply(Sigmoid(), x) for x in b)]

    def onnx(self, emit, *values):
        return emit(self.name, *values, outputs=len(values) - 2)
