"""Bounds of rounding errors: of elementary functions, of underflow, and of sums in any order.

`u` is the unit roundoff of the dtype that is computed in: 2^-24 for float32. These widen the
intervals of `nnfuzz.operators.intervals`, by way of an operator's `radius`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SINGLE = 2.0**-24
"""Unit roundoff of float32. Processors' and compilers' own approximations of functions are of this
type; narrower types are computed in it and rounded, or step by step, and float64 by libm."""


def largest_whole(x: Tensor) -> float:
    """The largest integer up to which the integer dtype of a tensor and float64 hold all: a detour
    through float64 is exact until then."""
    return float(min(torch.iinfo(x.dtype).max, 1 << 53))


def elementary(u: float) -> float:
    """Relative error of an elementary function, in unit roundoffs.

    In float64 that of libm, one unit in the last place and a half; in others that of an
    approximation, the rounding of the result included.
    """
    return 3.0 if u < SINGLE else 5.0


def stepwise(u: float) -> float:
    """`elementary` for a step of another function, whose own approximation is admitted beside.

    A type narrower than float32 is computed in float32 and rounded, or gives one of the two
    neighbours of the true value: one unit in the last place.
    """
    return 2.0 if u > SINGLE else elementary(u)


def growth(k: float) -> float:
    """g(k): the error of a sum of k rounded terms in any order, in units of u times the sum."""
    return float(k) + 1.0


def greatest(u: float) -> float:
    """The largest finite number of the dtype with unit roundoff u."""
    return _GREATEST.get(u, 1.7976931348623157e308)


def underflow(u: float) -> float:
    """Absolute error of a result that underflows in the dtype with unit roundoff u.

    No CPU or compiler flushes float16 to zero, so that is a subnormal, as with 8-bit floats;
    the others are flushed.
    """
    return _TINY.get(u, 2.0**-1022)


def lost_terms(u: float, k: float, s: Tensor) -> Tensor:
    """What a sum of k products lacks where these underflow; s: the sum of their absolute values."""
    return s.clamp(max=k * underflow(u))


def faded(u: float) -> float:
    """The error of an exponential below twice the least normal number of float32.

    Processors' own are 2^n times a power between 1/2 and 2, and 2^n is 2 * 2^(n - 1), since 2^128
    is no float32: what is flushed to zero is 2^(n - 1). 0 for types with other exponents.
    """
    return underflow(u) if underflow(u) == underflow(SINGLE) else 0.0


_GREATEST = {
    2.0**-11: 65504.0,
    2.0**-24: 3.4028234663852886e38,
    2.0**-8: 3.3895313892515355e38,
    2.0**-4: 448.0,
    2.0**-3: 57344.0,
}
_TINY = {
    2.0**-11: 2.0**-24,
    2.0**-24: 2.0**-126,
    2.0**-8: 2.0**-126,
    2.0**-4: 2.0**-9,
    2.0**-3: 2.0**-16,
}


def rounding_error(u: float, x: Tensor) -> Tensor:
    """By how much numbers move when they are rounded to the dtype with unit roundoff u; 0 for its
    own ones."""
    dtype = _DTYPES.get(u)
    return torch.zeros_like(x) if dtype is None else (x.to(dtype).to(x.dtype) - x).abs()


_DTYPES = {2.0**-11: torch.float16, 2.0**-24: torch.float32, 2.0**-8: torch.bfloat16}


def sum_radius(
    u: float,
    k: float,
    s: Tensor,
    y: Tensor | None = None,
    products: bool = True,
    partial: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Error of a sum: k terms, s the sum of their absolute values, y their sum if it is known.

    products: whether the terms are products, which are rounded before they are added, as is the
    sum once more behind. Whatever the order, every partial sum of terms that add up to y lies
    between the sum of the negative ones and that of the positive ones, so it is (s + |y|) / 2 at
    most, and its rounding error u times that. partial: of that greatest partial sum, a bound of
    what all of them add up to in absolute value, such as `largest_first`.
    Infinite where some order of summation may overflow. k u < 1/2 is not required: u k s holds.
    Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.
    """
    radius = s * (u * growth(k))
    if y is not None:
        size = y.abs()
        cap, grown = (s + size) * 0.5, math.expm1(min((k - 1) * u, 8.0))
        added = cap * grown
        if partial is not None and k > 2:
            added = torch.fmin(added, partial(cap) * (grown / (k - 1)))
        least = added + (s + size) * u if products else added
        radius = torch.minimum(radius, least)
    radius = radius + lost_terms(u, k, s)
    return radius.masked_fill_(s > greatest(u), math.inf)


def by_squares(squares: Tensor, k: float) -> Callable[[Tensor], Tensor]:
    """`largest_first` where only the sum of the terms' squares is known: `partial` of `sum_radius`.

    By Cauchy and Schwarz, n terms add up to the root of n times that sum at most. Squares that may
    have underflown say nothing.
    """

    def bound(most: Tensor) -> Tensor:
        root = torch.where(squares > 1e-100, squares, math.inf).sqrt()
        # So many terms stay below `most`; the sum of their roots is below its integral.
        few = (most / root).square().floor().clamp(min=1, max=k)
        return root * ((few + 1) ** 1.5 - 2**1.5) * (2 / 3) + (k - few) * most

    return bound


def largest_first(terms: Tensor, axes: Sequence[int], most: Tensor) -> Tensor:
    """The sum of the partial sums of numbers >= 0 along axes, each of them `most` at most.

    terms: absolute values. most: with these axes kept as size 1. Result: shaped like `most`.
    Holds for every order and every tree of additions: of their k - 1 results, sorted by how many
    terms are in them, the i-th has i + 1 terms at most, which add up to no more than the i + 1
    largest ones.
    """
    rank = terms.dim()
    over = sorted(a % rank for a in axes)
    kept = [a for a in range(rank) if a not in over]
    rows = terms.permute(*kept, *over).flatten(len(kept)) if over else terms.unsqueeze(-1)
    if not over:
        return torch.zeros_like(most)
    sums = rows.sort(-1, descending=True).values.cumsum(-1)[..., 1:]
    flat = most.permute(*kept, *over).flatten(len(kept))
    return torch.minimum(sums, flat).sum(-1).reshape(most.shape)
