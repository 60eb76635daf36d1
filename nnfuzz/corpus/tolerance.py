"""Tolerances for those who compare with the expected outputs alone: as wide as the envelope.

A correct compiler's last digits pass, a wrong value does not. The form is that of NumPy's allclose
and of ONNX's test runner: |actual - expected| <= atol + rtol |expected|.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.ir.dtypes import plain

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

QUANTILES = np.linspace(0.0, 1.0, 9)
"""Of the relative radii: the values of rtol that are tried."""
SLACK = 1 + 2**-6
"""Consumers compute the difference and the bound in the outputs' dtype, which rounds: bfloat16, the
least precise one that NumPy compares so, by 2^-8 in each of four operations."""
SMALLEST = 1e-300
"""Step of tolerances: float64 has smaller numbers, but none with three digits to be counted up."""
UNDECIDED, BLUNT = "undecided", "blunt"


@dataclass(frozen=True)
class Tolerance:
    """What a correct compiler may be away from an expected output; 0 for discrete ones."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, eq=False)
class Radii:
    """The elements of an output that are numbers, flat, in float64.

    size: |expected|. radius: how far away a correct compiler may be. unit: the distance that a
    tolerance should not exceed; of discrete elements, whose radius is 0, half of their distance.
    """

    size: np.ndarray
    radius: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, envelope: Envelope, expected: np.ndarray) -> Radii:
        value = plain(expected).astype(np.float64).ravel()
        if not envelope.dtype.is_float:
            return cls(np.abs(value), np.zeros(value.size), np.full(value.size, 0.5))
        number = np.isfinite(value)  # NaN and infinities are as expected, or they are wrong
        ends = (*envelope.admitted, envelope.ulp)
        least, most, ulp = (end.astype(np.float64).ravel()[number] for end in ends)
        value = value[number]
        radius = np.maximum(np.maximum(most - value, value - least), 0.0)
        unit = np.maximum(radius, np.maximum(ulp, np.finfo(np.float64).tiny))
        return cls(np.abs(value), radius, unit)

    @classmethod
    def together(cls, parts: Iterable[Radii]) -> Radii:
        parts = list(parts)
        return cls(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in ("size", "radius", "unit"))
        )

    def fit(self) -> Tolerance:
        """The tolerance that admits every radius and exceeds the units least on average."""
        if not self.radius.any():
            return Tolerance()
        sized = self.size > 0
        tried = np.quantile(self.radius[sized] / self.size[sized], QUANTILES) if sized.any() else []
        fits = [(r, max(0.0, float((self.radius - r * self.size).max()))) for r in (0.0, *tried)]
        rtol, atol = min(fits, key=lambda fit: self._excess(*fit))
        return Tolerance(_rounded_up(rtol * SLACK), _rounded_up(atol * SLACK))

    def _excess(self, rtol: float, atol: float) -> float:
        """Bits by which the tolerance is wider than the units, on average."""
        width = np.maximum(atol + rtol * self.size, self.unit)
        return float((np.log2(width) - np.log2(self.unit)).mean())


def why_unfit(envelopes: Mapping[str, Envelope]) -> str:
    """Why outputs tell nothing to those who compare with expected ones, or "".

    UNDECIDED: an element of which a correct compiler may make anything, as behind an overflow or a
    comparison of equal numbers. BLUNT: an output so uncertain that zeros would pass everywhere.
    """
    if not all(bool(e.comparable.all()) for e in envelopes.values()):
        return UNDECIDED
    floats = [e for e in envelopes.values() if e.dtype.is_float and e.ref.any()]
    return BLUNT if any(_takes_zeros(e) for e in floats) else ""


def _takes_zeros(envelope: Envelope) -> bool:
    least, most = envelope.admitted
    return bool(((least <= 0) & (most >= 0)).all())


def _rounded_up(value: float) -> float:
    """Three significant digits, never less."""
    if not value:
        return 0.0
    step = max(10.0 ** (math.floor(math.log10(value)) - 2), SMALLEST)
    return float(f"{math.ceil(value / step) * step:.3g}")
