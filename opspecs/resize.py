"""Resampling of spatial axes."""

from __future__ import annotations

from fractions import Fraction

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.operand import Operands
from nnfuzz.operators.families.resample import cubic, interpolation, nearest, positions, triangle
from nnfuzz.operators.families.shape import DataMovement, sizes
from nnfuzz.operators.families.sums import largest
from nnfuzz.operators.families.window import chosen, per_axis
from nnfuzz.operators.intervals import linear
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.rounding import SINGLE, lost_terms

NEAREST = (*FLOATS, DType.INT32, DType.INT8, DType.UINT8)
LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
REGIONS = ((0.0, 0.75), (0.25, 0.5), (0.125, 0.875), (0.75, 0.25), (0.5, 0.5))
"""Regions to crop to, which stay within the tensor: beyond it the result jumps to a constant."""
ENDS = ("align_corners", "tf_crop_and_resize")
"""Coordinate transformations that depend on the number of output elements."""
LONGEST = 4096
"""Largest size of an axis for which a float identifies a ratio of two sizes."""
TRANSFORMATIONS = ("half_pixel", "half_pixel", "pytorch_half_pixel", "asymmetric", *ENDS)


class Resizing(Operands, DataMovement):
    """(N, C, *S) -> (N, C, *S'); S' = floor(S * scale).

    The scales have exact reciprocals or are small integers, so that every implementation computes
    the same source positions. Source: ONNX Resize-19; torch.nn.functional.interpolate.
    """

    since = 13
    edges = False
    whole = method = ""
    named = 0
    """Whether the model names the spatial axes and leaves the others out."""
    antialias = 0
    scales = per_axis(1, 2, 2, 3, 4, 0.5, 0.25)
    transformation = Choice(TRANSFORMATIONS)
    by_size = chosen(lambda op: (1,) if op.transformation == "tf_crop_and_resize" else (0, 1))
    region = chosen(lambda op: REGIONS if op.transformation == "tf_crop_and_resize" else ((0, 1),))

    beyond = Choice(lambda op, *_: (0.0, 7.5) if op.region != (0, 1) else (0.0,), default=0.0)
    """The value beyond the tensor, which no region reaches."""

    def _factors(self):
        """The scales as exact ratios, which floats may not represent where sizes imply them."""
        exact = [Fraction(s) for s in self.scales]
        return [s.limit_denominator(LONGEST) for s in exact] if self.by_size else exact

    def requires(self, x):
        yield len(self.scales) == x.rank - 2
        # By scales, the standard has as many elements as the region says, all runtimes more.
        yield self.by_size or self.transformation != "tf_crop_and_resize"
        # Sizes say the same as scales only if nothing is rounded off; some go by sizes alone.
        ends = self.transformation in ENDS
        plain = (not ends and not self.by_size) or (ends and self.by_size and not self.antialias)
        for size, scale in zip(x.shape[2:], self._factors()):
            yield plain or size % scale.denominator == 0
            yield size >= scale.denominator

    def type_transfer(self, x):
        pairs = zip(x.shape[2:], self._factors())
        return [x.with_shape((*x.shape[:2], *(d * s.numerator // s.denominator for d, s in pairs)))]

    def infer_input_types(self, draw, first, dtypes, output):
        return [first.with_shape((*output.shape[:2], *first.shape[2:]))]

    def places(self, shape):
        """Per spatial axis that changes: its number, size, scale and source positions."""
        for axis, (size, scale) in enumerate(zip(shape, self._factors()), 2):
            if scale != 1 or self.transformation == "tf_crop_and_resize":
                region = tuple(Fraction(end) for end in self.region)
                count = size * scale.numerator // scale.denominator
                found = positions(self.transformation, size, count, scale, region)
                yield axis, size, scale, found

    def native(self, x, mode, **options):
        """The call of PyTorch's own operator, which its exporters know."""
        scales = [float(s) for s in self.scales]
        return torch.nn.functional.interpolate(
            x, scale_factor=scales, mode=mode, recompute_scale_factor=False, **options
        )

    def onnx(self, emit, x):
        shape, n = emit.type(x).shape, len(self.scales)
        first = 2 if self.named else 0
        region = ""
        if self.transformation == "tf_crop_and_resize":
            starts, ends = ((outer,) * 2 + (end,) * n for outer, end in zip((0, 1), self.region))
            region = emit.const([*starts[first:], *ends[first:]], DType.FLOAT32)
        options = {"coordinate_transformation_mode": self.transformation, **self.options()}
        options["axes"] = tuple(range(2, len(shape))) if self.named else None
        options["extrapolation_value"] = self.beyond or None
        if self.by_size:
            wanted = self.type_transfer(emit.type(x))[0].shape[first:]
            goal = ["", self.integers(emit, x, wanted)]
        else:
            goal = [emit.const([1, 1, *self.scales][first:], DType.FLOAT32)]
        return emit("Resize", x, region, *goal, mode=self.method, **options)

    def options(self):
        """Attributes of the ONNX operator besides mode and transformation."""
        return {}


@operator
class ResizeNearest(Resizing):
    """Nearest elements at positions where rounding decides nothing: multiples of a power of 2, or
    thirds."""

    copies = True
    whole, method = "kept", "nearest"
    inputs = (In("T", NEAREST, (3, 5)),)
    transformation = Choice(("half_pixel", "asymmetric", "asymmetric", "pytorch_half_pixel"))
    nearest_mode = chosen(
        lambda op: (
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
            if 3 not in op.scales
            else op._modes_by_thirds()
        )
    )

    def _modes_by_thirds(self):
        to_nearest = ("round_prefer_floor", "round_prefer_ceil")
        return (*to_nearest, "floor") if self.transformation == "asymmetric" else to_nearest

    def requires(self, x):
        yield from super().requires(x)
        # Models of others may have positions that rounding moves to another element.
        yield set(self.scales) <= {1, 2, 3, 4, 0.5, 0.25} and self.transformation not in ENDS
        yield 3 not in self.scales or self.nearest_mode in self._modes_by_thirds()

    def torch(self, x):
        if (self.transformation, self.nearest_mode) != ("asymmetric", "floor"):
            return self._picked(x)
        if not x.is_floating_point():
            exact = x.double() if x.dtype is torch.int32 else x.float()
            return self.native(exact, "nearest").to(x.dtype)
        return self.native(x, "nearest")

    def _picked(self, x):
        for axis, size, _, places in self.places(sizes(x)[2:]):
            indices = [nearest(place, self.nearest_mode, size) for place in places]
            x = x.index_select(axis, torch.tensor(indices))
        return x

    def options(self):
        return {"nearest_mode": self.nearest_mode}


class Interpolating(Resizing):
    """Base of weighted sums of neighbours, one axis after the other."""

    inputs = (In("T", FLOATS, (3, 5)),)
    exclude_outside = 0

    def kernel(self):
        """The weight of a neighbour at some distance."""
        return triangle

    def _weighted(self, x, absolute=False):
        last = x.dim() - 1
        for axis, size, scale, places in self.places(sizes(x)[2:]):
            squeeze = min(scale, Fraction(1)) if self.antialias else Fraction(1)
            outside = bool(self.exclude_outside)
            matrix = interpolation(places, size, self.kernel(), squeeze, outside)
            weights = torch.tensor(abs(matrix) if absolute else matrix, dtype=x.dtype)
            x = torch.matmul(x.transpose(axis, last), weights.t()).transpose(axis, last)
        return x

    def torch(self, x):
        return self._weighted(x)

    def radius(self, u, y, x):
        """5 u per axis and weighted input; a source position in [0, s) is off by 4 u s at most,
        which shifts weight between neighbours. No type narrower than float32 holds positions.
        """
        n = x.dim() - 2
        widest = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[n - 1](x.abs(), 3, 1, 1)
        steepness = 4 if self.monotone else 12
        off = u * (5 * n + 1) + min(u, SINGLE) * steepness * max(x.shape[2:])
        whole = self._weighted(widest, absolute=True)
        return off * whole + lost_terms(u, x[0, 0].numel(), whole)


@operator
class ResizeLinear(Interpolating):
    """Linear per spatial axis between the centres of elements, constant beyond the outermost."""

    method = "linear"
    monotone = (1,)

    def torch(self, x):
        if self.transformation == "half_pixel":
            return self.native(x, LINEAR[x.dim()], align_corners=False)
        return self._weighted(x)


class Overshooting(Interpolating):
    """Kernels with negative weights."""

    mixes = True

    def interval(self, x):
        return [linear(self._weighted, x, absolute=lambda t: self._weighted(t, absolute=True))]

    def domain(self, x):
        return [self._weighted(x.abs(), absolute=True) - largest(x) / 2]

    def value_range(self, x):
        most = 3 * max(abs(x[0]), abs(x[1]))
        return -most, most


@operator
class ResizeCubic(Overshooting):
    """Cubic convolution per spatial axis."""

    method = "cubic"
    cubic_coeff_a = Choice((-0.75, -0.75, -0.5))
    exclude_outside = Choice((0, 1))

    def kernel(self):
        return cubic(self.cubic_coeff_a)

    def options(self):
        return {"cubic_coeff_a": self.cubic_coeff_a, "exclude_outside": self.exclude_outside}


@operator
class ResizeAntialias(Overshooting):
    """Resampling with kernels as wide as the output's elements, where these are wider than the
    input's.

    The model may name the spatial axes, and then a policy for the aspect ratio that has no effect.
    """

    since = 19
    method = Choice(("linear", "cubic"))
    transformation = Choice((*TRANSFORMATIONS, "half_pixel_symmetric"))
    scales = per_axis(2, 0.5, 0.5, 0.25)
    antialias = 1
    exclude_outside = Choice((0, 1))
    named = Choice((0, 1))
    policy = chosen(lambda op: ("not_larger", "not_smaller", None) if op.same_size() else (None,))

    def same_size(self):
        """Whether sizes are given for some axes and have equal scales."""
        return self.named and self.by_size and len(set(self.scales)) == 1

    def kernel(self):
        return triangle if self.method == "linear" else cubic(-0.75)

    def options(self):
        found = {"antialias": 1, "exclude_outside": self.exclude_outside}
        return {**found, "keep_aspect_ratio_policy": self.policy}
