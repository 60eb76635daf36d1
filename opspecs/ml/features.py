"""Categories as numbers, and features: the last axis of a tensor has one for each position."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import Increasing, itself
from nnfuzz.operators.families.index import Indexed
from nnfuzz.operators.intervals import Interval, corners
from nnfuzz.operators.operator import In, OpSpec
from nnfuzz.operators.waiver import reference

from . import ml

KEYS = (-3, -1, 0, 1, 2, 3, 5, 8)
SOME = Choice(by=lambda draw, op, *_: draw.subset(KEYS, 1, 5))


@ml
class LabelEncoder(OpSpec):
    """The value whose key an integer is, or a default.

    Source: ai.onnx.ml.LabelEncoder-2, with keys_int64s.
    """

    inputs = (In("I", (DType.INT64,)),)
    output = "to"
    stored: ClassVar = {
        DType.INT64: ("values_int64s", "default_int64"),
        DType.FLOAT32: ("values_floats", "default_float"),
    }
    to = Choice((DType.INT64, DType.FLOAT32))
    keys = SOME
    values = Choice(by=lambda draw, op, *_: tuple(draw.integer(-9, 9) for _ in op.keys))
    default = Choice((-1, 0, 4))

    def torch(self, x):
        y = torch.full(x.shape, self.default, dtype=self.to.torch)
        for key, value in zip(self.keys, self.values):
            y = torch.where(x == key, torch.tensor(value, dtype=y.dtype), y)
        return y

    proxy = staticmethod(itself)

    def value_range(self, x):
        found = (self.default, *self.values)
        return min(found), max(found)

    def onnx(self, emit, x):
        kind = int if self.to is DType.INT64 else float
        values = tuple(map(kind, self.values)), kind(self.default)
        return emit(self.name, x, keys_int64s=self.keys, **dict(zip(self.stored[self.to], values)))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        values, default = (fields[name] for name in cls.stored[gives[0].dtype])
        return cls(to=gives[0].dtype, keys=fields["keys_int64s"], values=values, default=default)


@ml
class OneHotEncoder(OpSpec):
    """1 at the position of the category that an integer is, 0 elsewhere, along a further axis.

    Source: ai.onnx.ml.OneHotEncoder-1, with cats_int64s and zeros = 1.
    """

    inputs = (In("I", (DType.INT64, DType.INT32), (1, 3)),)
    output = DType.FLOAT32
    within = (0.0, 1.0)
    categories = SOME

    def requires(self, x):
        # Of a category that a model of others lists twice, runtimes set the last place alone.
        yield len(set(self.categories)) == len(self.categories)

    def type_transfer(self, x):
        return [TensorType(DType.FLOAT32, (*x.shape, len(self.categories)))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return output_rank - 1 if 2 <= output_rank <= 4 else None

    def infer_input_types(self, draw, first, dtypes, output):
        return [TensorType(dtypes[0], output.shape[:-1])]

    def torch(self, x):
        return (x.unsqueeze(-1) == torch.tensor(self.categories)).float()

    def proxy(self, x):
        return x.unsqueeze(-1).expand(*x.shape, len(self.categories))

    def onnx(self, emit, x):
        return emit(self.name, x, cats_int64s=self.categories, zeros=1)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        return cls(categories=fields["cats_int64s"])


NUMBERS = (DType.FLOAT32, DType.INT64, DType.INT32)
"""Without float64, of which results would be float32 as well."""
MATRIX = In("T", NUMBERS, (2, 2))


def per_feature(*options):
    """An attribute that has one number, or one for each of up to four features."""

    def draw_numbers(draw, op, *_):
        count = draw.choice((1, 1, 2, 3, 4))
        return tuple(draw.choice(options) for _ in range(count))

    return Choice(by=draw_numbers)


def fits(numbers, x):
    """Whether numbers are one for all features or one for each."""
    return len(numbers) == 1 or x.shape[-1] == len(numbers)


def as_floats(x):
    """A tensor in the dtype that results have: float32, or float64 for the reference in it."""
    return x if x.dtype is torch.float64 else x.float()


class Feature(OpSpec):
    """Base: float32 of the shape of the input."""

    output = DType.FLOAT32
    inputs = (MATRIX,)


@ml
class Scaler(Feature):
    """(x - offset) * scale. Source: ai.onnx.ml.Scaler-1."""

    offset = per_feature(0.0, 0.5, -1.25, 3.0)
    scale = Choice(
        by=lambda draw, op, *_: tuple(draw.choice((1.0, 0.5, -2.0, 0.125)) for _ in op.offset)
    )

    def requires(self, x):
        yield fits(self.offset, x)

    def torch(self, x):
        y = as_floats(x)
        offset, scale = (torch.tensor(v, dtype=y.dtype) for v in (self.offset, self.scale))
        return (y - offset) * scale

    def interval(self, x):
        ends = [self.torch(x.lo), self.torch(x.hi)]
        return [Interval(torch.minimum(*ends), torch.maximum(*ends), x.any)]

    def radius(self, u, y, x):
        """The conversion of an integer, the difference, and the product; a kernel may add a product
        instead."""
        size = as_floats(x).abs() + max(map(abs, self.offset))
        return 4 * max(u, 2**-24) * size * max(map(abs, self.scale))

    def domain(self, x):
        return [as_floats(x).abs() - 2.0**100] if x.is_floating_point() else []


@ml
class Normalizer(Feature):
    """The rows of x divided by their maximum, sum, or Euclidean norm.

    The documentation has no absolute values in the first two, where some runtimes take them: rows
    with negative elements are not compared there.
    Source: ai.onnx.ml.Normalizer-1.
    """

    inputs = (In("T", NUMBERS, (1, 2)),)
    norm = Choice(("MAX", "L1", "L2"))

    def torch(self, x):
        y = as_floats(x)
        return y / self._norm(y)

    def domain(self, x):
        y = as_floats(x)
        far = [y.abs() - 2.0**15]
        return [*far, 2.0**-8 - (y if self.norm != "L2" else y.abs())]

    def undefined(self, x):
        return None if self.norm == "L2" else (x.lo < 0).any(-1, keepdim=True)

    def radius(self, u, y, x):
        return max(u, 2**-24) * (x.shape[-1] + 8) * y.abs()

    def interval(self, x):
        """The norm grows with the absolute value of each element, which is not 0 inside."""
        size = [as_floats(e).abs() for e in (x.lo, x.hi)]
        low, high = torch.minimum(*size), torch.maximum(*size)
        over = (x.lo <= 0) & (x.hi >= 0)
        norms = Interval(self._norm(torch.where(over, 0.0, low)), self._norm(high))
        mask = x.mask().any(-1, keepdim=True) | (norms.lo <= 0)
        wide = Interval(as_floats(x.lo), as_floats(x.hi))
        near = Interval(norms.lo.clamp(min=1e-30), norms.hi)
        return [corners(torch.div, wide, near).masked(mask.expand_as(x.lo))]

    def _norm(self, size):
        if self.norm == "MAX":
            return size.amax(-1, keepdim=True)
        if self.norm == "L1":
            return size.sum(-1, keepdim=True)
        return size.square().sum(-1, keepdim=True).sqrt()


@ml
class Binarizer(Increasing):
    """1 where x is greater than a threshold, else 0. Source: ai.onnx.ml.Binarizer-1."""

    takes_empty = False
    inputs = (In("T", (DType.FLOAT32,)),)
    threshold = Choice((0.0, 0.0, 0.5, -1.25, 2.0))
    within = (0, 1)
    carries_nan = False  # the documentation does not say what NaN becomes

    def torch(self, x):
        return (x > self.threshold).to(x.dtype)

    proxy = staticmethod(itself)

    def margins(self, x):
        return [(x - self.threshold).abs()] if x.is_floating_point() else []

    def value_range(self, *ranges):
        return 0, 1


@ml
class Imputer(OpSpec):
    """x, with a value in place of another, one for all features or one for each.

    Source: ai.onnx.ml.Imputer-1.
    """

    inputs = (In("T", (DType.FLOAT32, DType.INT64), (2, 2)),)
    stored: ClassVar = {
        DType.FLOAT32: ("replaced_value_float", "imputed_value_floats"),
        DType.INT64: ("replaced_value_int64", "imputed_value_int64s"),
    }
    replaced = Choice((0, 0, 1, -2))
    imputed = per_feature(0, 1, -3, 7)

    def requires(self, x):
        yield fits(self.imputed, x)

    def torch(self, x):
        return torch.where(x == self.replaced, torch.tensor(self.imputed, dtype=x.dtype), x)

    proxy = staticmethod(itself)

    def margins(self, x):
        """Elements are equal to the value, or clearly differ from it."""
        if not x.is_floating_point():
            return []
        away = (x - self.replaced).abs()
        return [torch.where(away == 0, 1.0, away)]

    def interval(self, x):
        sure = x.lo == x.hi
        hit = (x.lo <= self.replaced) & (x.hi >= self.replaced)
        other = torch.tensor(self.imputed, dtype=x.lo.dtype).expand_as(x.lo)
        lo = torch.where(hit, torch.where(sure, other, torch.minimum(x.lo, other)), x.lo)
        hi = torch.where(hit, torch.where(sure, other, torch.maximum(x.hi, other)), x.hi)
        return [Interval(lo, hi, x.any)]

    def value_range(self, x):
        return min(x[0], *self.imputed), max(x[1], *self.imputed)

    def onnx(self, emit, x):
        dtype = emit.type(x).dtype
        kind = int if dtype.is_int else float
        values = kind(self.replaced), tuple(map(kind, self.imputed))
        return emit(self.name, x, **dict(zip(self.stored[dtype], values)))

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        replaced, imputed = cls.stored[takes[0].dtype]
        return cls(replaced=fields.get(replaced) or 0, imputed=fields[imputed])


@ml
class ArrayFeatureExtractor(Indexed):
    """The features at some positions; a vector is a matrix of one row.

    Source: ai.onnx.ml.ArrayFeatureExtractor-1.
    """

    copies = picks = True
    inputs = (
        In("T", (*NUMBERS, DType.FLOAT64), (1, 3)),
        In("I", (DType.INT64,), (0, 2), index=True),
    )

    def type_transfer(self, x, at):
        return [x.with_shape((*(x.shape[:-1] or (1,)), at.numel))]

    def infer_input_types(self, draw, first, dtypes, output):
        return tensor_types(dtypes, (*output.shape[:-1], first.shape[-1]), output.shape[-1:])

    def integer_range(self, x, at):
        return None, (0, x.shape[-1] - 1)

    def torch(self, x, at):
        y = x[..., at.long().flatten()]
        return y if y.dim() > 1 else y.unsqueeze(0)


@ml
class FeatureVectorizer(Feature):
    """Features of several matrices beside each other. Source: ai.onnx.ml.FeatureVectorizer-1."""

    variadic = (1, 3)

    def requires(self, *xs):
        yield from (x.shape[0] == xs[0].shape[0] for x in xs[1:])

    def type_transfer(self, *xs):
        return [TensorType(DType.FLOAT32, (xs[0].shape[0], sum(x.shape[1] for x in xs)))]

    def complete(self, draw, first, dtypes):
        rest = [TensorType(d, (first.shape[0], draw.dim(2))) for d in dtypes[1:]]
        return [first, *rest]

    def infer_input_types(self, draw, first, dtypes, output):
        if len(dtypes) == 1:
            return [TensorType(dtypes[0], output.shape)]
        return [TensorType(d, (output.shape[0], draw.dim(2))) for d in dtypes]

    def torch(self, *xs):
        return torch.cat([as_floats(x) for x in xs], 1)

    def value_range(self, *ranges):
        return min(r[0] for r in ranges), max(r[1] for r in ranges)

    def interval(self, *xs):
        lo, hi = (self.torch(*(getattr(x, e) for x in xs)) for e in ("lo", "hi"))
        mask = torch.cat([x.mask() for x in xs], 1)
        return [Interval(lo, hi, mask)]

    def radius(self, u, y, *xs):
        """Integers and float64 are rounded to float32."""
        return 2**-24 * y.abs()

    def onnx(self, emit, *values):
        sizes = tuple(emit.type(v).shape[1] for v in values)
        return emit(self.name, *values, inputdimensions=sizes)


def integers(version, result="integers"):
    """The waiver of onnx.reference for integers, which have results of another type there.

    version: of the operator, as in "Scaler-1".
    """
    return reference(
        f"makes {result} of integers",
        f'{version}: Y is "tensor(float)"',
        where=lambda op, x, *_: x.dtype.is_int,
    )


WAIVERS = {
    Scaler.name: (integers("Scaler-1"),),
    Normalizer.name: (integers("Normalizer-1", "float64"),),
    FeatureVectorizer.name: (integers("FeatureVectorizer-1"),),
}
