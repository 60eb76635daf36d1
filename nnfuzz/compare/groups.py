"""Who agrees with whom: targets whose outputs are the same but for rounding."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from nnfuzz.compare.envelope import Envelope
from nnfuzz.ir.dtypes import plain

Key = TypeVar("Key", bound=Hashable)


def grouped(arrays: Mapping[Key, np.ndarray], envelope: Envelope) -> list[list[Key]]:
    """The keys of arrays that agree, the largest group first.

    Where an element is comparable, two arrays may differ by the width of the envelope. Elsewhere
    nobody knows how far rounding goes, and they have to have half of the dtype's digits of the
    output's largest element in common; NaN agrees with NaN. Discrete elements have to be equal.
    """
    slack = _slack(arrays, envelope)
    found: list[list[Key]] = []
    for key, array in arrays.items():
        mine = next((g for g in found if _agree(arrays[g[0]], array, slack)), None)
        if mine is None:
            found.append([key])
        else:
            mine.append(key)
    return sorted(found, key=len, reverse=True)


def _slack(arrays: Mapping[Key, np.ndarray], envelope: Envelope) -> np.ndarray:
    """By how much two arrays may differ, per element."""
    if not envelope.dtype.is_float:
        return np.zeros(envelope.ref.shape)
    finite = [a[np.isfinite(a)] for a in (plain(a).astype(np.float64) for a in arrays.values())]
    largest = max((float(np.abs(a).max()) for a in finite if a.size), default=0.0)
    unknown = np.sqrt(envelope.dtype.unit_roundoff) * largest
    with np.errstate(invalid="ignore", over="ignore"):
        least, most = envelope.admitted
        width = np.nan_to_num(most - least, nan=0.0, posinf=unknown)
    return np.where(envelope.comparable, width, unknown)


def _agree(one: np.ndarray, other: np.ndarray, slack: np.ndarray) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.shape != slack.shape:
        return one.dtype == other.dtype and one.shape == other.shape and bool((one == other).all())
    a, b = (plain(x).astype(np.float64) for x in (one, other))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - b) <= slack
    return bool((near | (plain(one) == plain(other)) | (np.isnan(a) & np.isnan(b))).all())
