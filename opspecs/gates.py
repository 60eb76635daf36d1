"""Activation functions that gate a number by a smooth function of itself."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.elementwise import (
    Binary,
    Gated,
    largest,
    products,
    single,
    too_large,
)
from nnfuzz.operators.intervals import corners
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import SINGLE, underflow
from nnfuzz.operators.unexportable import SCALAR_DOUBLE

from .activation import ABSOLUTE, Sigmoid, Softplus, Tanh

LEAST_SWISH = (-1.278464542761074, -0.2784645427610738)
LEAST_MISH = (-1.1924312, -0.3088434131)
"""Place and value of the minimum of each function."""


class Sigmoidal(Gated):
    """x sigmoid(alpha x)."""

    alpha = Choice((1.0, 1.0, 1.702, 0.5, 2.0))

    @property
    def least(self):
        return tuple(v / single(self.alpha) for v in LEAST_SWISH)

    def torch(self, x):
        return x * torch.sigmoid(x if self.alpha == 1 else x * single(self.alpha))

    def onnx(self, emit, x):
        if emit.opset >= 24:
            return emit("Swish", x, alpha=self.alpha)
        inner = x
        if self.alpha != 1:
            inner = emit("Mul", x, emit.const(single(self.alpha), emit.type(x).dtype))
        return emit("Mul", x, emit("Sigmoid", inner))

    def domain(self, x):
        return [x.abs() - largest(x) / 4]

    def radius(self, u, y, x):
        """Errors of the product alpha x of two rounded numbers, of its sigmoid, and of the product
        with x."""
        if u == SINGLE:
            return u * (7 * y.abs() + 1.25 * ABSOLUTE * x.abs())
        inner = x * single(self.alpha)
        share = torch.sigmoid(inner)
        off = Sigmoid().radius(u, share, inner)
        if self.alpha != 1:
            off = off + 2 * u * inner.abs() * share * (1 - share)
        return x.abs() * off + u * y.abs()


@operator
class Swish(Sigmoidal):
    """One ONNX operator from opset 24 on, two or three below. Source: ONNX Swish-24."""


@operator
class SwiGLU(Binary):
    """Swish of one tensor times another tensor.

    An ONNX operator for tensors of equal shape from opset 28 on; otherwise a composition that
    broadcasts. Source: ONNX SwiGLU-28.
    """

    unexportable = (SCALAR_DOUBLE,)
    inputs = (In("T", FLOATS), In("T"))
    alpha = Sigmoidal.alpha

    @property
    def _gate(self):
        return Swish(alpha=self.alpha)

    def torch(self, a, b):
        return self._gate.torch(a) * b

    def proxy(self, a, b):
        return self._gate.proxy(a) * b

    def onnx(self, emit, a, b):
        if emit.opset >= 28 and emit.type(a).shape == emit.type(b).shape:
            return emit("SwiGLU", a, b, alpha=self.alpha)
        return emit("Mul", self._gate.onnx(emit, a), b)

    def interval(self, a, b):
        (gate,) = self._gate.interval(a)
        return [corners(torch.mul, gate, b)]

    def domain(self, a, b):
        return [*self._gate.domain(a), *too_large(a * b)]

    def value_range(self, a, b):
        return products(self._gate.value_range(a), b)

    def radius(self, u, y, a, b):
        gate = self._gate.radius(u, self._gate.torch(a), a) + underflow(u)
        return gate * b.abs() + u * y.abs()


@operator
class Mish(Gated):
    """x tanh(softplus(x)) for any x. Source: ONNX Mish-18."""

    least = LEAST_MISH
    torch = staticmethod(F.mish)

    def onnx(self, emit, x):
        if emit.opset >= 18:
            return emit("Mish", x)
        return emit("Mul", x, emit("Tanh", emit("Softplus", x)))

    def radius(self, u, y, x):
        inner = F.softplus(x)
        slope = 1 / torch.cosh(inner.clamp(max=300)).square()
        off = Tanh().radius(u, inner.tanh(), inner) + slope * Softplus().radius(u, inner, x)
        return x.abs() * off + u * y.abs()
