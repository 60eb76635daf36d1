"""How much of the envelope a result uses up: the measure for calibrating radii."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.verdict import outside


def usage(expected: Envelope, actual: np.ndarray) -> float:
    """The largest deviation from the reference as a share of what the envelope admits.

    0 for an exact result, 1 at the edge, above 1 outside; infinite for a wrong discrete element,
    a NaN, or another shape or dtype. Elements that are not comparable do not count.
    """
    if actual.dtype != expected.dtype.numpy or actual.shape != expected.ref.shape:
        return np.inf
    if not expected.dtype.is_float:
        return np.inf if outside(expected, actual).any() else 0.0
    with np.errstate(all="ignore"):
        off = actual.astype(np.float64) - expected.ref
        room = np.where(off > 0, expected.hi - expected.ref, expected.ref - expected.lo)
        share = np.abs(off) / (room + expected.ulp)
    share = np.where(expected.any | (off == 0), 0.0, np.nan_to_num(share, nan=np.inf))
    return float(share.max(initial=0.0))
