"""Fourier transforms, and windows for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.families.shape import sizes
from nnfuzz.operators.families.sums import Summing, largest
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.unexportable import DECOMPOSED

LONGEST = 64
"""Most points of a transform, which is computed as a product with a matrix."""


# -- windows ------------------------------------------------------------------------------------


class CosineWindow(Unary):
    """Each row (last axis) of the input times a window: the sum of a_k cos(2 pi k n / N).

    N is the length of the row, less 1 unless `periodic`. A composition: the window alone would be
    a constant. `measured` takes the length from the tensor itself. Source: ONNX HannWindow-17.
    """

    takes_empty = False
    since = 17
    inputs = (In("T", (DType.FLOAT32, DType.FLOAT64), (1, 5)),)
    coefficients: tuple[float, ...] = ()
    periodic = Choice((0, 1))
    measured = Choice((0, 1))

    def requires(self, x):
        if not self.periodic:  # A single point divides by zero.
            yield x.shape[-1] >= 2

    def window(self, length: int):
        angles = 2 * np.pi * np.arange(length) / max(1, length - 1 + self.periodic)
        return sum(a * np.cos(k * angles) for k, a in enumerate(self.coefficients))

    def torch(self, x):
        return x * torch.tensor(self.window(sizes(x)[-1]), dtype=x.dtype)

    def onnx(self, emit, x):
        type_ = emit.type(x)
        length = emit.const(type_.shape[-1], DType.INT64)
        if self.measured:
            last = emit.const(type_.rank - 1, DType.INT64)
            length = emit("Gather", emit("Shape", x), last)
        options = {"periodic": self.periodic, "output_datatype": type_.dtype.onnx}
        return emit("Mul", x, emit(self.name, length, **options))

    def interval(self, x):
        # A coefficient of 0 does not undo a NaN.
        return [linear(self.torch, x, absolute=self._absolute).masked(x.any)]

    def _absolute(self, x):
        return x * torch.tensor(abs(self.window(sizes(x)[-1])), dtype=x.dtype)

    def value_range(self, x):
        return 1.001 * min(x[0], 0.0), 1.001 * max(x[1], 0.0)

    def certain(self, x):
        """The first element is 0, but for rounding errors and the Hamming window."""
        first = self.window(1)[0]
        return () if first > 0.01 else ((first, first), (0.0, 0.0))

    def radius(self, u, y, x):
        """Error of the window: a few u of its terms, whose angles reach 4 pi.

        ONNX defines it as a function in float32 for every dtype of the result.
        """
        return 2 * u * y.abs() + 32 * max(u, 2**-24) * x.abs()


@operator
class HannWindow(CosineWindow):
    coefficients = (0.5, -0.5)


@operator
class HammingWindow(CosineWindow):
    """ONNX gives the coefficients as 25/46 and 21/46."""

    coefficients = (25 / 46, -21 / 46)


@operator
class BlackmanWindow(CosineWindow):
    coefficients = (0.42, -0.5, 0.08)


# -- transforms ---------------------------------------------------------------------------------


def waves(length: int, points: int, inverse: bool):
    """exp(-+ 2 pi i n k / length), n < length, k < points, as two (length, points) matrices."""
    turns = np.outer(np.arange(length), np.arange(points)) % length / length
    sine = np.sin(2 * np.pi * turns)
    return np.cos(2 * np.pi * turns), sine if inverse else -sine


def fourier(x, cosine, sine):
    """(..., length, 1 or 2) @ exp(...) -> (..., points, 2); the last axis holds real and imaginary
    part."""
    cosine, sine = (torch.as_tensor(m, dtype=x.dtype) for m in (cosine, sine))
    real = x[..., 0]
    re, im = torch.matmul(real, cosine), torch.matmul(real, sine)
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        re = re - torch.matmul(imaginary, sine)
        im = im + torch.matmul(imaginary, cosine)
    return torch.stack([re, im], -1)


def bounded(x, cosine, sine):
    """`fourier` with absolute coefficients, which is the sum of absolute terms for x >= 0."""
    cosine, sine = abs(cosine), abs(sine)
    parts = fourier(x[..., :1], cosine, sine)
    if x.shape[-1] == 1:
        return parts
    return parts + fourier(x[..., 1:], cosine, sine).flip(-1)


def inexact(length):
    """Error of a transform in units of u times the sum of all absolute terms.

    It includes the rounding of the angles. For lengths that are no powers of 2, Bluestein's
    algorithm uses angles up to pi times the length (ONNX Runtime is off by 14 times the length).
    """
    return 8 if length & (length - 1) == 0 else 8 + 16 * length


class Fourier(Summing):
    """Base of Fourier transforms along an axis; the last axis holds real and imaginary part."""

    unexportable = DECOMPOSED
    since = 17
    exactness = ""
    onesided: Any
    """Whether the result has only those frequencies of a real signal that the others do not
    determine."""

    def points(self, length):
        """The number of frequencies in the result."""
        return length // 2 + 1 if self.onesided else length

    def certain(self, x, *_):
        """For a real signal, the imaginary part is 0 at frequency 0, 0 but for rounding errors in
        the middle, and has both signs in the second half."""
        if (x.shape[-1] == 1) is False:
            return ()
        return ((0, 0), (-1e-12, -1e-12) if self.onesided else (-math.inf, 0.0))

    def interval(self, *intervals):
        interval = linear(
            self.torch, *intervals, weights=range(len(intervals)), absolute=self.absolute
        )
        if interval.any is None:
            return [interval]
        # A sine of 0 does not undo a NaN: all of a transform is lost with one of its elements.
        lost = interval.any.any(-1, keepdim=True).any(self.frequencies(), keepdim=True)
        return [interval.masked(lost.expand(interval.lo.shape))]

    def frequencies(self):
        """The axis of the frequencies in the result."""
        raise NotImplementedError(f"{self.name}.frequencies")

    def domain(self, *xs):
        return [self.absolute(*(x.abs() for x in xs)) - largest(xs[0]) / 4]


@operator
class DFT(Fourier):
    """(..., length, ..., 1 or 2) -> (..., points, ..., 2); the input is truncated or padded with 0.

    Rank 5 at most. Source: ONNX DFT-20; numpy.fft.
    """

    weight = 3.0  # few values have such a type
    inputs = (In("T", FLOATS, (3, 5)),)
    axis = Choice(by=lambda draw, op, first, *_: draw.integer(0, first.rank - 2))
    inverse = Choice((0, 0, 1))
    onesided = Choice(lambda op, *_: (0,) if op.inverse else (0, 1))
    dft_length = Choice((0, 0, 0, 1, 2, 4, 7, 8, 12, 16, 31))
    from_back = Choice((0, 0, 1), default=0)
    """Whether the model counts the axis from the back."""

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        axis = fields["axis"]
        axis = -2 if axis is None else axis
        mine = {"axis": axis % takes[0].rank, "from_back": int(axis < 0)}
        length = fields["dft_length"] or 0
        return super().from_onnx({**fields, **mine, "dft_length": length}, takes, gives)

    def frequencies(self):
        return self.axis

    def _length(self, x):
        return self.dft_length or x.shape[self.axis]

    def requires(self, x):
        yield 0 <= self.axis < x.rank - 1
        yield x.shape[-1] <= (1 if self.onesided else 2)
        yield self._length(x) <= LONGEST
        yield not (self.onesided and self.inverse)

    def type_transfer(self, x):
        shape = [*x.shape[:-1], 2]
        shape[self.axis] = self.points(self._length(x))
        return [x.with_shape(shape)]

    def infer_input_types(self, draw, first, dtypes, output):
        keep = (self.axis, first.rank - 1)
        pairs = enumerate(zip(first.shape, output.shape))
        return [TensorType(dtypes[0], tuple(f if i in keep else o for i, (f, o) in pairs))]

    def cost(self, x):
        return 4 * x.numel * self._length(x)

    def terms(self, x):
        return 2 * min(x.shape[self.axis], self._length(x))

    def _applied(self, transform, x):
        size, last = sizes(x)[self.axis], x.dim() - 2
        length = self.dft_length or size
        used = min(length, size)
        x = x.narrow(self.axis, 0, used).transpose(self.axis, last)
        cosine, sine = waves(length, self.points(length), self.inverse)
        y = transform(x, cosine[:used], sine[:used]).transpose(self.axis, last)
        return y / length if self.inverse else y

    def torch(self, x):
        return self._applied(fourier, x)

    def absolute(self, x):
        return self._applied(bounded, x.abs())

    def radius(self, u, y, x):
        return super().radius(u, y, x) + inexact(self._length(x)) * u * self._spread(x)

    def _spread(self, x):
        whole = x.abs().sum(self.axis, keepdim=True).sum(-1, keepdim=True)
        return whole / self._length(x) if self.inverse else whole

    def onnx(self, emit, x):
        length = emit.const(self.dft_length, DType.INT64) if self.dft_length else ""
        options = {"inverse": self.inverse, "onesided": self.onesided}
        axis = self.axis - emit.type(x).rank if self.from_back else self.axis
        if emit.opset < 20:
            return emit("DFT", x, length, axis=axis, **options)
        return emit("DFT", x, length, emit.const(axis, DType.INT64), **options)


@operator
class STFT(Fourier):
    """(N, L, 1), window (frame_length,) -> (N, frames, points, 2): DFTs of frames.

    Without a window, all elements of a frame count alike, and the model states its length. Source:
    ONNX STFT-17; torch.stft.
    """

    weight = 3.0  # few values have such a type
    inputs = (In("T", FLOATS, (3, 3)), In("T", ranks=(1, 1), weight=True))
    variadic = (1, 2)
    frame_step = Choice((1, 2, 3, 5, 8))
    frame_length = Sym(1, LONGEST)
    """That of the frames where there is no window."""
    onesided = Choice((1, 0))
    sized = Choice((0, 1))
    """Whether the model states the length of the window, too."""

    @classmethod
    def from_onnx(cls, fields, takes, gives):
        stated = fields.get("frame_length")
        length = stated or takes[-1].shape[0]
        mine = {"frame_length": length, "sized": int(stated is not None)}
        return super().from_onnx({**fields, **mine}, takes, gives)

    def frequencies(self):
        return 2

    def length(self, window):
        """That of the frames. window: none or one."""
        return window[0].shape[0] if window else self.frame_length

    def requires(self, x, *window):
        yield x.shape[2] == 1
        yield self.onesided in (0, 1)
        yield self.length(window) >= 1
        yield self.length(window) <= x.shape[1]
        yield self.length(window) <= LONGEST

    def type_transfer(self, x, *window):
        length = self.length(window)
        frames = (x.shape[1] - length) // self.frame_step + 1
        return [x.with_shape((x.shape[0], frames, self.points(length), 2))]

    def certain(self, x, *window):
        return super().certain(x.with_shape((1,)))

    def complete(self, draw, first, dtypes):
        x = TensorType(dtypes[0], (*first.shape[:2], 1))
        return [x, *(TensorType(d, (draw.var("frame", 1, LONGEST),)) for d in dtypes[1:])]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 3 if output_rank == 4 else None

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self.complete(draw, x, dtypes)

    def cost(self, x, *window):
        return 4 * self.type_transfer(x, *window)[0].numel * self.length(window)

    def terms(self, x, *window):
        return self.length(window)

    def _applied(self, transform, x, *window):
        length = int(self.length(window))
        starts = torch.arange((sizes(x)[1] - length) // self.frame_step + 1) * self.frame_step
        frames = x.flatten(1)[:, starts[:, None] + torch.arange(length)]
        frames = frames * window[0] if window else frames
        return transform(frames.unsqueeze(-1), *waves(length, self.points(length), False))

    def torch(self, x, *window):
        return self._applied(fourier, x, *window)

    def absolute(self, x, *window):
        return self._applied(bounded, x.abs(), *(w.abs() for w in window))

    def radius(self, u, y, x, *window):
        length = self.length(window)
        frames = x.flatten(1).abs().unfold(1, length, self.frame_step)
        frames = frames * window[0].abs() if window else frames
        spread = frames.sum(-1)[..., None, None]
        return super().radius(u, y, x, *window) + inexact(length) * u * spread

    def onnx(self, emit, x, *window):
        step = emit.const(self.frame_step, DType.INT64)
        length = emit.type(window[0]).shape[0] if window else self.frame_length
        stated = (emit.const(length, DType.INT64),) if self.sized or not window else ()
        return emit("STFT", x, step, *(window or ("",)), *stated, onesided=self.onesided)
