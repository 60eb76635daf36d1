"""Random choices of generation and fresh integer variables, from one seeded source."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType

T = TypeVar("T")


@dataclass(frozen=True)
class Sizes:
    """Limits that keep graphs affordable.

    max_dim: largest dimension by rank (index 0 is unused: rank 0 has no dimensions).
    max_numel: elements of one tensor. max_flops: of one operator. max_total: elements of all
    values of a graph; 0 for no limit. least_first: elements that the tensor has at least which a
    graph begins with, where its rank admits it. powers: probability that a size which is drawn at
    once is a power of two or next to one. again: probability that it is one of the last few sizes,
    where that is admitted: an axis that is taken for another one shows only where both fit. empty:
    probability that a fresh dimension is 0.
    """

    max_dim: tuple[int, ...] = (1, 512, 96, 48, 32, 12, 8)
    max_numel: int = 1 << 16
    max_flops: int = 1 << 24
    max_total: int = 0
    least_first: int = 0
    powers: float = 0.0
    again: float = 0.0
    empty: float = 0.0

    def dim(self, rank: int) -> int:
        """The largest dimension of a tensor of that rank."""
        return self.max_dim[min(rank, len(self.max_dim) - 1)]


class NoOptionError(IndexError):
    """There is nothing to choose from: an operator does not take operands of these types."""


@dataclass
class Draw:
    """Random choices for one test case; the same `rng` state gives the same choices.

    `kinds` maps each variable to its kind of attribute binning (see `Sym.kind`).
    """

    rng: random.Random
    sizes: Sizes = field(default_factory=Sizes)
    kinds: dict[Var, str] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """Raises: NoOptionError when there is no option."""
        if not options:
            raise NoOptionError
        return options[int(self.rng.random() * len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """A copy of the items in random order."""
        result = list(items)
        self.rng.shuffle(result)
        return result

    def subset(self, items: Sequence[T], least: int = 0, most: int | None = None) -> tuple[T, ...]:
        """Between `least` and `most` of the items, in their order."""
        size = self.integer(least, len(items) if most is None else min(most, len(items)))
        picked = self.rng.sample(range(len(items)), size)
        return tuple(items[i] for i in sorted(picked))

    def integer(self, lo: int, hi: int) -> int:
        """Uniform over `[lo, hi]`, both ends included."""
        return lo + int(self.rng.random() * (hi - lo + 1))

    def real(self, lo: float, hi: float) -> float:
        """Uniform over `[lo, hi]`."""
        return self.rng.uniform(lo, hi)

    def var(self, name: str, lo: int, hi: int, kind: str = "size") -> Var | int:
        """A fresh variable over `[lo, hi]`; a plain int where that leaves one value."""
        if lo == hi:
            return lo
        var = Var(f"{name}_{len(self.kinds)}", lo, hi)
        self.kinds[var] = kind
        return var

    def dim(self, rank: int) -> Var | int:
        """A fresh dimension of a tensor of that rank."""
        if self.sizes.empty and self.chance(self.sizes.empty):
            return 0
        return self.var("d", 1, self.sizes.dim(rank))

    def tensor(self, dtype: DType, rank: int) -> TensorType:
        """A tensor type whose dimensions are all fresh."""
        if self.sizes.empty:
            return TensorType(dtype, tuple([self.dim(rank) for _ in range(rank)]))
        most = self.sizes.dim(rank)
        return TensorType(dtype, tuple([self.var("d", 1, most) for _ in range(rank)]))

    def binned(self, lo: int, hi: int, kind: str = "size", bins: int = 7) -> tuple[int, int]:
        """A random bin within `[lo, hi]`: exponential, k of them (NNSmith, Algorithm 2).

        "size": bins [2^i, 2^(i+1)) above `lo`. "offset": zero half of the time, else exponential
        to a random side.
        """
        if kind == "offset" and lo <= 0 <= hi:
            if self.chance(0.5):
                return 0, 0
            if (self.chance(0.5) and lo < 0) or hi == 0:
                left, right = self.binned(1, -lo, "size", bins)
                return -right, -left
            return self.binned(1, hi, "size", bins)
        last = min(bins, (hi - lo + 1).bit_length()) - 1
        i = self.integer(0, last)
        return lo + (1 << i) - 1, hi if i == last else lo + (2 << i) - 2

    def power(self, lo: int, hi: int) -> int:
        """A power of two of `[lo, hi]` or a number next to one; an end where there is none."""
        found = (1 << self.integer(0, hi.bit_length())) + self.integer(-1, 1)
        return min(max(lo, found), hi)

    def value(self, lo: int, hi: int, kind: str = "size") -> int:
        """A value from a random bin of `[lo, hi]`."""
        return self.integer(*self.binned(lo, hi, kind))
