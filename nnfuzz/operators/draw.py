"""Random choices and fresh integer variables for generation, from one seeded source."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Var
from nnfuzz.ir.types import TensorType

T = TypeVar("T")
BLOCKS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Sizes:
    """Limits that keep graphs affordable, and probabilities of sizes.

    max_dim: largest dimension by rank (index 0 is unused: rank 0 has no dimensions). max_numel:
    most elements of one tensor. max_flops: most operations of one operator. max_total: most
    elements of all values of a graph together; 0: no limit. least_first: least elements of the
    first tensor of a graph, if its rank admits so many.
    powers: probability that the direct engine draws a power of two or a neighbour of one. blocks:
    probability that it draws one of BLOCKS, in which kernels compute and deployed models are.
    again: probability that it repeats one of the last few sizes (a compiler that confuses two axes
    is caught only if both sizes are valid). empty: probability that a fresh dimension is 0. ranks:
    those that values may have; none named: all.
    """

    max_dim: tuple[int, ...] = (1, 512, 96, 48, 32, 12, 8)
    max_numel: int = 1 << 16
    max_flops: int = 1 << 24
    max_total: int = 0
    least_first: int = 0
    powers: float = 0.0
    blocks: float = 0.0
    again: float = 0.0
    empty: float = 0.0
    ranks: tuple[int, ...] = ()

    def dim(self, rank: int) -> int:
        """The largest dimension of a tensor of that rank."""
        return self.max_dim[min(rank, len(self.max_dim) - 1)]


class NoOptionError(IndexError):
    """A choice without options: the operator does not take operands of these types."""


@dataclass
class Draw:
    """Random choices for one test case; the same `rng` state gives the same choices.

    kinds: per variable, how attribute binning treats it (`Sym.kind`).
    """

    rng: random.Random
    sizes: Sizes = field(default_factory=Sizes)
    kinds: dict[Var, str] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        """A random option. Raises: NoOptionError if there is none."""
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
        """A fresh variable over `[lo, hi]`; the number itself if both ends are equal."""
        if lo == hi:
            return lo
        var = Var(f"{name}_{len(self.kinds)}", lo, hi)
        self.kinds[var] = kind
        return var

    def dim(self, rank: int) -> Var | int:
        """A fresh dimension (a new variable, or 0) for a tensor of the given rank."""
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
        """The ends, inclusive, of a random bin within `[lo, hi]` (NNSmith, Algorithm 2).

        "size": bins [2^i, 2^(i+1)) above `lo`, `bins` of them at most. "offset": [0, 0] half of the
        time, else such a bin on a random side of 0.
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
        """A random power of two, or a neighbour of one, moved into `[lo, hi]`."""
        found = (1 << self.integer(0, hi.bit_length())) + self.integer(-1, 1)
        return min(max(lo, found), hi)

    def value(self, lo: int, hi: int, kind: str = "size") -> int:
        """A value from a random bin of `[lo, hi]`."""
        return self.integer(*self.binned(lo, hi, kind))
