"""Arithmetic in a carrier is arithmetic in the type itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from nnfuzz.ir.dtypes import FLOAT8S, DType
from nnfuzz.operators.carriers import array, rounded, settled, tensor, unfit
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_arrays_survive(dtype, shape):
    before = RNG.integers(0, 2, shape).astype(dtype.numpy)
    x = tensor(before)
    after = array(x, dtype)
    assert x.dtype is dtype.torch
    assert after.dtype == before.dtype and after.shape == shape
    assert after.tobytes() == before.tobytes()


@pytest.mark.parametrize("dtype", [DType.UINT16, DType.UINT32, DType.UINT64])
@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
def test_unsigned_integers_wrap_around(dtype, name):
    most = int(np.iinfo(dtype.numpy).max)
    a, b = (RNG.integers(0, most, 200, dtype.numpy, endpoint=True) for _ in range(2))
    op = REGISTRY.get(name)()
    found = array(settled(op.torch(tensor(a), tensor(b)), dtype), dtype)
    wanted = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[name](a, b)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT4])
def test_four_bits_keep_the_low_ones(dtype):
    wide = torch.arange(-40, 40, dtype=torch.int32).to(dtype.torch)
    found = settled(wide, dtype)
    least, most = dtype.limits
    assert least == found.min() and found.max() == most
    assert bool(((found.int() - wide.int()) % 16 == 0).all())


def test_large_uint64_fit_operators_that_compute_modulo_2_64_only():
    large, small = tensor(np.array([1 << 63], np.uint64)), tensor(np.array([7], np.uint64))
    add, less = REGISTRY.get("Add")(), REGISTRY.get("Less")()
    dtypes = [DType.UINT64] * 2
    assert not unfit(add, [large, small], dtypes)
    assert unfit(less, [large, small], dtypes)
    assert not unfit(less, [small, small], dtypes)


@pytest.mark.parametrize("dtype", FLOAT8S)
def test_8_bit_floats_are_rounded_to_nearest_and_saturate(dtype):
    most = dtype.limits[1]
    x = np.linspace(-0.99 * most, 0.99 * most, 1001).astype(np.float32)
    assert np.array_equal(rounded(torch.from_numpy(x), dtype).numpy(), x.astype(dtype.numpy))
    far = rounded(torch.tensor([1e9, -1e9, torch.inf]), dtype)
    assert far.tolist() == [most, -most, most]


def test_bfloat16_is_bit_exact():
    x = RNG.standard_normal(1000).astype(ml_dtypes.bfloat16)
    assert torch.equal(tensor(x), torch.from_numpy(x.astype(np.float32)).bfloat16())
