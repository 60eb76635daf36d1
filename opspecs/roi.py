"""Pooling of regions of interest."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.shape import Zeros, sizes
from nnfuzz.operators.intervals import Interval, ends
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.rounding import lost_terms
from nnfuzz.operators.unexportable import DECOMPOSED


class OfRegions(OpSpec):
    """Images (N, C, H, W), regions (R, 4), the image of each region (R,) -> (R, C, *size)."""

    size: tuple[int, int]

    def requires(self, x, regions, images):
        yield regions.shape[0] == images.shape[0]
        yield regions.shape[1] == 4

    def type_transfer(self, x, regions, images):
        return [x.with_shape((regions.shape[0], x.shape[1], *self.size))]

    def complete(self, draw, first, dtypes):
        return self._typed(first, draw.dim(4), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (first.shape[0], output.shape[1], *first.shape[2:]))
        return self._typed(x, output.shape[0], dtypes)

    @classmethod
    def draw_backward(cls, draw, first, output):
        op = cls.draw(draw, first)
        op.size = tuple(output.shape[2:])
        return op

    def _typed(self, x, count, dtypes):
        return [x, TensorType(dtypes[1], (count, 4)), TensorType(dtypes[2], (count,))]

    def integer_range(self, x, regions, images):
        return None, None, (0, x.shape[0] - 1)


class Aligning(OfRegions):
    """(N, C, H, W), corners (R, 4), images (R,) -> (R, C, *size): bilinear samples of each bin.

    A composition that first clips the corners into the image, since samples beyond it jump to 0,
    and orders them. `sampling_ratio` is the number of samples of a bin along each axis. Source:
    ONNX RoiAlign-16.
    """

    since = 16
    unexportable = DECOMPOSED
    inputs = (
        In("T", FLOATS, (4, 4)),
        In("T", ranks=(2, 2), weight=True),
        In("I", (DType.INT64,), (1, 1), index=True),
    )
    mode = ""
    size = Choice(by=lambda draw, *_: (draw.integer(1, 5), draw.integer(1, 5)))
    sampling_ratio = Choice((1, 2, 2, 3))
    spatial_scale = Choice((1.0, 0.5, 0.25))
    half_pixel = Choice((0, 1))

    def cost(self, x, rois, images):
        return 8 * self.sampling_ratio**2 * self.type_transfer(x, rois, images)[0].numel

    def value_range(self, x, rois, images):
        return min(x[0], 0.0), max(x[1], 0.0)

    def _limits(self, shape):
        """The largest x and y of a corner with which every sample stays inside the image."""
        return [(size - 1) / self.spatial_scale for size in (*shape[:1:-1], *shape[:1:-1])]

    def _positions(self, x, rois):
        """Positions of the samples along both axes, in elements: two tensors (R, bins, samples)."""
        rois = torch.minimum(rois.clamp(min=0), rois.new_tensor(self._limits(sizes(x))))
        first, last = rois.split(2, 1)
        rois = torch.cat([torch.minimum(first, last), torch.maximum(first, last)], 1)
        rois = rois * self.spatial_scale - (0.5 if self.half_pixel else 0.0)
        for start, end, bins in ((1, 3, self.size[0]), (0, 2, self.size[1])):
            length = rois[:, end] - rois[:, start]
            length = length if self.half_pixel else length.clamp(min=1)
            at = torch.arange(self.sampling_ratio, dtype=rois.dtype) + 0.5
            at = torch.arange(bins, dtype=rois.dtype)[:, None] + at / self.sampling_ratio
            yield rois[:, start, None, None] + at * (length / bins)[:, None, None]

    def _corners(self, x, rois, images):
        """Neighbours of the samples and their weights: four pairs of (R, C, bins..., samples).

        Samples are flattened along both axes: (R, C, rows * samples, columns * samples).
        """
        ys, xs = (p.flatten(1) for p in self._positions(x, rois))
        picked = x[images]
        count = torch.arange(sizes(picked)[0])[:, None, None]
        sides = [_neighbours(p, size) for p, size in zip((ys, xs), sizes(x)[2:])]
        for row, weight in sides[0]:
            for column, other in sides[1]:
                values = picked[count, :, row[:, :, None], column[:, None, :]]
                yield values.permute(0, 3, 1, 2), (weight[:, :, None] * other[:, None])[:, None]

    def _binned(self, samples):
        """(R, C, rows * samples, columns * samples) -> (R, C, rows, columns, all samples)."""
        (rows, columns), n = self.size, self.sampling_ratio
        split = samples.reshape(*sizes(samples)[:2], rows, n, columns, n)
        return split.permute(0, 1, 2, 4, 3, 5).flatten(4)

    def _samples(self, x, rois, images):
        samples = sum(value * weight for value, weight in self._corners(x, rois, images))
        return self._binned(samples)

    def _pooled(self, x, rois, images):
        """The result for boxes in float32 or float64."""
        raise NotImplementedError

    def torch(self, x, rois, images):
        if x.dtype is not torch.float64 and x.dtype is not torch.float32:
            return self.torch(x.float(), rois.float(), images).to(x.dtype)
        return self._pooled(x, rois, images)

    def onnx(self, emit, x, rois, images):
        dtype = emit.type(x).dtype
        limits = emit.const(self._limits(emit.type(x).shape), dtype)
        clipped = emit("Min", emit("Max", rois, emit.const(0, dtype)), limits)
        halves = emit("Split", clipped, emit.const([2, 2], DType.INT64), outputs=2, axis=1)
        regions = emit("Concat", emit("Min", *halves), emit("Max", *halves), axis=1)
        return emit(
            "RoiAlign",
            *(x, regions, images),
            mode=self.mode,
            output_height=self.size[0],
            output_width=self.size[1],
            sampling_ratio=self.sampling_ratio,
            spatial_scale=self.spatial_scale,
            coordinate_transformation_mode="half_pixel" if self.half_pixel else "output_half_pixel",
        )

    # -- numbers ----------------------------------------------------------------------------------

    def _whole(self, x, rois, images):
        """The largest absolute value of the channel, for every output element."""
        most = x.abs().flatten(2).amax(-1)[images]
        return most[:, :, None, None].expand(-1, -1, *self.size)

    def radius(self, u, y, x, rois, images):
        """Positions are off by a few u of the image's size; weight moves between neighbours."""
        wide = torch.nn.functional.max_pool2d(x.abs(), 3, 1, 1)
        whole = self.torch(wide, rois, images)
        lost = lost_terms(u, 4 * self.sampling_ratio**2, whole)
        return u * (8 + 2 * sum(x.shape[2:])) * whole + lost

    def interval(self, x, rois, images):
        """Uncertain corners move samples: results change by twice the largest value per element."""
        at = images.lo
        centre = rois.lo if rois.exact else (rois.lo + rois.hi) / 2
        lo, hi = ends(lambda t: self.torch(t, centre, at), (1,), Interval(x.lo, x.hi))
        mask = self._masked(lo, x, rois, at)
        if rois.exact:
            return [Interval(lo, hi, mask)]
        far = torch.maximum(x.lo.abs(), x.hi.abs())
        shift = (rois.hi - rois.lo).amax(-1)[:, None, None, None] * self.spatial_scale
        spread = (4 * shift).clamp(max=2) * self._whole(far, centre, at)
        return [Interval(lo - spread, hi + spread, mask)]

    def _masked(self, y, x, rois, images):
        mask = torch.zeros_like(y, dtype=torch.bool)
        if x.any is not None:
            mask = mask | x.any.flatten(2).any(-1)[images][:, :, None, None]
        if rois.any is not None:
            mask = mask | rois.any.any(-1)[:, None, None, None]
        return mask if bool(mask.any()) else None


