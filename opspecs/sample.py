"""Sampling at computed positions."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.shape import sizes
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.rounding import lost_terms
from nnfuzz.operators.unexportable import Unexportable

SAMPLED = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16)
OLD_MODES = {"linear": "bilinear", "cubic": "bicubic"}
"""How PyTorch and ONNX before opset 20 call a mode, where they call it otherwise."""


@operator
class AffineGrid(Summing):
    """(N, n, n + 1) -> (N, *size, n): positions in [-1, 1]^n, transformed, for GridSample.

    ONNX defines it by a function that fails on a single 2-D matrix, which float16 would need.
    Source: ONNX AffineGrid-20; torch.nn.functional.affine_grid.
    """

    since = 20
    weight = 3.0  # few values have such a shape
    inputs = (In("T", SAMPLED[:2], (3, 3)),)
    unexportable = (
        Unexportable("dynamo", "keeps positions in float32 (torch 2.13)", dtypes=(DType.FLOAT64,)),
    )
    exactness = ""
    size = Sym(1, 12, lambda op, *_: op.dims)
    align_corners = Choice((0, 1))
    dims = Choice((2, 3))

    @classmethod
    def draw(cls, draw, *types):
        op = cls.__new__(cls)
        for name in ("dims", "align_corners", "size"):
            setattr(op, name, cls.declared[name].draw(draw, name, op, types))
        return op

    def requires(self, theta):
        yield len(self.size) == self.dims
        yield theta.shape[1] == self.dims
        yield theta.shape[2] == self.dims + 1
        if self.align_corners:  # A single point can not be at both ends.
            yield from (size >= 2 for size in self.size)

    def type_transfer(self, theta):
        return [theta.with_shape((theta.shape[0], *self.size, self.dims))]

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 3 if output_rank in (4, 5) else None

    @classmethod
    def draw_backward(cls, draw, first, output):
        op = cls.draw(draw, first)
        op.dims = output.rank - 2
        op.size = tuple(output.shape[1:-1])
        return op

    def infer_input_types(self, draw, first, dtypes, output):
        return [TensorType(dtypes[0], (output.shape[0], self.dims, self.dims + 1))]

    def torch(self, theta):
        shape = [sizes(theta)[0], 1, *self.size]
        return functional.affine_grid(theta, shape, bool(self.align_corners))

    def onnx(self, emit, theta):
        shape = emit.const([emit.type(theta).shape[0], 1, *self.size], DType.INT64)
        return emit("AffineGrid", theta, shape, align_corners=self.align_corners)

    def absolute(self, theta):
        """Sum of absolute terms; base positions are at most 1."""
        sums = theta.abs().sum(-1)
        axes = range(1, self.dims + 1)
        return sums.reshape(-1, *(1 for _ in axes), self.dims).expand(-1, *self.size, -1)

    def interval(self, theta):
        return [linear(self.torch, theta, absolute=self.absolute)]

    def terms(self, theta):
        return 4 * self.dims


class Sampling(OpSpec):
    """(N, C, *S) at positions (N, *O, n) -> (N, C, *O); -1 and 1 are the ends of an axis.

    Source: ONNX GridSample-20; torch.nn.functional.grid_sample.
    """

    mode = "linear"
    padding_mode = Choice(("zeros", "border", "reflection"))
    align_corners = Choice((0, 1))

    def requires(self, x, grid):
        yield x.rank == grid.rank
        yield grid.shape[0] == x.shape[0]
        yield grid.shape[-1] == x.rank - 2

    def type_transfer(self, x, grid):
        return [x.with_shape((*x.shape[:2], *grid.shape[1:-1]))]

    def complete(self, draw, first, dtypes):
        places = [draw.dim(first.rank) for _ in first.shape[2:]]
        return self._typed(first, places, dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (*output.shape[:2], *first.shape[2:]))
        return self._typed(x, output.shape[2:], dtypes)

    def _typed(self, x, places, dtypes):
        return [x, TensorType(dtypes[1], (x.shape[0], *places, x.rank - 2))]

    def domain(self, x, grid):
        """Positions must be within 100 image sizes; beyond, they have no fraction or exceed
        integers."""
        return [grid.abs() - 100]

    def torch(self, x, grid):
        return self._sampled(x, grid, self.mode, self.padding_mode)

    def _sampled(self, x, grid, mode, padding):
        if x.dtype is torch.float16:
            return self._sampled(x.float(), grid.float(), mode, padding).half()
        name = OLD_MODES.get(mode, mode)
        return functional.grid_sample(x, grid, name, padding, bool(self.align_corners))

    def onnx(self, emit, x, grid):
        mode = OLD_MODES.get(self.mode, self.mode) if emit.opset < 20 else self.mode
        options = {"padding_mode": self.padding_mode, "align_corners": self.align_corners}
        return emit("GridSample", x, grid, mode=mode, **options)

    def value_range(self, x, grid):
        reach = 0.0 if self.mode != "cubic" else 2 * max(abs(x[0]), abs(x[1]))
        return min(x[0], 0.0) - reach, max(x[1], 0.0) + reach

    # -- numbers ----------------------------------------------------------------------------------

    def _pixels(self, x, distances):
        """Distances of positions (N, *O, n) as numbers of elements."""
        sizes = [s - 1 if self.align_corners else s for s in reversed(x.shape[2:])]
        return distances * torch.tensor(sizes, dtype=distances.dtype) / 2

    def _near(self, x, grid, reach):
        """The largest absolute value within `reach` elements of each position; 0 where there is
        only padding."""
        pool = (functional.max_pool2d, functional.max_pool3d)[x.dim() - 4]
        wide = pool(x.abs(), 2 * reach + 1, 1, reach)
        padding = "border" if self.padding_mode == "zeros" else self.padding_mode
        near = self._sampled(wide, grid, "nearest", padding)
        if self.padding_mode != "zeros":
            return near
        beyond = (self._pixels(x, grid.abs() - 1) > reach + 1).any(-1)
        return near.masked_fill(beyond.unsqueeze(1), 0.0)

    def _blur(self, u, x, grid):
        """The rounding error of the positions in elements, per axis."""
        return self._pixels(x, 4 * u * (grid.abs() + 2)) + u

    def _moved(self, x, grid, shift):
        """Upper bound of the change by a shift of the positions, in elements: weight moves between
        neighbours, or any element of a region is possible."""
        steepness, weights = (3.0, 1.4) if self.mode == "cubic" else (2.0, 1.0)
        axes = x.dim() - 2
        total = shift.sum(-1).unsqueeze(1) * steepness * weights ** (axes - 1)
        local = total * self._near(x, grid, 4)
        if not bool((shift >= 1).any()):
            return local
        most = x.abs().flatten(2).amax(-1).reshape(*x.shape[:2], *(1,) * axes)
        far = 2 * weights**axes * most
        return torch.where((shift >= 1).any(-1).unsqueeze(1), far, torch.minimum(local, far))

    def radius(self, u, y, x, grid):
        weights = 1.4 ** (x.dim() - 2) if self.mode == "cubic" else 1.0
        near = weights * self._near(x, grid, 3)
        rounding = 16 * u * near + lost_terms(u, 4 ** (x.dim() - 2), near)
        return rounding + self._moved(x, grid, self._blur(u, x, grid))

    def interval(self, x, grid):
        centre = grid.lo if grid.exact else (grid.lo + grid.hi) / 2
        middle, r = (x.lo + x.hi) / 2, (x.hi - x.lo) / 2
        y = self.torch(middle, centre)
        weights = 1.4 ** (r.dim() - 2) if self.mode == "cubic" else 1.0
        spread = weights * self._near(r, centre, 3)
        if not grid.exact:
            shift = self._pixels(x.lo, (grid.hi - grid.lo) / 2)
            spread = spread + self._moved(middle.abs() + r, centre, shift)
        return [Interval(y - spread, y + spread, self._masked(y, x, grid, centre))]

    def _masked(self, y, x, grid, centre):
        mask = torch.zeros_like(y, dtype=torch.bool)
        if x.any is not None and grid.exact:
            mask = mask | (self._near(x.any.double(), centre, 3) > 0)
        elif x.any is not None:
            touched = x.any.flatten(2).any(-1)
            mask = mask | touched.reshape(*touched.shape, *(1,) * (y.dim() - 2))
        if grid.any is not None:
            mask = mask | grid.any.any(-1).unsqueeze(1)
        return mask if bool(mask.any()) else None


@operator
class GridSample(Sampling):
    """GridSample of images in its linear and cubic modes."""

    copies = True
    weight = 2.0
    since = 16
    inputs = (In("T", SAMPLED, (4, 4)), In("T", ranks=(4, 4)))
    mode = Choice(("linear", "linear", "cubic"))


@operator
class GridSampleVolume(Sampling):
    """GridSample of volumes in its linear mode."""

    since = 20
    weight = 3.0
    inputs = (In("T", SAMPLED, (5, 5)), In("T", ranks=(5, 5)))


@operator
class GridSampleNearest(Sampling):
    """GridSample of the nearest element; ONNX leaves open which one of two at equal distance."""

    copies = True
    weight = 2.0
    since = 16
    mode = "nearest"
    inputs = (In("T", SAMPLED, (4, 4)), In("T", ranks=(4, 4)))

    def margins(self, x, grid):
        """Distances from the middle between two elements."""
        positions = self._pixels(x, grid + 1) + (0.0 if self.align_corners else -0.5)
        return [(positions - positions.floor() - 0.5).abs()]

    def decided(self, u, x, grid):
        """The hull of the candidates: all four (eight in volumes) if rounding can move a position
        across one middle, any element if it can move it across more.
        """
        centre = grid.lo if grid.exact else (grid.lo + grid.hi) / 2
        shift = self._blur(u, x.lo, centre) + self._pixels(x.lo, (grid.hi - grid.lo) / 2)
        step = shift.clamp(max=0.49) / self._pixels(x.lo, torch.ones_like(centre)).clamp(min=0.5)
        lo, hi = self.torch(x.lo, centre), self.torch(x.hi, centre)
        axes = x.lo.dim() - 2
        for signs in itertools.product((-1.0, 1.0), repeat=axes):
            moved = centre + step * torch.tensor(signs, dtype=centre.dtype)
            lo, hi = lo.minimum(self.torch(x.lo, moved)), hi.maximum(self.torch(x.hi, moved))
        far = (shift >= 0.49).any(-1).unsqueeze(1)
        least, most = x.lo.flatten(2).amin(-1), x.hi.flatten(2).amax(-1)
        least, most = (ends.reshape(*ends.shape, *(1,) * axes) for ends in (least, most))
        lo = torch.where(far, least.clamp(max=0), lo)
        hi = torch.where(far, most.clamp(min=0), hi)
        return [Interval(lo, hi, self._masked(lo, x, grid, centre))]

    def radius(self, u, y, x, grid):
        return 0.0


@operator
class GridSampleVolumeNearest(GridSampleNearest):
    """GridSample of the nearest element of a volume."""

    since = 20
    weight = 3.0
    inputs = (In("T", SAMPLED, (5, 5)), In("T", ranks=(5, 5)))
