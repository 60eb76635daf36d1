"""The cheap check: do outputs agree with PyTorch's up to a few ULP? NumPy only.

It runs in a backend's worker where outputs need not be sent, and otherwise in the campaign's
process. Agreement is final (unless the test case is sampled for a full verdict); otherwise the
envelope decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np

from nnfuzz.ir.dtypes import DType


def agree(expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> bool:
    """Whether all outputs are close, and their zeros have the same signs, which matters only for
    some inputs: the caller, which knows the inputs, decides where only such signs differ.
    """
    return all(
        name in actual and close(array, actual[name]) and not other_zeros(array, actual[name])
        for name, array in expected.items()
    )


def close(expected: np.ndarray, actual: np.ndarray, ulps: float = 4) -> bool:
    """Whether two arrays agree: discrete ones bit for bit, floats to `ulps` of their dtype.

    NaN agrees with NaN, an infinity with itself.
    """
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.tobytes() == actual.tobytes():
        return True
    if not DType.of(expected.dtype).is_float:
        return False
    return bool(np.all(_agree(expected, actual, ulps)))


def other_zeros(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Whether a zero of one of two arrays that are close has another sign in the other."""
    if expected.tobytes() == actual.tobytes() or not DType.of(expected.dtype).is_float:
        return False
    zero = (expected == 0) & (actual == 0)
    return bool((zero & (np.signbit(expected) != np.signbit(actual))).any())


def beyond(params: Mapping[str, np.ndarray]) -> bool:
    """Whether some float is NaN, infinite or -0.0, so that the rules for edges apply
    (nnfuzz.compare.edges)."""
    return strange(params) or any((np.signbit(a) & (a == 0)).any() for a in _floats(params))


def strange(values: Mapping[str, np.ndarray]) -> bool:
    """Whether some float is NaN or infinite."""
    return any(not np.isfinite(a).all() for a in _floats(values))


def _floats(values: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    return (a for a in values.values() if a.size and DType.of(a.dtype).is_float)


def _agree(expected: np.ndarray, actual: np.ndarray, ulps: float) -> np.ndarray:
    info = ml_dtypes.finfo(expected.dtype)
    if expected.dtype != np.float64:
        # Differences near the greatest number overflow in the dtype itself.
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        limit = np.abs(expected) * (ulps * float(info.eps)) + ulps * float(info.smallest_subnormal)
        near = np.abs(expected - actual) <= limit
        near &= np.isfinite(expected)
        return near | (expected == actual) | (np.isnan(expected) & np.isnan(actual))
