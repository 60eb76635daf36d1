"""Samples of images at computed positions, and crops of them."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.intervals import Interval, ends
from nnfuzz.operators.operator import In

from ..roi import OfRegions
from ..sample import OLD_MODES, GridSample, GridSampleNearest, Sampling
from . import microsoft

IMAGE = In("T", (DType.FLOAT32,), (4, 4))


class OldSampling(Sampling):
    """How a model writes GridSample as it was before ONNX had it."""

    since = 13
    weight = 1.0
    inputs = (IMAGE, In("T", ranks=(4, 4)))

    def onnx(self, emit, x, grid):
        mode = OLD_MODES.get(self.mode, self.mode)
        options = {"padding_mode": self.padding_mode, "align_corners": self.align_corners}
        return emit("com.microsoft.GridSample", x, grid, mode=mode, **options)


@microsoft
class OldGridSample(OldSampling, GridSample):
    """GridSample of images in its linear and cubic modes. Source: com.microsoft.GridSample-1."""

    name = "GridSample"


@microsoft
class OldGridSampleNearest(OldSampling, GridSampleNearest):
    """GridSample of the nearest element. Source: com.microsoft.GridSample-1."""

    name = "GridSampleNearest"


@microsoft
class CropAndResize(OfRegions):
    """(N, C, H, W), boxes (R, 4), images (R,) -> (R, C, *size): each box is resized.

    A box is (y1, x1, y2, x2), where 0 and 1 are the centres of the first and the last row or
    column; samples are at both ends of a box and evenly between them. Beyond the image, the result
    is `extrapolation`. The documentation does not say where a single sample is, so that sizes are
    at least 2, nor which one of two nearest elements is taken. Source:
    com.microsoft.CropAndResize-1.
    """

    weight = 2.0
    copies = True
    inputs = (
        IMAGE,
        In("T", ranks=(2, 2), weight=True),
        In("I", (DType.INT32,), (1, 1), index=True),
    )
    valid = (None, (-0.5, 1.5), None)
    mode = Choice(("bilinear", "bilinear", "nearest"))
    size = Choice(by=lambda draw, *_: (draw.integer(2, 5), draw.integer(2, 5)))
    extrapolation = Choice((0.0, 0.0, 1.0, -2.5))

    def requires(self, x, boxes, images):
        yield from (n >= 2 for n in self.size)
        yield from super().requires(x, boxes, images)

    def value_range(self, x, boxes, images):
        return min(x[0], self.extrapolation), max(x[1], self.extrapolation)

    def domain(self, x, boxes, images):
        """Boxes have about the size of the image, so that positions have a fraction."""
        return [boxes.abs() - 16]

    def _positions(self, x, boxes):
        """Positions of the samples along both axes, in elements: two tensors (R, samples)."""
        for axis, samples in enumerate(self.size):
            first, last = (boxes[:, axis + k, None] * (x.shape[2 + axis] - 1) for k in (0, 2))
            steps = torch.arange(samples, dtype=boxes.dtype)
            yield first + steps * ((last - first) / (samples - 1))

    def _inside(self, x, positions):
        rows, columns = (
            (p >= 0) & (p <= size - 1) for p, size in zip(positions, x.shape[2:], strict=True)
        )
        return (rows[:, :, None] & columns[:, None, :])[:, None]

    def torch(self, x, boxes, images):
        positions = list(self._positions(x, boxes))
        inside = self._inside(x, positions)
        return torch.where(inside, self._sampled(x, positions, images), self.extrapolation)

    def _sampled(self, x, positions, images):
        y = x[images.long()]
        for axis, p in enumerate(positions, 2):
            last = y.shape[axis] - 1
            p = p.clamp(0, last)
            low = p.round() if self.mode == "nearest" else p.floor()
            share = (p - low) * (self.mode == "bilinear")
            at = [self._spread(i.long(), y, axis) for i in (low, (low + 1).clamp(max=last))]
            near, next_ = (y.gather(axis, i) for i in at)
            share = self._along(share, axis)
            y = near * (1 - share) + next_ * share
        return y

    def _along(self, t, axis):
        """(R, samples) so that it broadcasts along an axis of images."""
        return t[:, None, :, None] if axis == 2 else t[:, None, None, :]

    def _spread(self, at, y, axis):
        shape = list(y.shape)
        shape[axis] = at.shape[1]
        return self._along(at, axis).expand(shape)

    def margins(self, x, boxes, images):
        if self.mode != "nearest":
            return []
        return [(p - p.floor() - 0.5).abs() for p in self._positions(x, boxes)]

    def decided(self, u, x, boxes, images):
        """Where rounding may move a sample across the edge of the image, or the middle between two
        elements of which the nearer one is taken, the result is not compared."""
        at, exact = images.lo, boxes.exact
        centre = boxes.lo if exact else (boxes.lo + boxes.hi) / 2
        positions = list(self._positions(x.lo, centre))
        r = (boxes.hi - boxes.lo) / 2
        blurs = [
            a + 8 * u * b
            for a, b in zip(self._positions(x.lo, self._reach(r)), self._sizes(x.lo, centre))
        ]
        lo, hi = ends(lambda t: self._sampled(t, positions, at), (1,), Interval(x.lo, x.hi))
        most = torch.maximum(x.lo.abs(), x.hi.abs()).flatten(2).amax(-1)[at.long()][..., None, None]
        if self.mode == "bilinear":
            shift = sum(self._along(b, i) for i, b in enumerate(blurs, 2))
            spread = most * (2 * shift + 8 * u)
            lo, hi = lo - spread, hi + spread
        inside = self._inside(x.lo, positions)
        lo, hi = (torch.where(inside, end, self.extrapolation) for end in (lo, hi))
        return [Interval(lo, hi, self._open(x, boxes, at, positions, blurs).expand_as(lo))]

    @staticmethod
    def _reach(r):
        """Boxes between whose corners lies the most that corners move by."""
        most = torch.maximum(r[:, :2], r[:, 2:])
        return torch.cat([most, most], 1)

    def _sizes(self, x, boxes):
        """The sums of absolute terms of the positions."""
        for axis, samples in enumerate(self.size):
            first, last = (boxes[:, axis + k, None].abs() * (x.shape[2 + axis] - 1) for k in (0, 2))
            steps = torch.arange(samples, dtype=boxes.dtype)
            yield first + steps * ((last + first) / (samples - 1))

    def _open(self, x, boxes, at, positions, blurs):
        """Mask of elements that are not compared."""
        mask = boxes.mask().any(-1)[:, None, None, None]
        mask = mask | x.mask().flatten(2).any(-1)[at.long()][..., None, None]
        for axis, (p, blur, size) in enumerate(zip(positions, blurs, x.lo.shape[2:]), 2):
            near = (p.abs() < blur) | ((p - (size - 1)).abs() < blur)
            if self.mode == "nearest":
                near = near | ((p - p.floor() - 0.5).abs() <= blur)
            mask = mask | self._along(near, axis)
        return mask

    def onnx(self, emit, x, boxes, images):
        size = emit.const(self.size, DType.INT32)
        options = {"mode": self.mode, "extrapolation_value": self.extrapolation}
        return emit(self.name, x, boxes, images, size, **options)
