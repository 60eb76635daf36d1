"""Categories as numbers."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import In, OpSpec, operator

KEYS = (-3, -1, 0, 1, 2, 3, 5, 8)
SOME = Choice(by=lambda draw, op, *_: draw.subset(KEYS, 1, 5))


@operator
class LabelEncoder(OpSpec):
    """The value whose key an integer is, or a default.

    Source: ai.onnx.ml.LabelEncoder-2, with keys_int64s.
    """

    name = "ai.onnx.ml.LabelEncoder"
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

    def proxy(self, x):
        return x

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


@operator
class OneHotEncoder(OpSpec):
    """1 at the position of the category that an integer is, 0 elsewhere, along a further axis.

    Source: ai.onnx.ml.OneHotEncoder-1, with cats_int64s and zeros = 1.
    """

    name = "ai.onnx.ml.OneHotEncoder"
    inputs = (In("I", (DType.INT64, DType.INT32), (1, 3)),)
    output = DType.FLOAT32
    within = (0.0, 1.0)
    categories = SOME

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
