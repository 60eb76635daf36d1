"""Groups of results that agree, those that the envelope cannot judge included."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from nnfuzz.ir.dtypes import DType, plain

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope

Key = TypeVar("Key", bound=Hashable)


def groups_that_agree(
    arrays: Mapping[Key, np.ndarray], envelope: Envelope | None = None
) -> list[list[Key]]:
    """Groups of keys of arrays that agree, the largest group first.

    Where an element is comparable, two arrays may differ by the width of the envelope. Elsewhere,
    and without an envelope, floats have to have half of the dtype's digits of the output's largest
    element in common, and discrete elements have to be equal. NaN agrees with NaN.
    """
    slack: np.ndarray | float = _half_the_digits(arrays)
    if envelope is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            least, most = (end.astype(np.float64) for end in envelope.admitted)
            width = np.nan_to_num(most - least, nan=0.0, posinf=np.inf)
        slack = np.where(envelope.any, slack, width)
    groups: list[list[Key]] = []
    for key, array in arrays.items():
        mine = next((g for g in groups if _agree(arrays[g[0]], array, slack)), None)
        if mine is None:
            groups.append([key])
        else:
            mine.append(key)
    return sorted(groups, key=len, reverse=True)


def _half_the_digits(arrays: Mapping[Key, np.ndarray]) -> float:
    wide = [_wide(array) for array in arrays.values()]
    largest = max((np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in wide), default=0.0)
    dtypes = (DType.of(array.dtype) for array in arrays.values())
    roundoff = max((dtype.unit_roundoff for dtype in dtypes if dtype.is_float), default=0.0)
    return float(np.sqrt(roundoff) * largest)


def _agree(one: np.ndarray, other: np.ndarray, slack: np.ndarray | float) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    a, b = _wide(one), _wide(other)
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(a - b) <= slack) | np.isinf(slack)
    return bool((near | (plain(one) == plain(other)) | (np.isnan(a) & np.isnan(b))).all())


def _wide(array: np.ndarray) -> np.ndarray:
    return plain(array).astype(np.float64)