def _neighbours(positions, size):
    """Indices and weights of the two elements around positions, which are clamped to the axis."""
    positions = positions.clamp(0, size - 1)
    low = positions.floor().clamp(max=max(0, size - 2))
    share = positions - low
    low = low.long()
    return (low, 1 - share), ((low + 1).clamp(max=size - 1), share)


@operator
class RoiAlign(Aligning):
    """The mean of the samples of each bin."""

    copies = True
    mode = "avg"

    def _pooled(self, x, rois, images):
        return self._samples(x, rois, images).mean(-1)


@operator
class RoiAlignMax(Aligning):
    """The largest of the four weighted neighbours of all samples of each bin.

    onnx.reference and ONNX Runtime compute this; TVM takes the largest sample, as the text of ONNX
    suggests. Every result between the two counts as right.
    """

    copies = True
    kinked = True
    mode = "max"

    def _pooled(self, x, rois, images):
        parts = [value * weight for value, weight in self._corners(x, rois, images)]
        return torch.stack([self._binned(p).amax(-1) for p in parts]).amax(0)

    def radius(self, u, y, x, rois, images):
        largest = self._samples(x, rois, images).amax(-1)
        return super().radius(u, y, x, rois, images) + (largest - y).abs()


def _regions(draw, op, first, *_):
    """Draws regions in whole elements (image, x1, y1, x2, y2), which often exceed the image."""
    return tuple(
        value
        for _ in range(draw.integer(1, 4))
        for value in (0, *(draw.integer(0, 12) for _ in range(4)))
    )


