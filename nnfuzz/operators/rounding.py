"""Bounds of rounding errors: of elementary functions, of underflow, and of sums in any order.

`u` is the unit roundoff of the dtype that is computed in: 2^-24 for float32. An operator's `radius`
uses these bounds to widen the intervals of `nnfuzz.operators.intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SINGLE = 2.0**-24
"""Unit roundoff of float32, in which processors and compilers approximate functions. Narrower
dtypes are computed in float32 and rounded, or step by step; float64 is computed by libm."""


def largest_whole(x: Tensor) -> float:
    """The largest number up to which an integer tensor's dtype and float64 hold every integer."""
    return float(min(torch.iinfo(x.dtype).max, 1 << 53))


def elementary(u: float) -> float:
    """Relative error of an elementary function, in unit roundoffs.

    In float64, that of libm: 1.5 ULP. In others, that of an approximation with a rounded result.
    """
    return 3.0 if u < SINGLE else 5.0


def stepwise(u: float) -> float:
    """`elementary` for a function that is one step of another function.

    A dtype narrower than float32 is computed in float32 and rounded, or the result is one of the
    two neighbours of the true value: an error of at most 1 ULP.
    """
    return 2.0 if u > SINGLE else elementary(u)


def growth(k: float) -> float:
    """The error of a sum of k rounded terms in any order, in units of u times the absolute sum."""
    return float(k) + 1.0


def greatest(u: float) -> float:
    """The largest finite number of the dtype with unit roundoff u."""
    return _GREATEST.get(u, 1.7976931348623157e308)


def underflow(u: float) -> float:
    """Absolute error of a result that underflows in the dtype with unit roundoff u.

    It is the least subnormal number for float16 and 8-bit floats, which no CPU or compiler flushes
    to zero; for other dtypes it is the least normal number.
    """
    return _TINY.get(u, 2.0**-1022)


def lost_terms(u: float, k: float, s: Tensor) -> Tensor:
    """Error of a sum of k products of which some underflow; s: the sum of their absolute values."""
    return s.clamp(max=k * underflow(u))


def faded(u: float) -> float:
    """The error of an exponential below twice the least normal number of float32; 0 for dtypes with
    other exponents.

    Implementations compute exp as p * 2^n with p between 1/2 and 2, and 2^n as 2 * 2^(n - 1)
    because float32 does not hold 2^128. Then 2^(n - 1) may be flushed to zero.
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
    """Absolute errors of rounding numbers to the dtype with unit roundoff u; 0 for exact ones."""
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

    products: whether the terms are products, which are rounded before they are added, and the sum
    once more afterwards. In any order, a partial sum lies between the sum of the negative terms and
    that of the positive ones, so it is at most (s + |y|) / 2, and its rounding error u times that.
    partial: maps this bound of one partial sum to a bound of the sum of all partial sums' absolute
    values (such as `largest_first`). The result is infinite if some order may overflow. The bound u
    k s holds even where k u >= 1/2. Source: N. J. Higham, Accuracy and Stability of Numerical
    Algorithms, section 4.2.
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
    """A `partial` of `sum_radius` for terms of which only the sum of squares is known.

    By Cauchy and Schwarz, n terms sum to at most sqrt(n * squares). Squares that may have
    underflown are not used.
    """

    def bound(most: Tensor) -> Tensor:
        root = torch.where(squares > 1e-100, squares, math.inf).sqrt()
        # `few` partial sums stay below `most`; the sum of their square roots is below its integral.
        few = (most / root).square().floor().clamp(min=1, max=k)
        return root * ((few + 1) ** 1.5 - 2**1.5) * (2 / 3) + (k - few) * most

    return bound


def largest_first(terms: Tensor, axes: Sequence[int], most: Tensor) -> Tensor:
    """Upper bound of the sum of all partial sums of terms >= 0, each partial sum capped at `most`.

    terms: absolute values. axes: those that are summed over. most: shaped like the result, with
    these axes kept as size 1. The bound holds for every order and tree of additions: of the k - 1
    partial sums, sorted by their number of terms, the i-th has at most i + 1 terms, and these sum
    to at most the i + 1 largest terms.
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
