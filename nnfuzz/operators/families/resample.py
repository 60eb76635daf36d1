"""Resizing: the source position of each result element, and the weights of source elements.

Positions are exact fractions, so they have no rounding errors. Fractions are slow, and the input
search asks for the same weights repeatedly, so results are cached. Source: ONNX Resize-19.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

HALF = Fraction(1, 2)
Kernel = Callable[[float], float]


@lru_cache(maxsize=1 << 10)
def positions(
    transformation: str,
    size: int,
    count: int,
    scale: Fraction,
    region: tuple[Fraction, Fraction],
) -> tuple[Fraction, ...]:
    """The source position of each resized element, for a coordinate transformation mode of ONNX.

    size, count: numbers of elements before and after. region: of tf_crop_and_resize. Raises:
    KeyError for an unknown mode.
    """
    start, end = region
    span = size - 1
    excess = Fraction(size, 2) * (1 - Fraction(count) / (scale * size))
    several: dict[str, Callable[[int], Fraction]] = {
        "half_pixel": lambda i: (i + HALF) / scale - HALF,
        "half_pixel_symmetric": lambda i: excess + (i + HALF) / scale - HALF,
        "pytorch_half_pixel": lambda i: (i + HALF) / scale - HALF,
        "asymmetric": lambda i: i / scale,
        "align_corners": lambda i: Fraction(i * span, count - 1),
        "tf_crop_and_resize": lambda i: start * span + i * (end - start) * span / (count - 1),
    }
    single = {
        "pytorch_half_pixel": Fraction(0),
        "align_corners": Fraction(0),
        "tf_crop_and_resize": (start + end) * span / 2,
    }
    if count == 1 and transformation in single:
        return (single[transformation],)
    return tuple(several[transformation](i) for i in range(count))


def nearest(position: Fraction, rounding: str, size: int) -> int:
    """The index of the nearest element, for a nearest_mode of ONNX. Raises: KeyError."""
    index = {
        "floor": math.floor(position),
        "ceil": math.ceil(position),
        "round_prefer_floor": math.ceil(position - HALF),
        "round_prefer_ceil": math.floor(position + HALF),
    }[rounding]
    return min(max(index, 0), size - 1)


def triangle(t: float) -> float:
    """The kernel of linear interpolation."""
    return max(0.0, 1.0 - abs(t))


@lru_cache
def cubic(a: float) -> Kernel:
    """The kernel of cubic convolution with the coefficient `a`. Source: R. G. Keys, 1981."""

    def kernel(t: float) -> float:
        t = abs(t)
        if t <= 1:
            return ((a + 2) * t - (a + 3)) * t * t + 1
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0

    return kernel


@lru_cache(maxsize=1 << 10)
def interpolation(
    places: tuple[Fraction, ...],
    size: int,
    kernel: Kernel,
    squeeze: Fraction = Fraction(1),
    exclude_outside: bool = False,
) -> np.ndarray:
    """The (len(places), size) matrix of weights, read-only.

    squeeze: factor, at most 1, for distances (antialiasing). Positions beyond the ends use the
    outermost element; with `exclude_outside` they are left out, and the other weights scaled up.
    """
    matrix = np.zeros((len(places), size))
    reach = math.ceil(2 / squeeze) + 1
    near, far = squeeze.numerator, squeeze.denominator
    for row, place in zip(matrix, places):
        taps = range(math.floor(place) - reach, math.floor(place) + reach + 1)
        n, d = place.numerator, place.denominator  # fractions themselves take ten times as long
        weights = {j: kernel((j * d - n) * near / (d * far)) for j in taps}
        for j, weight in weights.items():
            if 0 <= j < size or not exclude_outside:
                row[min(max(j, 0), size - 1)] += weight
        row /= row.sum()
    matrix.setflags(write=False)
    return matrix
