"""Linear models: a matrix of coefficients, intercepts, and what follows the scores."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import ANY_RANGE, In, OpSpec
from nnfuzz.operators.waiver import Waiver

from ..activation import Sigmoid
from ..norm import Softmax
from . import ml
from .features import as_floats

NUMBERS = (0.0, 1.0, -1.0, 0.5, -0.25, 2.0, 1.5)
TRANSFORMS = ("NONE", "NONE", "LOGISTIC", "SOFTMAX")
"""What follows the scores. SOFTMAX_ZERO and PROBIT are left out: the documentation says their names
only."""


def numbers_of(count):
    """An attribute of `count(op)` coefficients."""
    return Choice(by=lambda draw, op, *_: tuple(draw.choice(NUMBERS) for _ in range(count(op))))


class Affine(Summing):
    """(N, F) -> (N, E): x times a matrix (E, F), plus a vector."""

    exactness = ""

    def __init__(self, matrix, vector):
        self.matrix = torch.tensor(matrix, dtype=torch.float64)
        self.vector = torch.tensor(vector, dtype=torch.float64)

    def torch(self, x):
        x = as_floats(x)
        return x @ self.matrix.t().to(x.dtype) + self.vector.to(x.dtype)

    def terms(self, x):
        return x.shape[1] + 1

    def absolute(self, x):
        return Affine(self.matrix.abs().tolist(), self.vector.abs().tolist()).torch(x.abs())

    def interval(self, x):
        wide = Interval(as_floats(x.lo), as_floats(x.hi), x.any)
        moved = Affine(self.matrix.abs().tolist(), [0.0] * len(self.vector))
        return [linear(self.torch, wide, weights=(0,), absolute=moved.torch)]


def transformed(apply, scores, transform):
    """Scores behind a post_transform."""
    if transform == "LOGISTIC":
        return apply(Sigmoid(), scores)
    return apply(Softmax(axis=-1), scores) if transform == "SOFTMAX" else scores


class Label(OpSpec):
    """(N, E) -> (N,): of the labels, the one whose score is the greatest; of equal ones any."""

    def __init__(self, labels):
        self.labels = torch.tensor(labels)

    def torch(self, x):
        return self.labels[x.argmax(-1)]

    def proxy(self, x):
        return x.amax(-1)

    def margins(self, x):
        best = x.topk(2, -1).values
        return [best[..., 0] - best[..., 1]]

    def decided(self, u, x):
        possible = x.hi >= x.lo.amax(-1, keepdim=True)
        lo = torch.where(possible, self.labels, self.labels.max()).amin(-1)
        hi = torch.where(possible, self.labels, self.labels.min()).amax(-1)
        return [Interval(lo, hi, None if x.any is None else x.any.any(-1))]


class Scored(Composite):
    """Base of models that give rows of scores."""

    output: ClassVar[DType | str] = DType.FLOAT32
    targets: int
    post_transform: str

    def scores(self) -> OpSpec:
        """The step that makes rows of scores of rows of features."""
        raise NotImplementedError

    @property
    def count(self):
        """How many scores there are for each row."""
        return self.targets

    def requires(self, *inputs):
        # Models of others may have SOFTMAX_ZERO or PROBIT.
        yield self.post_transform in TRANSFORMS
        # Of one number, runtimes leave the number in place of 1.
        yield self.count > 1 or self.post_transform != "SOFTMAX"

    def value_range(self, *ranges):
        return ANY_RANGE if self.post_transform == "NONE" else (0.0, 1.0)

    def infer_input_types(self, draw, first, dtypes, output):
        return [first.with_shape((output.shape[0], first.shape[1]))]

    def type_transfer(self, x):
        return [TensorType(self.output_dtype(x), (x.shape[0], self.count))]

    def compose(self, apply, x):
        return [transformed(apply, apply(self.scores(), x), self.post_transform)]


class Classifying(Scored):
    """The label of the greatest score, and the scores."""

    output = DType.INT64
    classes: int
    labels: tuple[int, ...]

    @property
    def count(self):
        return self.classes

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 2 if output_rank == 1 else None

    def type_transfer(self, x):
        rows = x.shape[:1]
        scores = TensorType(DType.FLOAT32, (*rows, self.count))
        return [TensorType(DType.INT64, rows), scores]

    def compose(self, apply, x):
        scores = transformed(apply, apply(self.scores(), x), self.post_transform)
        return [apply(Label(self.labels), scores), scores]

    def value_range(self, *ranges):
        return min(self.labels), max(self.labels)

    def further(self, *ranges):
        return ((super().value_range(*ranges),),)


FEATURES = Choice((1, 2, 3, 5, 8))
LABELS = Choice(by=lambda draw, op, *_: tuple(draw.shuffled(range(-1, 9)))[: op.classes])
CLASSES = Choice((3, 3, 4, 6))
"""With two classes, which of several conventions a model follows is guessed from its numbers."""


class Coefficients(Scored):
    """Base of linear models: `features` inputs, coefficients row by row."""

    inputs = (In("T", (DType.FLOAT32,), (2, 2)),)
    features: int
    coefficients: tuple[float, ...]
    intercepts: tuple[float, ...]

    def requires(self, x):
        yield from super().requires(x)
        yield x.shape[1] == self.features
        yield len(self.intercepts) == self.count
        yield len(self.coefficients) == self.count * self.features

    def scores(self):
        rows = [
            self.coefficients[i * self.features : (i + 1) * self.features]
            for i in range(self.count)
        ]
        return Affine(rows, self.intercepts)


@ml
class LinearRegressor(Coefficients):
    """Source: ai.onnx.ml.LinearRegressor-1."""

    weight = 4.0  # few other nodes have matrices of so few columns
    features = FEATURES
    targets = Choice((1, 1, 2, 3))
    coefficients = numbers_of(lambda op: op.targets * op.features)
    intercepts = numbers_of(lambda op: op.targets)
    post_transform = Choice(lambda op, *_: TRANSFORMS if op.targets > 1 else TRANSFORMS[:3])

    def onnx(self, emit, x):
        written = {n: v for n, v in self.attributes.items() if n != "features"}
        return emit(self.name, x, **written)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        targets = fields["targets"] or 1
        intercepts = fields.get("intercepts") or (0.0,) * targets
        known = {n: fields[n] for n in ("coefficients", "post_transform")}
        return cls(features=takes[0].shape[1], targets=targets, intercepts=intercepts, **known)


@ml
class LinearClassifier(Coefficients, Classifying):
    """Source: ai.onnx.ml.LinearClassifier-1, with at least three classes that are integers."""

    weight = 4.0  # few other nodes have matrices of so few columns
    inputs = (In("T", (DType.FLOAT32, DType.INT64, DType.INT32), (2, 2)),)
    features = FEATURES
    classes = CLASSES
    labels = LABELS
    coefficients = numbers_of(lambda op: op.classes * op.features)
    intercepts = numbers_of(lambda op: op.classes)
    post_transform = Choice(TRANSFORMS)

    def onnx(self, emit, x):
        names = ("coefficients", "intercepts", "post_transform")
        written = {name: getattr(self, name) for name in names}
        return emit(self.name, x, outputs=2, classlabels_ints=self.labels, **written)

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        labels = fields["classlabels_ints"]
        known = {n: fields[n] for n in ("coefficients", "intercepts", "post_transform")}
        return cls(features=takes[0].shape[1], classes=len(labels), labels=labels, **known)


NOT_APPLIED = Waiver(
    "onnxruntime",
    "ignores LOGISTIC for a single target (onnxruntime 1.31)",
    'LinearRegressor-1, TreeEnsembleRegressor-3: post_transform "indicates the transform to apply '
    'to the regression output vector", "to the score"',
    where=lambda op, *_: op.targets == 1 and op.post_transform == "LOGISTIC",
)
WAIVERS = {LinearRegressor.name: (NOT_APPLIED,)}
