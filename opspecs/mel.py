"""Spectra on the mel scale."""

from __future__ import annotations

import math

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import Zeros
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, operator

CLEAR = 1e-3
"""Least distance of edges from whole steps, at which they are rounded down."""


def edges(bands: int, length: int, rate: int, lower: float, upper: float) -> np.ndarray:
    """The edges, in steps of a DFT, of overlapping bands that are equally wide in mel.

    As in ONNX, the range is divided by one more than the number of intervals.
    """
    low, high = (2595 * math.log10(1 + hertz / 700) for hertz in (lower, upper))
    mel = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    return (length + 1) * 700 * (10 ** (mel / 2595) - 1) / rate


def _banks(draw, op, first, *_):
    """Draws bands, DFT length, sample rate and range in hertz, so that no edge is near a whole
    step."""
    most = draw.sizes.dim(first.rank)
    lengths = [n for n in (8, 16, 25, 32, 64) if n // 2 < most]
    while True:
        rate = draw.choice((8000, 16000, 22050, 44100))
        lower, upper = draw.choice((0, 20, 125, 300)), rate // draw.choice((2, 3, 4))
        bank = (draw.integer(1, 10), draw.choice(lengths or [8]), rate, lower, upper)
        found = edges(*bank)
        inner = found if lower else found[1:]
        # ONNX Runtime refuses the very end of the range.
        inside = (bank[1] + 1) * upper // rate <= bank[1] // 2
        if inside and np.abs(inner - inner.round()).min() > CLEAR:
            return bank


@operator
class MelWeightMatrix(Zeros, Summing):
    """(..., dft_length // 2 + 1) spectra -> (..., bands) energies of triangular bands.

    A composition, since the matrix alone would be a constant. Source: ONNX MelWeightMatrix-17.
    """

    weight = 3.0
    since = 17

    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64), (1, 5)),)
    exactness = ""
    bank = Choice(by=_banks)

    def requires(self, x):
        bands, length, rate, lower, upper = self.bank
        yield min(bands, length, rate) > 0 and 0 <= lower < upper
        yield rate > 0 and (length + 1) * upper // rate <= length // 2
        yield x.shape[-1] == length // 2 + 1

    def type_transfer(self, x):
        return [x.with_shape((*x.shape[:-1], self.bank[0]))]

    def infer_input_types(self, draw, first, dtypes, output):
        return [TensorType(dtypes[0], (*output.shape[:-1], self.bank[1] // 2 + 1))]

    def matrix(self):
        """The weights (frequencies, bands): each band rises from 0 to 1 between two edges and falls
        to 0 at the third."""
        bins = np.floor(edges(*self.bank)).astype(int)
        weights = np.zeros((self.bank[1] // 2 + 1, self.bank[0]))
        for band, (left, centre, right) in enumerate(zip(bins, bins[1:], bins[2:])):
            rising = np.arange(left, centre + 1)
            weights[rising, band] = (rising - left) / (centre - left) if centre > left else 1
            falling = np.arange(centre, right)
            weights[falling, band] = (right - falling) / max(1, right - centre)
        return weights

    def torch(self, x):
        return torch.matmul(x, torch.tensor(self.matrix(), dtype=x.dtype))

    def onnx(self, emit, x):
        counts = (emit.const(n, DType.INT64) for n in self.bank[:3])
        hertz = (emit.const(h, DType.FLOAT32) for h in self.bank[3:])
        kind = emit.type(x).dtype.onnx
        return emit("MatMul", x, emit("MelWeightMatrix", *counts, *hertz, output_datatype=kind))

    def terms(self, x):
        return x.shape[-1]

    def radius(self, u, y, x):
        """The error of a product whose weights are rounded as well."""
        return super().radius(u, y, x) + 4 * u * self.absolute(x)

    def interval(self, x):
        interval = linear(self.torch, x)
        # A weight of 0 does not undo a NaN.
        lost = None if x.any is None else x.any.any(-1, keepdim=True).expand(interval.lo.shape)
        return [interval.masked(lost)]
