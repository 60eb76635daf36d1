"""Gated activations (Swish, Mish, Gelu): x for large x, 0 for very negative x, a dip between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nnfuzz.operators.families.elementwise import Unary, leaking, value_at
from nnfuzz.operators.intervals import Interval, unimodal
from nnfuzz.operators.operator import Range
from nnfuzz.operators.unexportable import SCALAR_DOUBLES


class Gated(Unary):
    """Like x for large x, 0 for very negative ones, with a dip in between."""

    unexportable = (SCALAR_DOUBLES,)
    sharp = False
    least: Any = (0.0, 0.0)
    """Place and value of the function's minimum (to 0.1 %)."""

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [unimodal(self.torch, *intervals, *self.least)]  # type: ignore[arg-type]

    def proxy(self, *tensors: Tensor) -> Tensor:
        return leaking(*tensors)

    def value_range(self, *ranges: Range) -> Range:
        """Bounds of a function that falls until its least point and grows from there."""
        ((lo, hi),) = ranges
        at, least = self.least
        ends = [value_at(self, float(end)) for end in (lo, hi)]
        ends = [0.0 if math.isnan(y) else y for y in ends]  # at minus infinity
        return (1.001 * least if lo < at < hi else min(ends)), max(ends)
