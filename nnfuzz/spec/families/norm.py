"""Normalisations: Softmax and its kin, and operators with learnt scale and shift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.ir.dtypes import FLOATS
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.families.axes import AXIS
from nnfuzz.spec.families.elementwise import Unary
from nnfuzz.spec.operator import In, OpSpec

if TYPE_CHECKING:
    from torch import Tensor


class AlongAxis(Unary):
    """One tensor in, one of the same shape out; elements mix along one axis."""

    inputs = (In("T", FLOATS, (1, 5)),)
    axis = AXIS

    def requires(self, *inputs):
        yield -inputs[0].rank <= self.axis < inputs[0].rank

    def cost(self, *inputs):
        return 8 * inputs[0].numel


class Normalization(OpSpec):
    """Scale and shift behind a division by sqrt(variance + epsilon).

    `epsilon` is stored in float32 by ONNX, so `eps` is what every implementation sees.
    """

    epsilon = Choice((1e-5, 1e-3, 1e-2, 0.1))

    @property
    def eps(self) -> float:
        """The epsilon of the model, rounded to float32."""
        return float(np.float32(self.epsilon))

    def cost(self, *inputs):
        return 8 * inputs[0].numel


def centred(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """(x - mean(x)) and sqrt(variance(x) + eps), statistics over `axes`, kept as size 1."""
    d = x - x.mean(axes, keepdim=True)
    return d, ((d * d).mean(axes, keepdim=True) + eps).sqrt()


def centred_radius(
    u: float, x: Tensor, axes: tuple[int, ...], eps: float, scale: Tensor | float
) -> Tensor:
    """Rounding error of scale * (x - mean) / sqrt(variance + eps), variance in one pass or two.

    With k terms, m = max |x| and s the divisor: the numerator is off by (k + 2) u m; the variance,
    computed as mean(x^2) - mean(x)^2 at worst, by 4 (k + 2) u m^2, and its root by that over 2 s
    (by the root of it at most).
    """
    import torch

    count = 1
    for axis in axes:
        count *= x.shape[axis]
    g = (count + 2) * u
    m = x.abs().amax(axes, keepdim=True)
    d, s = centred(x, axes, eps)
    off = 4 * g * m * m
    least = (s * s - off).clamp(min=eps * 0.5).sqrt()
    root = torch.minimum(off / (s + least), off.sqrt())
    return abs(scale) * (g * m / least + d.abs() * (root / (s * least) + 8 * u / s))