@operator
class MaxRoiPool(Zeros):
    """(N, C, H, W) -> (R, C, *size): maxima of the bins of fixed regions of the first image.

    Corners are whole elements and sizes are powers of 2, so that rounding decides nothing; an empty
    bin is 0. Source: ONNX MaxRoiPool-1; Caffe's ROIPooling.
    """

    copies = True
    inputs = (In("T", FLOATS, (4, 4)),)
    unexportable = DECOMPOSED
    monotone = (1,)
    size = Choice(by=lambda draw, *_: (draw.choice((1, 2, 4)), draw.choice((1, 2, 4))))
    regions = Choice(by=_regions)
    spatial_scale = Choice((1.0, 0.5))

    def requires(self, x):
        yield x.rank == 4

    def type_transfer(self, x):
        return [x.with_shape((len(self.regions) // 5, x.shape[1], *self.size))]

    def value_range(self, x):
        return min(x[0], 0.0), max(x[1], 0.0)

    def _bins(self, start, end, bins, size):
        """First and last element (excluded) of each bin along one axis."""
        length = max(end - start + 1, 1)
        for i in range(bins):
            first, last = i * length // bins, -(-(i + 1) * length // bins)
            yield max(0, min(size, first + start)), max(0, min(size, last + start))

    def _bin(self, x, rows, columns):
        if rows[0] >= rows[1] or columns[0] >= columns[1]:
            return torch.zeros_like(x[0, :, 0, 0])
        return x[0, :, slice(*rows), slice(*columns)].amax((1, 2))

    def torch(self, x):
        height, width = sizes(x)[2:]
        results = []
        for i in range(0, len(self.regions), 5):
            x1, y1, x2, y2 = (_half_up(c * self.spatial_scale) for c in self.regions[i + 1 : i + 5])
            rows = list(self._bins(y1, y2, self.size[0], height))
            columns = list(self._bins(x1, x2, self.size[1], width))
            bins = [self._bin(x, r, c) for r in rows for c in columns]
            results.append(torch.stack(bins, -1).reshape(-1, *self.size))
        return torch.stack(results)

    def onnx(self, emit, x):
        rows = [self.regions[i : i + 5] for i in range(0, len(self.regions), 5)]
        rois = emit.const(rows, emit.type(x).dtype)
        options = {"pooled_shape": self.size, "spatial_scale": self.spatial_scale}
        return emit("MaxRoiPool", x, rois, **options)


def _half_up(x):
    return int(x + 0.5)
