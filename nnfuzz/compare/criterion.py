"""A user's tolerance beside the envelope: the largest allowed distance of an output from the
reference."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.ir.dtypes import plain

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

_PART = re.compile(r"(rtol|atol|ulp)=([\d.]+(?:[eE][+-]?\d+)?)")


class CriterionError(ValueError):
    """A text that is not a tolerance; the message shows the syntax."""


@dataclass(frozen=True)
class Criterion:
    """A tolerance: |actual - reference| <= atol + rtol |reference|, or <= `ulp` units in the last
    place of the output's dtype at the reference."""

    rtol: float = 0.0
    atol: float = 0.0
    ulp: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """ "rtol=1e-3,atol=1e-5" or "ulp=4". Raises: CriterionError."""
        matches = [_PART.fullmatch(part.strip()) for part in text.split(",")]
        parts = {match[1]: float(match[2]) for match in matches if match}
        if len(parts) != len(matches) or not all(map(math.isfinite, parts.values())):
            raise CriterionError(
                f"{text!r} is no tolerance: write rtol=1e-3,atol=1e-5, one of the two, or ulp=4"
            )
        return cls(**parts)

    def __str__(self) -> str:
        return ",".join(f"{name}={value:g}" for name, value in vars(self).items() if value)

    def beyond(self, envelope: Envelope, actual: np.ndarray) -> int:
        """The number of elements outside of the tolerance; all elements if dtype or shape differ.

        NaN is accepted where the reference is NaN, and an infinity where the reference is the same
        infinity.
        """
        wanted = envelope.ref
        if actual.shape != wanted.shape or actual.dtype != envelope.dtype.numpy:
            return max(1, wanted.size)
        given, expected = (plain(a).astype(np.float64) for a in (actual, _rounded(envelope)))
        unit = envelope.ulp if envelope.dtype.is_float else np.zeros(wanted.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            limit = np.maximum(self.atol + self.rtol * np.abs(expected), self.ulp * unit)
            within = (np.abs(given - expected) <= limit) & np.isfinite(expected)
        same = (given == expected) | (np.isnan(given) & np.isnan(expected))
        return int(np.count_nonzero(~(within | same)))

    def narrowed(self, envelope: Envelope) -> Envelope:
        """The envelope cut to the tolerance. Incomparable elements are then compared with the
        reference too."""
        expected = _rounded(envelope)
        if not envelope.dtype.is_float and not (self.rtol or self.atol):
            return replace(envelope, lo=expected, hi=expected, any=np.zeros_like(envelope.any))
        with np.errstate(invalid="ignore", over="ignore"):
            middle = plain(expected).astype(np.float64)
            unit = envelope.ulp if envelope.dtype.is_float else np.zeros(middle.shape)
            limit = np.maximum(self.atol + self.rtol * np.abs(middle), self.ulp * unit)
            # Envelope.admitted adds one unit, so it is subtracted here.
            limit = np.where(np.isfinite(middle), limit - unit, 0.0)
            lo, hi = middle - limit, middle + limit
            known = ~envelope.any & np.isfinite(envelope.lo) & np.isfinite(envelope.hi)
        lo, hi = (
            np.where(known, inner(end, own), end)
            for inner, end, own in ((np.maximum, lo, envelope.lo), (np.minimum, hi, envelope.hi))
        )
        return replace(envelope, lo=lo, hi=hi, any=np.zeros_like(envelope.any))


def _rounded(envelope: Envelope) -> np.ndarray:
    """The reference, infinite where the dtype overflows; discrete ones in the output's dtype."""
    with np.errstate(over="ignore"):
        held = envelope.ref.astype(envelope.dtype.numpy)
    return (
        np.where(np.isinf(plain(held)), plain(held), envelope.ref)
        if envelope.dtype.is_float
        else held
    )


def distance(envelope: Envelope, actual: np.ndarray) -> tuple[float, float]:
    """The largest distance of a comparable element from the reference, in units in the last place,
    and as a part of the largest element.

    The unit is that of the largest comparable element: an element's own unit says little about
    errors near 0, where terms cancel. 0 if nothing is comparable or the dtype is discrete.
    """
    compared = envelope.comparable & np.isfinite(envelope.ref) if envelope.dtype.is_float else None
    if compared is None or actual.shape != envelope.ref.shape or not compared.any():
        return 0.0, 0.0
    away = np.abs(plain(actual)[compared].astype(np.float64) - envelope.ref[compared])
    most = away.max(), max(np.abs(envelope.ref[compared]).max(), np.nextafter(0.0, 1.0))
    unit = max(envelope.ulp[compared].max(), np.nextafter(0.0, 1.0))
    return float(most[0] / unit), float(most[0] / most[1])


def looseness(envelope: Envelope) -> float:
    """The widest half of an interval of a comparable element, as a part of the largest element."""
    compared = envelope.comparable & np.isfinite(envelope.ref) if envelope.dtype.is_float else None
    if compared is None or not compared.any():
        return 0.0
    half = (envelope.hi[compared] - envelope.lo[compared]).max() / 2
    return float(half / max(np.abs(envelope.ref[compared]).max(), np.nextafter(0.0, 1.0)))
