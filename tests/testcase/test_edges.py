"""Tests at edges: what is rewritten of them."""

import numpy as np

from nnfuzz.backend.agreement import beyond


def test_strange_numbers_are_told_from_others():
    assert beyond({"x": np.array([1, -0.0], np.float16)})
    assert beyond({"x": np.array([np.nan])})
    assert not beyond({"x": np.array([1e-42, 0.0], np.float32), "n": np.array([-(2**31)])})
