"""Activations, alone and behind the sum with a bias."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.operator import In, OpSpec

from ..activation import Gelu
from ..arithmetic import Add
from ..gates import Swish
from . import microsoft


@microsoft
class PlainGelu(Gelu):
    """x * Phi(x). Source: com.microsoft.Gelu-1."""

    name = "Gelu"
    approximate = Choice(("none",))

    def onnx(self, emit, x):
        return emit(self.name, x)


@microsoft
class QuickGelu(Swish):
    """x * sigmoid(alpha x). Source: com.microsoft.QuickGelu-1."""

    alpha = Choice((1.702, 1.702, 1.0, 0.5, 2.0))

    def onnx(self, emit, x):
        return emit(self.name, x, alpha=self.alpha)


class Biased(Composite):
    """A function of the sum of a tensor and a vector along its last axis."""

    inputs = (In("T", FLOATS, (1, 5)), In("T", ranks=(1, 1), weight=True))
    function: OpSpec
    """The operator that is applied to the sum."""

    def requires(self, x, *bias):
        yield from (b.shape[0] == x.shape[-1] for b in bias)

    def complete(self, draw, first, dtypes):
        return [first, *(TensorType(d, first.shape[-1:]) for d in dtypes[1:])]

    def compose(self, apply, x, *bias):
        return [apply(self.function, apply(Add(), x, *bias) if bias else x)]

    def value_range(self, x, *bias):
        return self.function.value_range(Add().value_range(x, *bias) if bias else x)


@microsoft
class BiasGelu(Biased):
    """Gelu(a + b). Source: com.microsoft.BiasGelu-1."""

    function = Gelu(approximate="none")


class Rounded(Gelu):
    """Gelu by a tanh whose two constants are rounded to six digits, as the documentation has them,
    or not."""

    def radius(self, u, y, x):
        size = x.abs()
        line, cube = math.sqrt(2 / math.pi) * size, math.sqrt(2 / math.pi) * 0.044715 * size**3
        slope = 1 / torch.cosh((line + cube).clamp(max=300)).square()
        return super().radius(u, y, x) + size / 2 * slope * (6e-7 * line + 1.2e-5 * cube)


@microsoft
class FastGelu(Biased):
    """Gelu by a tanh, of the sum with a bias if there is one. Source: com.microsoft.FastGelu-1."""

    variadic = (1, 2)

    function = Rounded(approximate="tanh")
