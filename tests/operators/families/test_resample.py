"""Weights and positions of resampling."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from nnfuzz.operators.families.resample import cubic, interpolation, nearest, positions, triangle

WHOLE = (Fraction(0), Fraction(1))


@pytest.mark.parametrize("kernel", [triangle, cubic(-0.5), cubic(-0.75)])
def test_weights_add_up_to_one(kernel):
    places = positions("half_pixel", 5, 10, Fraction(2), WHOLE)
    for outside in (False, True):
        matrix = interpolation(places, 5, kernel, exclude_outside=outside)
        assert np.allclose(matrix.sum(1), 1)


def test_positions_of_a_single_element():
    half = Fraction(1, 2)
    assert positions("half_pixel", 2, 1, half, WHOLE) == (half,)
    assert positions("pytorch_half_pixel", 2, 1, half, WHOLE) == (0,)
    assert positions("align_corners", 2, 1, half, WHOLE) == (0,)
    assert positions("tf_crop_and_resize", 3, 1, Fraction(1, 3), WHOLE) == (1,)


def test_nearest_stays_inside():
    assert nearest(Fraction(-1, 4), "floor", 3) == 0
    assert nearest(Fraction(9, 4), "ceil", 3) == 2
