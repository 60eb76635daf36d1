"""Operators on quantised tensors: dequantise, compute in float32, quantise again."""

from __future__ import annotations

from typing import ClassVar

import torch

from nnfuzz.ir.dtypes import INT4S, DType
from nnfuzz.ir.types import tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.families.intproduct import OUT_SCALES
from nnfuzz.operators.families.quantized import BYTES, SCALES
from nnfuzz.operators.intervals import Interval, monotone
from nnfuzz.operators.operator import In, OpSpec

from ..activation import LeakyRelu, Sigmoid
from ..arithmetic import Add, Mul
from ..join import Concat
from ..norm import Softmax
from ..pool import AveragePool, GlobalAveragePool
from ..quantize import DequantizeLinear, QuantizeLinear
from . import microsoft

PARAMETERS = (
    In("S", (DType.FLOAT32,), (0, 0), weight=True, narrow=True),
    In("T", ranks=(0, 0), weight=True),
)
"""Scale and zero point of one tensor, both of them scalars."""
WIDTHS = (*BYTES, DType.UINT16, DType.INT16, *INT4S)
"""What QuantizeLinear of the domain makes, and DequantizeLinear takes."""


class Requantising(Composite):
    """A float operator, `core`, on quantised tensors.

    Inputs are, for each input of `core`, a tensor with its scale and zero point, and then scale and
    zero point of the result.
    """

    weight = 2.0  # few values are bytes
    core: ClassVar[type[OpSpec]]
    quantises: ClassVar[type[QuantizeLinear]] = QuantizeLinear
    result_scales: ClassVar[tuple[float, float]] = OUT_SCALES
    to = Choice(lambda op, x, *_: (x.dtype,))
    """The dtype of all quantised tensors, which says how far results saturate."""

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        floats = [t.with_dtype(DType.FLOAT32) for t in takes[:-2:3]]
        return cls(**cls.core.from_onnx(fields, floats, gives).attributes, to=takes[0].dtype)

    def first(self):
        """The float operator, with the attributes that it shares with this one."""
        return self.core(**{name: getattr(self, name) for name in self.core.declared})

    def operands(self, values):
        """The inputs of `core`, still quantised."""
        return values[:-2:3]

    def _floats(self, types):
        return [t.with_dtype(DType.FLOAT32) for t in types]

    @property
    def valid(self):  # type: ignore[override]
        return (*[None, SCALES, None] * (len(self.inputs) // 3), self.result_scales, None)

    def requires(self, *inputs):
        yield from self.first().requires(*self._floats(self.operands(inputs)))
        yield inputs[0].dtype is self.to

    def type_transfer(self, *inputs):
        (y,) = self.first().type_transfer(*self._floats(self.operands(inputs)))
        return [y.with_dtype(inputs[0].dtype)]

    def complete(self, draw, first, dtypes):
        floats = [DType.FLOAT32] * len(self.operands(dtypes))
        own = self.first().complete(draw, *self._floats([first]), floats)
        return self._typed(own, dtypes)

    @classmethod
    def input_rank(cls, draw, output_rank):
        return cls.core.input_rank(draw, output_rank)

    def infer_input_types(self, draw, first, dtypes, output):
        floats = [DType.FLOAT32] * len(self.operands(dtypes))
        own = self.first().infer_input_types(
            draw, *self._floats([first]), floats, *self._floats([output])
        )
        return self._typed(own, dtypes)

    def _typed(self, own, dtypes):
        shapes = [shape for t in own for shape in (t.shape, (), ())]
        return tensor_types(dtypes, *shapes, (), ())

    def cost(self, *inputs):
        return self.first().cost(*self._floats(self.operands(inputs)))

    def compose(self, apply, *values):
        parts = [values[i : i + 3] for i in range(0, len(values) - 2, 3)]
        floats = [apply(DequantizeLinear(axis=None, typed=0), *part) for part in parts]
        y = apply(self.first(), *floats)
        back = self.quantises(axis=None, to=self.to, saturate=1, precision=None)
        return [apply(back, y, *values[-2:])]

    def value_range(self, *ranges):
        return self.to.limits

    def onnx(self, emit, *values):
        said = {n: v for n, v in self.onnx_attributes().items() if n != "to"}
        return emit(self.name, *values, **said)


QUANTISED = (In("T", BYTES), *PARAMETERS)


def of_rank(least, most):
    """The patterns of one quantised tensor of such ranks, and of its parameters."""
    return (In("T", BYTES, (least, most)), *PARAMETERS)


@microsoft
class QLinearSigmoid(Requantising):
    """Source: com.microsoft.QLinearSigmoid-1."""

    core = Sigmoid
    result_scales = (2.0**-9, 0.1)
    inputs = (*QUANTISED, *PARAMETERS)


@microsoft
class QLinearLeakyRelu(Requantising):
    """Source: com.microsoft.QLinearLeakyRelu-1."""

    core = LeakyRelu
    inputs = (*QUANTISED, *PARAMETERS)
    alpha = LeakyRelu.alpha


@microsoft
class QLinearAdd(Requantising):
    """Source: com.microsoft.QLinearAdd-1."""

    core = Add
    inputs = (*QUANTISED, *QUANTISED, *PARAMETERS)


@microsoft
class QLinearMul(Requantising):
    """Source: com.microsoft.QLinearMul-1."""

    core = Mul
    inputs = (*QUANTISED, *QUANTISED, *PARAMETERS)


class Truncating(QuantizeLinear):
    """QuantizeLinear to the nearest step or up to one below it: the documentation does not say how
    results are rounded, and ONNX Runtime divides integers."""

    def decided(self, u, x, scale, *zero):
        (near,) = super().decided(u, x, scale, *zero)
        (below,) = super().decided(u, monotone(torch.sub, (1, -1), x, scale), scale, *zero)
        return [Interval(below.lo, near.hi, near.any)]


@microsoft
class QLinearSoftmax(Requantising):
    """Softmax as opset 13 defines it. Source: com.microsoft.QLinearSoftmax-1."""

    quantises = Truncating

    core = Softmax
    result_scales = (2.0**-9, 0.1)
    inputs = (*of_rank(1, 5), *PARAMETERS)
    axis = Softmax.axis
    opset = Choice((13, 17))
    """That of the model, of which the operator knows nothing; all since 13 mean the same."""

    def requires(self, *inputs):
        yield from super().requires(*inputs)
        yield self.opset >= 13


@microsoft
class QLinearAveragePool(Requantising):
    """Source: com.microsoft.QLinearAveragePool-1."""

    core = AveragePool
    inputs = (*of_rank(3, 5), *PARAMETERS)
    kernel_shape = AveragePool.kernel_shape
    strides = AveragePool.strides
    auto_pad = AveragePool.auto_pad
    pads = AveragePool.pads
    ceil_mode = AveragePool.ceil_mode
    count_include_pad = AveragePool.count_include_pad

    def onnx_attributes(self):
        return self.first().onnx_attributes()


@microsoft
class QLinearGlobalAveragePool(Requantising):
    """Source: com.microsoft.QLinearGlobalAveragePool-1."""

    core = GlobalAveragePool
    inputs = (*of_rank(3, 5), *PARAMETERS)


@microsoft
class QLinearConcat(Requantising):
    """Concat of two tensors, each with its scale. Source: com.microsoft.QLinearConcat-1."""

    core = Concat
    inputs = (*of_rank(1, 5), *of_rank(1, 5), *PARAMETERS)
    order = (2, 3, 4, 5, 6, 7, 0, 1)
    axis = Concat.axis

    def onnx(self, emit, *values):
        return emit(self.name, *values[-2:], *values[:-2], axis=self.axis)


@microsoft
class OldQuantizeLinear(QuantizeLinear):
    """QuantizeLinear with a zero point. Source: com.microsoft.QuantizeLinear-1."""

    name = "QuantizeLinear"
    inputs = (
        In("T", (DType.FLOAT32, DType.FLOAT16)),
        In("T", ranks=(0, 1), weight=True, narrow=True),
        In("Q", WIDTHS, (0, 1), weight=True),
    )
    variadic = (3, 3)
    to = Choice(WIDTHS)
    saturate = Choice((1,))
    precision = Choice((None,))

    def onnx(self, emit, *values):
        return emit(self.name, *values, axis=self.axis)


@microsoft
class OldDequantizeLinear(DequantizeLinear):
    """DequantizeLinear with a zero point. Source: com.microsoft.DequantizeLinear-1."""

    name = "DequantizeLinear"
    inputs = (
        In("Q", WIDTHS),
        In("T", (DType.FLOAT32, DType.FLOAT16), (0, 1), weight=True, narrow=True),
        In("Q", ranks=(0, 1), weight=True),
    )
    variadic = (3, 3)
    typed = Choice((0,))

    def onnx(self, emit, *values):
        return emit(self.name, *values, axis=self.axis)
