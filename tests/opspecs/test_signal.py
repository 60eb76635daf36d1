from __future__ import annotations

import numpy as np
import pytest
import torch
from nnfuzz.opspecs.mel import MelWeightMatrix, edges
from nnfuzz.opspecs.signal import DFT, STFT, BlackmanWindow, HammingWindow, HannWindow

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import solved, t


def dft(axis=1, inverse=0, onesided=0, dft_length=0):
    return DFT(axis=axis, inverse=inverse, onesided=onesided, dft_length=dft_length)


def values(*shape):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.manual_seed(3)) - 0.5


@pytest.mark.parametrize(
    ("spec", "window"),
    [
        (HannWindow, torch.hann_window),
        (BlackmanWindow, torch.blackman_window),
        (HammingWindow, lambda *a, **k: torch.hamming_window(*a, alpha=25 / 46, beta=21 / 46, **k)),
    ],
)
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows_agree_with_pytorch(spec, window, periodic):
    y = spec(periodic=periodic, measured=0).torch(torch.ones(3, 7, dtype=torch.float64))
    expected = window(7, periodic=bool(periodic), dtype=torch.float64)
    assert torch.allclose(y, expected.expand(3, 7), atol=1e-12)


def test_a_symmetric_window_of_one_point_is_refused():
    HannWindow(periodic=1, measured=0).check(t(2, 1))
    with pytest.raises(ConstraintError):
        HannWindow(periodic=0, measured=0).check(t(2, 1))


@pytest.mark.parametrize("length", [0, 3, 8])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_agree_with_numpy(length, inverse):
    x = values(2, 5, 3, 2)
    y = dft(inverse=inverse, dft_length=length).torch(x).numpy()
    signal = x[..., 0].numpy() + 1j * x[..., 1].numpy()
    z = (np.fft.ifft if inverse else np.fft.fft)(signal, n=length or None, axis=1)
    assert np.allclose(y, np.stack([z.real, z.imag], -1))


def test_one_side_has_half_of_the_points():
    op = dft(onesided=1)
    assert op.type_transfer(t(2, 7, 1))[0].same(t(2, 4, 2))
    z = np.fft.rfft(values(2, 7, 1)[..., 0].numpy(), axis=1)
    assert np.allclose(op.torch(values(2, 7, 1)).numpy(), np.stack([z.real, z.imag], -1))
    with pytest.raises(ConstraintError):
        op.check(t(2, 7, 2))


def test_frames_agree_with_pytorch():
    op = STFT(frame_step=3, frame_length=8, onesided=1, sized=1)
    x, window = values(2, 17, 1), torch.hann_window(8, dtype=torch.float64)
    assert op.type_transfer(t(2, 17, 1, dtype=DType.FLOAT64), t(8))[0].shape == (2, 4, 5, 2)
    z = torch.stft(x[..., 0], 8, 3, window=window, center=False, return_complex=True)
    assert torch.allclose(op.torch(x, window), torch.view_as_real(z.transpose(1, 2)))
    assert torch.equal(op.torch(x[..., 0], window), op.torch(x, window))
    assert torch.equal(op.torch(x), op.torch(x, torch.ones_like(window)))


def test_absolute_terms_bound_the_transform():
    x = values(2, 9, 2)
    assert bool((dft().torch(x).abs() <= dft().absolute(x) + 1e-12).all())


def test_bands_overlap_by_half():
    op = MelWeightMatrix(bank=(3, 32, 16000, 0, 8000))
    matrix = op.matrix()
    assert matrix.shape == (17, 3)
    assert np.allclose(matrix.max(0), 1)
    between = slice(*matrix.argmax(0)[[0, -1]])
    assert np.allclose(matrix.sum(1)[between], 1)


def test_edges_of_bands_are_clear_of_roundings():
    for op, _ in solved(MelWeightMatrix, DType.FLOAT32, 60):
        found = edges(*op.bank)[(0 if op.bank[3] else 1) :]
        assert np.abs(found - found.round()).min() > 1e-3
