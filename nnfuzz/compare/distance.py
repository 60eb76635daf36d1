"""How far an output is from the reference, and how far a right one may be."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.envelope import Envelope
from nnfuzz.ir.dtypes import plain


def distance(envelope: Envelope, actual: np.ndarray) -> tuple[float, float]:
    """The largest distance of a comparable element from the reference, in units in the last place,
    and as a part of the largest element.

    The unit is that of the largest comparable element: an element's own unit says little about
    errors near 0, where terms cancel. 0 if nothing is comparable or the dtype is discrete.
    """
    compared = _compared(envelope)
    if actual.shape != envelope.ref.shape or not compared.any():
        return 0.0, 0.0
    away = np.abs(plain(actual)[compared].astype(np.float64) - envelope.ref[compared])
    most = away.max(), max(np.abs(envelope.ref[compared]).max(), np.nextafter(0.0, 1.0))
    unit = max(envelope.ulp[compared].max(), np.nextafter(0.0, 1.0))
    return float(most[0] / unit), float(most[0] / most[1])


def _compared(envelope: Envelope) -> np.ndarray:
    """Mask of the comparable finite elements; all False if the dtype is discrete."""
    return envelope.comparable & np.isfinite(envelope.ref) & envelope.dtype.is_float


LOOSE = 0.1
"""An element is compared loosely if a result may be right that differs from it by more than this
part of the largest element."""


def looseness(envelope: Envelope) -> float:
    """The share of the comparable elements that are compared loosely."""
    compared = _compared(envelope)
    if not compared.any():
        return 0.0
    room = (envelope.hi[compared] - envelope.lo[compared]) / 2
    return float((room > LOOSE * np.abs(envelope.ref[compared]).max()).mean())
