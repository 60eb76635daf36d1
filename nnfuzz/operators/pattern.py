"""An operator's pattern of one input, and ranges of values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nnfuzz.ir.dtypes import ALL, DType

Range = tuple[float, float]
ANY_RANGE: Range = (-math.inf, math.inf)
ROOM = 1e-3
"""The overlap of two ranges that a search needs to hit values inside of both."""

DEEPEST = 10
"""The rank of the deepest tensors that models of others may have."""

R = TypeVar("R")


def per_input(method: Callable[..., R]) -> Callable[..., R]:
    """Marks a method of the contract that takes one argument per input of the operator.

    Overrides name the inputs, as `def torch(self, x, weight)`; type checkers admit any number.
    """
    return method


def meets(range_: Range, bounds: Range) -> bool:
    """Whether a range lies inside of bounds or overlaps with them by more than a single point."""
    (lo, hi), (least, most) = range_, bounds
    return least <= lo <= hi <= most or min(hi, most) - max(lo, least) >= ROOM


@dataclass(frozen=True)
class In:
    """Pattern of one input.

    var: name of the type variable; inputs that share it share their dtype.
    dtypes: what the variable ranges over (only the first pattern of a variable counts).
    ranks: inclusive range of the ranks that are generated.
    weight: usually a parameter of the model, so usually a fresh placeholder.
    index: its values are bounded by a shape, so always a fresh placeholder (see `integer_range`).
    narrow: few values are valid (scales of quantisation), so always a fresh placeholder as well.
    """

    var: str = "T"
    dtypes: tuple[DType, ...] = ALL
    ranks: tuple[int, int] = (0, 5)
    weight: bool = False
    index: bool = False
    narrow: bool = False

    def ranked(self, rank: int) -> bool:
        """Whether generation gives it tensors of that rank."""
        return self.ranks[0] <= rank <= self.ranks[1]

    @property
    def deepest(self) -> int:
        """The greatest rank that it admits: more than is generated where any rank goes."""
        return DEEPEST if self.ranks[0] <= 2 and self.ranks[1] >= 4 else self.ranks[1]

    @property
    def fresh(self) -> bool:
        """Whether nothing may compute it."""
        return self.index or self.narrow
