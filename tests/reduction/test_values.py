"""Simpler numbers."""

from __future__ import annotations

import random

import numpy as np

from nnfuzz.ir.dtypes import DType


def test_simplified_numbers_never_cost_more(subjects):
    from nnfuzz.reduction.simplicity import array_cost
    from nnfuzz.reduction.values import WAYS, _simplified

    rng = np.random.default_rng(random.Random(1).getrandbits(32))
    for dtype in DType:
        array = (rng.normal(0, 20, (3, 4)) ** 2 % 100).astype(np.int64).astype(dtype.numpy)
        for way in WAYS[:2]:
            made = _simplified(array, [way, 0, array.size])
            assert made.dtype == array.dtype
            assert array_cost(made) <= array_cost(array)
