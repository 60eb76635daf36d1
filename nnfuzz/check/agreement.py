"""Whether results of one operator agree, and whether its numeric claims hold on given inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from nnfuzz.check.reference_implementations import Arrays, doubled, run_torch, torch_tensors
from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType, is_floating, plain
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import OpSpec, Range

SLACK = 2.0
"""An implementation may be off by this many radii and units in the last place."""


@dataclass(frozen=True)
class Expected:
    """The results of an operator in its own dtypes, and bounds for the floats.

    los, his: bounds around a float64 run, None for discrete outputs that nothing can turn over.
    """

    native: Arrays
    los: list[np.ndarray | None]
    his: list[np.ndarray | None]

    @classmethod
    def of(cls, op: OpSpec, arrays: Sequence[np.ndarray]) -> Expected:
        """Run the operator on inputs in their own dtypes and, for floats, in float64."""
        native = run_torch(op, arrays)
        u = max((DType.of(a.dtype).unit_roundoff for a in arrays), default=0.0)
        intervals = admitted(op, doubled(arrays), [DType.of(a.dtype) for a in native], u)
        bounds = [_bounds(*pair) for pair in zip(native, intervals, strict=True)]
        return cls(native, [lo for lo, _ in bounds], [hi for _, hi in bounds])

    def contradicts(self, others: Sequence[np.ndarray]) -> str:
        """How other results differ from the expected ones; empty where they agree."""
        if len(others) != len(self.native):
            return f"{len(others)} outputs instead of {len(self.native)}"
        for i, (result, lo, hi, other) in enumerate(zip(self.native, self.los, self.his, others)):
            if other.dtype != result.dtype or other.shape != result.shape:
                mine, theirs = (f"{a.dtype}{list(a.shape)}" for a in (result, other))
                return f"output {i} is {theirs}, not {mine}"
            text = _differs(result, lo, hi, other)
            if text:
                return f"output {i}: {text}"
        return ""


def _bounds(
    result: np.ndarray, interval: Interval
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    """Bounds of an implementation's results; None for a discrete output that is certain."""
    unsure = interval.mask()
    if not is_floating(result):
        if interval.exact and not unsure.any():
            return None, None
        return interval.lo.numpy(), interval.hi.numpy()
    info = ml_dtypes.finfo(result.dtype)
    middle = (interval.lo + interval.hi) / 2
    rounding = float(info.eps) * middle.abs() + (interval.hi - interval.lo) / 2
    spread = (SLACK * rounding + float(info.smallest_normal)).masked_fill(unsure, math.inf)
    return (middle - spread).numpy(), (middle + spread).numpy()


def _differs(
    result: np.ndarray, lo: np.ndarray | None, hi: np.ndarray | None, other: np.ndarray
) -> str:
    if lo is None or hi is None:
        wrong = result != other
    else:
        wide = other.astype(np.float64)
        wrong = ~((wide >= lo) & (wide <= hi))
    if not wrong.any():
        return ""
    where = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    count = int(np.count_nonzero(wrong))
    return f"{count} of {wrong.size} elements differ, {other[where]!r} for {result[where]!r}"


def numeric_faults(op: OpSpec, arrays: Sequence[np.ndarray], expected: Expected) -> list[str]:
    """Numeric claims of a spec that do not hold on inputs within its domain, as messages.

    Finite results, `feasible`, `value_range`, `margins` without sign or NaN, and PyTorch's own
    result within the rounding error that `radius` grants.
    """
    faults = []
    for result in expected.native:
        if is_floating(result) and not np.isfinite(plain(result)).all():
            return ["the inputs lie in the domain, but the result is not finite"]
    text = expected.contradicts(expected.native)
    if text:
        faults.append(f"PyTorch leaves radius: {text}")
    ranges = [_range(a) for a in arrays]
    # Ranges do not distinguish floats from integers, which wrap around where floats are undefined.
    sampled = all(a.size for a in arrays)
    if sampled and not op.feasible(*ranges) and any(map(is_floating, arrays)):
        faults.append(f"feasible{tuple(ranges)} denies inputs that lie in the domain")
    faults += _range_faults(op, ranges, expected)
    for margin in op.margins(*torch_tensors(arrays)):
        if not bool((margin >= 0).all()):
            faults.append("a margin is negative or not a number")
    return faults


def _range(array: np.ndarray) -> Range:
    array = plain(array)
    return (array.min().item(), array.max().item()) if array.size else (0.0, 0.0)


def _range_faults(op: OpSpec, ranges: Sequence[Range], expected: Expected) -> list[str]:
    rows = list(zip(expected.native, expected.los, expected.his))
    bounds = [op.value_range(*ranges), *(b[0] for b in op.further(*ranges))]
    bounds += bounds[:1] * (len(rows) - len(bounds))
    for (lo, hi), (result, least, most) in zip(bounds, rows):
        if not lo <= hi:
            return [f"value_range{tuple(ranges)} is the empty [{lo}, {hi}]"]
        if result.size and least is not None and most is not None:
            low, high = float(most.min()), float(least.max())
        elif result.size and not _wraps(result, lo, hi):
            low, high = _range(result)
        else:
            continue
        if low < lo or high > hi:
            return [f"value_range{tuple(ranges)} = [{lo}, {hi}] excludes [{low}, {high}]"]
    least, most = expected.los[0], expected.his[0]
    if least is not None and most is not None and least.size:
        least = np.asarray(least, np.float64)  # -(-128) is no int8
        near, away = float(np.maximum(-least, most).min()), op.magnitude(*ranges)
        return [f"magnitude{tuple(ranges)} = {away} excludes {near}"] if near < away else []
    return []


def _wraps(result: np.ndarray, lo: float, hi: float) -> bool:
    """Whether a range leaves an integer dtype, so that wrap-around may land anywhere."""
    least, most = DType.of(result.dtype).limits
    return lo < least or hi > most or math.isnan(lo)
