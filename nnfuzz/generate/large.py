"""Tensors so large that compilers compute in parallel or with other loops."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, Sizes

BEYOND = 1 << 16
"""Most elements of a tensor in a usual graph; a large tensor has more."""
LARGE = Sizes(
    max_dim=(1, 1 << 18, 4097, 1025, 257, 65, 33),
    max_numel=1 << 18,
    max_total=1 << 20,
    least_first=BEYOND + 1,
    powers=0.4,
)
"""Limits of graphs with a large tensor. An operation costs as much as elsewhere, so max_flops is
the usual one. The oracle holds three float64 arrays for each value."""
TRIES = 20
SHARES: Mapping[str, float] = {"small": 0.0, "mixed": 0.1, "large": 1.0}
"""Values of the setting `sizes`: the share of graphs that get a large tensor."""


def large_share(text: str) -> float:
    """The share for a value of the setting `sizes`. Raises: ValueError that lists the values."""
    if text not in SHARES:
        raise ValueError(f"there is no size {text!r}: write small, mixed or large")
    return SHARES[text]


def large_tensor(draw: Draw, dtype: DType, rank: int) -> TensorType | None:
    """A tensor type of at least `least_first` elements, with sizes that are powers of two +-1.

    None if the rank admits no such tensor within the limits.
    """
    sizes = draw.sizes
    for _ in range(TRIES):
        shape = _shape(draw, rank)
        fits = sizes.least_first <= math.prod(shape) <= sizes.max_numel
        if fits and max(shape) <= sizes.dim(rank):
            return TensorType(dtype, shape)
    return None


def _shape(draw: Draw, rank: int) -> tuple[int, ...]:
    """Sizes 2^k - 1, 2^k or 2^k + 1 whose product is about the limit of elements."""
    exponents = [0] * rank
    most = draw.sizes.dim(rank).bit_length() - 1
    total = draw.integer(draw.sizes.least_first.bit_length() - 1, draw.sizes.max_numel.bit_length())
    for _ in range(total):
        open_ = [axis for axis in range(rank) if exponents[axis] < most]
        if open_:
            exponents[draw.choice(open_)] += 1
    return tuple([max(1, (1 << k) + draw.integer(-1, 1)) for k in exponents])
